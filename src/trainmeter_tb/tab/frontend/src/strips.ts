// Small strips of many readings: the GPU's and the node's own.

import type { Columns } from "./api";
import { el, svg } from "./dom";
import { figure } from "./format";
import { last, line, type Shown, type XAxis } from "./view";

const WIDTH = 160;
const HEIGHT = 28;
const MOST_POINTS = 160;

const UNITS: [RegExp, string][] = [
  [/_bytes_per_s$/, "B/s"],
  [/_bytes$/, "bytes"],
  [/_pct$|active$|occupancy$|throttle$|^cpu\/|util$/, "percent"],
  [/_w$/, "W"],
  [/_j$/, "J"],
  [/_mhz$/, "MHz"],
  [/_c$/, "°C"],
  [/_tflops$/, "TFLOP/s"],
  [/_s$/, "seconds"],
];

const LABELS: Record<string, string> = {
  dram_active: "memory active",
  mem_used_bytes: "memory used",
  observed_tflops: "FLOP rate",
  sm_clock_mhz: "SM clock",
  sm_occupancy: "SM occupancy",
  fp32_active: "FP32 active",
  temp_c: "temperature",
  throttle: "clock held back",
};

export function unitOf(name: string): string {
  return UNITS.find(([pattern]) => pattern.test(name))?.[1] ?? "";
}

/** One strip for each reading that any of the runs has; `of` gives a run's columns. */
export function strips(runs: Shown[], of: (run: Shown) => Columns, prefix: string, x: XAxis): HTMLElement | null {
  const names = [...new Set(runs.flatMap((run) => Object.keys(of(run).series)))].filter((name) => name.startsWith(prefix)).sort();
  if (!names.length) return null;
  return el("div", { class: "strips" }, ...names.map((name) => strip(runs, of, name, prefix, x)));
}

function strip(runs: Shown[], of: (run: Shown) => Columns, name: string, prefix: string, x: XAxis): HTMLElement {
  const lines = runs.map((run) => ({ run, line: line(of(run), name, x) })).filter((each) => each.line?.x.length);
  const xs = lines.flatMap(({ line }) => [line!.x[0]!, line!.x[line!.x.length - 1]!]);
  const ys = lines.flatMap(({ line }) => line!.y);
  const low = Math.min(0, least(ys));
  const high = greatest(ys);
  const toX = (value: number): number => ((value - Math.min(...xs)) / (Math.max(...xs) - Math.min(...xs) || 1)) * WIDTH;
  const toY = (value: number): number => HEIGHT - 1 - ((value - low) / (high - low || 1)) * (HEIGHT - 2);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const values = el("span", { class: "values" });
  for (const { run, line } of lines) {
    const stride = Math.max(1, Math.ceil(line!.x.length / MOST_POINTS));
    const points: string[] = [];
    for (let at = 0; at < line!.x.length; at += stride) points.push(`${toX(line!.x[at]!).toFixed(1)},${toY(line!.y[at]!).toFixed(1)}`);
    picture.append(svg("polyline", { points: points.join(" "), stroke: run.colour, "vector-effect": "non-scaling-stroke" }));
    const shown = figure(last(of(run), name)!, unitOf(name), name);
    if (runs.length > 1) shown.setAttribute("style", `color:${run.colour}`);
    values.append(shown);
  }
  const bare = name.slice(prefix.length);
  const label = LABELS[bare] ?? bare.replace(/_bytes_per_s$/, "").replace(/_(bytes|pct|w|j|mhz|c|s)$/, "").replace(/_/g, " ");
  return el("div", { class: "strip", title: name }, el("span", { class: "name" }, label), values, picture);
}

function least(values: number[]): number {
  return values.reduce((low, value) => (value < low ? value : low), Infinity);
}

function greatest(values: number[]): number {
  return values.reduce((high, value) => (value > high ? value : high), -Infinity);
}
