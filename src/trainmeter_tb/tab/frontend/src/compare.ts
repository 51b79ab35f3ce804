// What sets the other runs apart from the first, in words.

import { el } from "./dom";
import { chip } from "./runs";
import type { View } from "./view";

export function comparison(view: View): HTMLElement | null {
  const first = view.runs[0];
  if (!first || view.runs.length < 2) return null;
  const panels = view.data.differences.map((difference) => {
    const run = view.runs.find((each) => each.name === difference.run);
    if (!run) return null;
    const told = difference.sentences.map((sentence) => el("li", {}, `${run.letter} ${sentence}.`));
    const body = told.length ? el("ul", { class: "words" }, ...told) : el("p", { class: "small" }, "No difference larger than what two equal runs may show.");
    return el("div", { class: "panel" }, el("div", { class: "against" }, chip(run), " against ", chip(first)), conventions(view, run.name), body);
  });
  return el("div", { class: "panels" }, ...panels);
}

function conventions(view: View, other: string): HTMLElement | null {
  const of = (name: string): string | undefined => view.data.runs[name]?.passport?.json?.["options"]?.convention;
  const [a, b] = [of(view.runs[0]!.name), of(other)];
  if (!a || !b || a === b) return null;
  return el("p", { class: "alarm" }, `Their headline MFUs use different conventions (${a}, ${b}): compare them under one convention below.`);
}
