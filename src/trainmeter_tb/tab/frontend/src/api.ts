// What the plugin's routes answer, and asking them.

export interface Listed {
  name: string;
  step: number;
  wall_time: number;
}

export interface Axis {
  step: number[];
  time: number[];
}

export interface Column {
  axis: number;
  values: number[];
}

export interface Columns {
  axes: Axis[];
  series: Record<string, Column>;
}

export interface Gap {
  upper: string;
  lower: string;
  points: number;
  sentence: string;
}

export interface Ladder {
  rungs: { rung: string; value: number; meaning: string }[];
  gaps: Gap[];
}

export interface Passport {
  json?: Record<string, any>;
  markdown?: string;
  problem?: string;
}

export interface RunData extends Columns {
  ladder: Ladder;
  passport: Passport | null;
}

export interface Difference {
  run: string;
  against: string;
  sentences: string[];
}

export interface Data {
  runs: Record<string, RunData>;
  differences: Difference[];
}

async function ask<T>(route: string, runs: string[] = []): Promise<T> {
  const query = runs.map((run) => `run=${encodeURIComponent(run)}`).join("&");
  const answer = await fetch(query ? `./${route}?${query}` : `./${route}`);
  if (!answer.ok) throw new Error(`TensorBoard answered ${answer.status}`);
  return (await answer.json()) as T;
}

export const listRuns = async (): Promise<Listed[]> => (await ask<{ runs: Listed[] }>("runs")).runs;
export const readData = (runs: string[]): Promise<Data> => ask<Data>("data", runs);
export const readNode = async (runs: string[]): Promise<Record<string, Columns>> =>
  (await ask<{ runs: Record<string, Columns> }>("node", runs)).runs;
