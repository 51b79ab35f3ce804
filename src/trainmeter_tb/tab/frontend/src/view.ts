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

// Wong's palette, which the colour-blind can tell apart; each reads on white and on near-black.
export const RUN_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a08000", "#56b4e9", "#7b5ea7", "#8c564b", "#e69f00", "#4d7f17", "#b2182b", "#607d8b"];

export const letter = (index: number): string => String.fromCharCode(65 + index);

export function view(selected: string[], data: Data, x: XAxis): View {
  const runs = selected
    .filter((name) => data.runs[name])
    .map((name, index) => ({
      name,
      letter: letter(index),
      colour: RUN_COLOURS[index % RUN_COLOURS.length]!,
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
