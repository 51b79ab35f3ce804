// The roofline: FLOP rate against FLOPs per byte of memory traffic, under the roof of peak and bandwidth.

import { el, svg } from "./dom";
import { inUnit, si } from "./format";
import { chip } from "./runs";
import { column, last, type Shown, type View } from "./view";

interface Roof {
  peak: number;
  ridge: number;
}

interface Mark {
  run: Shown;
  kind: "observed" | "model";
  x: number;
  y: number;
  faint?: boolean;
}

const WIDTH = 640;
const HEIGHT = 300;
const LEFT = 52;
const RIGHT = 16;
const TOP = 14;
const BOTTOM = 40;

/** Null when no run has an intensity, a rate and a peak to draw. */
export function roofline(view: View): HTMLElement | null {
  const roofs = view.runs.map((run) => roofOf(run));
  const marks = view.runs.flatMap((run) => marksOf(run));
  const known = roofs.filter((roof): roof is Roof => roof !== null);
  if (!known.length || !marks.length) return null;
  const xs = [...marks.map((mark) => mark.x), ...known.map((roof) => roof.ridge)];
  const ys = [...marks.map((mark) => mark.y), ...known.map((roof) => roof.peak)];
  const x = scale(Math.min(...xs) / 4, Math.max(...xs) * 4, LEFT, WIDTH - RIGHT);
  const y = scale(Math.min(...ys) / 3, Math.max(...ys) * 1.8, HEIGHT - BOTTOM, TOP);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "roofline", role: "img", "aria-label": describe(view, marks) });
  picture.append(...grid(x, y));
  const drawn = new Set<string>();
  for (const roof of known) {
    const key = `${roof.peak} ${roof.ridge}`;
    if (!drawn.has(key)) picture.append(...roofLines(roof, x, y));
    drawn.add(key);
  }
  picture.append(...marks.map((mark) => dot(mark, x, y)));
  return el("figure", { class: "chart roof-and-key" }, picture, key(view, marks));
}

function roofOf(run: Shown): Roof | null {
  const peak: number | undefined = run.data.passport?.json?.["options"]?.peak_tflops?.value;
  const ridge = last(run.data, "intensity/ridge");
  return peak && ridge ? { peak, ridge } : null;
}

function marksOf(run: Shown): Mark[] {
  const marks: Mark[] = [];
  const intensity = column(run.data, "intensity/observed");
  const rate = column(run.data, "gpu/observed_tflops");
  if (intensity && rate && intensity.axis === rate.axis) {
    const stride = Math.max(1, Math.floor(intensity.values.length / 120));
    for (let at = 0; at < intensity.values.length; at += stride) marks.push({ run, kind: "observed", x: intensity.values[at]!, y: rate.values[at]!, faint: true });
  }
  const add = (kind: Mark["kind"], x: number | null, y: number | null): void => {
    if (x !== null && y !== null) marks.push({ run, kind, x, y });
  };
  add("observed", last(run.data, "intensity/observed"), last(run.data, "gpu/observed_tflops"));
  add("model", last(run.data, "intensity/model"), last(run.data, "tflops_per_gpu"));
  return marks.filter((mark) => mark.x > 0 && mark.y > 0);
}

interface Scale {
  low: number;
  high: number;
  at: (value: number) => number;
}

function scale(low: number, high: number, from: number, to: number): Scale {
  const span = Math.log(high / low);
  return { low, high, at: (value) => from + (Math.log(value / low) / span) * (to - from) };
}

/** 1, 2 and 5 of each decade. */
function ticks(range: Scale): number[] {
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(range.low)); 10 ** power <= range.high; power++) found.push(10 ** power, 2 * 10 ** power, 5 * 10 ** power);
  return found.filter((value) => value >= range.low && value <= range.high);
}

function grid(x: Scale, y: Scale): SVGElement[] {
  const bottom = HEIGHT - BOTTOM;
  const right = WIDTH - RIGHT;
  return [
    ...ticks(x).flatMap((value) => [
      svg("line", { class: "grid", x1: x.at(value), x2: x.at(value), y1: TOP, y2: bottom }),
      svg("text", { x: x.at(value), y: bottom + 14, "text-anchor": "middle" }, si(value, 2)),
    ]),
    ...ticks(y).flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: y.at(value), y2: y.at(value) }),
      svg("text", { x: LEFT - 6, y: y.at(value) + 4, "text-anchor": "end" }, si(value, 2)),
    ]),
    svg("text", { x: (LEFT + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "FLOPs per byte of memory traffic"),
    svg("text", { x: 12, y: (TOP + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + bottom) / 2})` }, "TFLOP/s per GPU"),
  ];
}

function roofLines(roof: Roof, x: Scale, y: Scale): SVGElement[] {
  const slope = roof.peak / roof.ridge;
  const start = Math.max(x.low, y.low / slope);
  const ridge = x.at(roof.ridge);
  const top = y.at(roof.peak);
  return [
    svg("polyline", { class: "roof", points: `${x.at(start)},${y.at(start * slope)} ${ridge},${top} ${x.at(x.high)},${top}` }),
    svg("line", { class: "ridge", x1: ridge, x2: ridge, y1: top, y2: HEIGHT - BOTTOM }),
    svg("text", { x: ridge + 5, y: HEIGHT - BOTTOM - 6 }, `ridge ${inUnit(roof.ridge, "FLOP/byte")}`),
    svg("text", { x: WIDTH - RIGHT, y: top - 4, "text-anchor": "end" }, `peak ${inUnit(roof.peak, "TFLOP/s")}`),
  ];
}

function dot(mark: Mark, x: Scale, y: Scale): SVGElement {
  const at = { cx: x.at(mark.x), cy: y.at(mark.y) };
  if (mark.faint) return svg("circle", { ...at, r: 2, fill: mark.run.colour, opacity: 0.18 });
  const title = svg("title", {}, sentence(mark));
  if (mark.kind === "model") return svg("circle", { ...at, r: 5, fill: "none", stroke: mark.run.colour, "stroke-width": 2 }, title);
  return svg("circle", { ...at, r: 5, fill: mark.run.colour }, title);
}

function sentence(mark: Mark): string {
  const what = mark.kind === "model" ? "model FLOPs over the fewest bytes" : "observed by the GPU's counters";
  return `${mark.run.name}, ${what}: ${inUnit(mark.x, "FLOP/byte")}, ${inUnit(mark.y, "TFLOP/s")}`;
}

const describe = (_view: View, marks: Mark[]): string => marks.filter((mark) => !mark.faint).map(sentence).join("; ");

function key(view: View, marks: Mark[]): HTMLElement {
  const items = view.runs.flatMap((run) =>
    marks
      .filter((mark) => mark.run === run && !mark.faint)
      .map((mark) => el("li", {}, chip(run), el("span", { class: "label" }, mark.kind === "model" ? "○ model" : "● observed"), el("b", {}, `${inUnit(mark.x, "FLOP/byte")}, ${inUnit(mark.y, "TFLOP/s")}`))),
  );
  return el("ul", { class: "legend" }, ...items);
}
