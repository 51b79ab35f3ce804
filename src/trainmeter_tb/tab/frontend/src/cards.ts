// The headline: what a glance should tell of each run.

import { absent, el } from "./dom";
import { duration, figure, inUnit } from "./format";
import { chip } from "./runs";
import { last, reason, shareOf, type Shown, type View } from "./view";

type Card = { title: string; content: (run: Shown) => (Node | null)[] };

const CARDS: Card[] = [
  { title: "MFU", content: mfu },
  { title: "Tokens per second", content: speed },
  { title: "FLOPs spent", content: spent },
  { title: "Progress", content: progress },
  { title: "Time per step", content: stepTime },
  { title: "Largest loss of time", content: loss },
];

export function cards(view: View): HTMLElement {
  const many = view.runs.length > 1;
  const made = CARDS.map(({ title, content }) =>
    el("div", { class: "card", role: "group", "aria-label": title }, el("h3", {}, title), ...view.runs.map((run) => el("div", { class: "of-run" }, many ? chip(run) : null, el("div", {}, ...content(run))))),
  );
  return el("div", { class: many ? "cards many" : "cards" }, ...made);
}

const small = (...parts: (Node | string | null)[]): HTMLElement => el("div", { class: "small" }, ...parts);

function mfu(run: Shown): (Node | null)[] {
  const value = last(run.data, "mfu_pct");
  const options = run.data.passport?.json?.["options"];
  if (value === null) return [absent(reason(run.data, "efficiency.mfu_pct", "options.peak_tflops"))];
  const peak = options?.peak_tflops;
  const source = options?.peak_source === "user" ? "given by the user" : options?.peak_source;
  const of = peak ? `peak ${inUnit(peak.value, "TFLOP/s")}${options.peak_dtype ? ` ${options.peak_dtype}` : ""}` : null;
  const told = [options?.convention, of, source].filter((part) => part).join(" · ");
  const impossible = value > 100 ? el("div", { class: "alarm" }, "Above 100 %: the FLOPs count or the peak is wrong.") : null;
  return [big(value, "percent", "mfu_pct"), impossible, small(told || "convention and peak are in the passport")];
}

function big(value: number, unit: string, series: string): HTMLElement {
  return el("div", { class: "big" }, figure(value, unit, series));
}

function speed(run: Shown): (Node | null)[] {
  const value = last(run.data, "tokens_per_s");
  if (value === null) return [absent(reason(run.data, "efficiency.tokens_per_s"))];
  const each = last(run.data, "tokens_per_s_per_gpu");
  return [big(value, "", "tokens_per_s"), each === null || each === value ? null : small(figure(each, "", "tokens_per_s_per_gpu"), " per GPU")];
}

function spent(run: Shown): (Node | null)[] {
  const value = last(run.data, "flops");
  if (value === null) return [absent(flopsReason(run))];
  const required = last(run.data, "flops_required");
  const tokens = last(run.data, "tokens");
  return [
    big(value, "FLOPs", "flops"),
    small(
      ...(required === null ? [] : ["of ", figure(required, "FLOPs", "flops_required"), " · "]),
      ...(tokens === null ? [] : [figure(tokens, "tokens", "tokens"), " tokens"]),
    ),
  ];
}

function flopsReason(run: Shown): string {
  const convention: string = run.data.passport?.json?.["options"]?.convention ?? "";
  return reason(run.data, `compute.flops.${convention}`);
}

function progress(run: Shown): (Node | null)[] {
  const step = last(run.data, "step");
  const share = last(run.data, "progress_pct");
  const eta = last(run.data, "eta_s");
  const ends: string | null = run.data.passport?.json?.["ends"]?.how ?? null;
  if (share === null) return [step === null ? absent("no step was published") : el("div", { class: "big" }, "step ", figure(step, "tokens", "step")), small(ends ?? "no budget was given, so there is no end to foresee")];
  const left = ends ?? (eta === null ? null : `${duration(eta)} to go`);
  const bar = el("div", { class: "meter", role: "img", "aria-label": `${share.toFixed(1)} % done` }, el("i", { style: `width:${Math.min(100, share)}%` }));
  const steps = step === null ? [] : [figure(step, "tokens", "step"), " steps", left ? " · " : ""];
  return [big(share, "percent", "progress_pct"), bar, small(...steps, left)];
}

function stepTime(run: Shown): (Node | null)[] {
  const value = last(run.data, "step_time_s");
  if (value === null) return [absent(reason(run.data, "efficiency.step_time_s"))];
  const rate = last(run.data, "tflops_per_gpu");
  return [big(value, "seconds", "step_time_s"), rate === null ? null : small(figure(rate, "TFLOP/s", "tflops_per_gpu"), " per GPU")];
}

const LOSSES: Record<string, string> = {
  data_wait: "waiting for data",
  checkpoint: "saving checkpoints",
  eval: "in evaluation",
  logging: "in tracker calls",
  startup: "starting up",
  other: "outside what trainmeter sees",
};

/** The kind of time, besides the steps themselves, that took most of the whole run. */
function loss(run: Shown): (Node | null)[] {
  const found = Object.keys(LOSSES)
    .map((kind) => ({ kind, value: shareOf(run.data, kind) }))
    .filter((each): each is { kind: string; value: number } => each.value !== null)
    .sort((a, b) => b.value - a.value)[0];
  if (!found) return [absent("no time shares were published")];
  return [big(found.value, "percent", `share ${found.kind}`), small(`${LOSSES[found.kind]!}, over the whole run`)];
}
