// The runs that are shown, their colours and letters, and their series along the chosen axis.

import type { Column, Columns, Data, RunData } from "./api";

export type XAxis = "step" | "time" | "tokens";

export interface Shown {
  name: string;
  letter: string;
  colour: string;
  data: RunData;
}

export interface View {
  runs: Shown[];
  data: Data;
  x: XAxis;
}

export interface Line {
  x: number[];
  y: number[];
}

// After Wong's palette, which the colour-blind can tell apart: darker on white, lighter on near-black.
const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0508a", "#8a6d00", "#2f8fc7", "#7b5ea7", "#8c564b", "#b97800", "#4d7f17", "#b2182b", "#546e7a"],
  dark: ["#4aa8e0", "#f0863a", "#35c79b", "#e19ac4", "#d0b13c", "#8ccdf0", "#b39ddb", "#c79a8d", "#f0b84a", "#9ccc65", "#ef7d7d", "#a5b8c2"],
};

export function colourOf(index: number): string {
  const palette = document.documentElement.dataset["theme"] === "dark" ? COLOURS.dark : COLOURS.light;
  return palette[index % palette.length]!;
}

export const letter = (index: number): string => String.fromCharCode(65 + index);

export function view(selected: string[], data: Data, x: XAxis): View {
  const runs = selected
    .filter((name) => data.runs[name])
    .map((name, index) => ({
      name,
      letter: letter(index),
      colour: colourOf(index),
      data: data.runs[name]!,
    }));
  return { runs, data, x };
}

export function column(data: Columns, name: string): Column | null {
  const found = data.series[name];
  return found && found.values.length ? found : null;
}

export function last(data: Columns, name: string): number | null {
  const found = column(data, name);
  return found ? found.values[found.values.length - 1]! : null;
}

/** The share of a kind of time in the whole run: from its passport, else from its rows, each by the time it covers. */
export function shareOf(data: RunData, kind: string): number | null {
  const shares = data.passport?.json?.["time"]?.shares;
  if (shares) return shares[kind]?.value ?? null;
  const found = column(data, `time/${kind}`);
  if (!found) return null;
  const times = data.axes[found.axis]!.time;
  let sum = 0;
  let whole = 0;
  for (let at = 1; at < times.length; at++) {
    const covered = Math.max(0, times[at]! - times[at - 1]!);
    sum += covered * found.values[at]!;
    whole += covered;
  }
  return whole > 0 ? sum / whole : found.values[0]!;
}

export function median(data: Columns, name: string): number | null {
  const values = [...(column(data, name)?.values ?? [])].sort((a, b) => a - b);
  if (!values.length) return null;
  const middle = values.length >> 1;
  return values.length % 2 ? values[middle]! : (values[middle - 1]! + values[middle]!) / 2;
}

/** Names of series in a family ("mfu/"), with the family's name taken off. */
export function family(data: Columns, prefix: string): string[] {
  return Object.keys(data.series)
    .filter((name) => name.startsWith(prefix) && column(data, name))
    .map((name) => name.slice(prefix.length));
}

/** A series along the chosen axis: steps of the user's, hours since its first point, or tokens. */
export function line(data: Columns, name: string, x: XAxis): Line | null {
  const found = column(data, name);
  if (!found) return null;
  const axis = data.axes[found.axis]!;
  return ascending(abscissa(data, axis.step, axis.time, x), found.values);
}

function abscissa(data: Columns, steps: number[], times: number[], x: XAxis): number[] {
  if (x === "time") {
    const begin = Math.min(...data.axes.map((each) => each.time[0] ?? Infinity));
    return times.map((time) => (time - begin) / 3600);
  }
  const tokens = x === "tokens" ? column(data, "tokens") : null;
  if (!tokens) return steps;
  const at = new Map(data.axes[tokens.axis]!.step.map((step, index) => [step, tokens.values[index]!]));
  return steps.map((step) => at.get(step) ?? NaN);
}

// A chart needs ascending places: a run that went back to an earlier step is shown from there on as it was resumed.
function ascending(x: number[], y: number[]): Line {
  const line: Line = { x: [], y: [] };
  for (let index = 0; index < x.length; index++) {
    if (Number.isNaN(x[index])) continue;
    while (line.x.length && line.x[line.x.length - 1]! >= x[index]!) {
      line.x.pop();
      line.y.pop();
    }
    line.x.push(x[index]!);
    line.y.push(y[index]!);
  }
  return line;
}

export const AXIS_LABEL: Record<XAxis, string> = { step: "step", time: "hours", tokens: "tokens" };

/** Why a number of the passport is not known. */
export function reason(data: RunData, ...fields: string[]): string {
  const gaps: { field: string; reason: string }[] = data.passport?.json?.["gaps"] ?? [];
  for (const field of fields) {
    const gap = gaps.find((each) => each.field === field);
    if (gap) return gap.reason;
  }
  return "not published by this run";
}
