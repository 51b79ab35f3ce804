// Where the time goes: the kinds of time, their colours, and the whole run as one bar.

import { absent, el } from "./dom";
import { figure } from "./format";
import { shareOf, type Shown } from "./view";

export const KINDS: { kind: string; label: string; colour: string }[] = [
  { kind: "step", label: "step", colour: "#4c78a8" },
  { kind: "data_wait", label: "waiting for data", colour: "#e45756" },
  { kind: "checkpoint", label: "checkpoint", colour: "#b279a2" },
  { kind: "eval", label: "evaluation", colour: "#72b7b2" },
  { kind: "logging", label: "logging", colour: "#eeca3b" },
  { kind: "startup", label: "start-up", colour: "#9d755d" },
  { kind: "other", label: "other", colour: "#a9b1bb" },
];

/** The share of each kind in the whole run. */
export function timeBar(run: Shown): HTMLElement {
  const parts = KINDS.map((each) => ({ ...each, share: shareOf(run.data, each.kind) })).filter((part) => part.share !== null);
  if (!parts.length) return el("div", {}, absent("no time shares were published"));
  const bar = el("div", { class: "shares", role: "img", "aria-label": parts.map((part) => `${part.label} ${part.share!.toFixed(1)} %`).join(", ") });
  for (const part of parts) bar.append(el("i", { style: `width:${part.share}%;background:${part.colour}`, title: `${part.label} ${part.share!.toFixed(1)} %` }));
  const legend = el("ul", { class: "legend" }, ...parts.map((part) => el("li", {}, el("i", { class: "swatch", style: `background:${part.colour}` }), el("span", { class: "label" }, part.label), figure(part.share!, "percent", `share ${part.kind}`))));
  return el("div", {}, bar, legend);
}
