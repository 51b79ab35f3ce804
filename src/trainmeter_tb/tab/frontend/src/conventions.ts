// MFU under every convention that applies, as bars in one scale.

import { absent, el } from "./dom";
import { figure } from "./format";
import { chip } from "./runs";
import { family, last, reason, type Shown } from "./view";

export const CONVENTION_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a08000", "#56b4e9", "#7b5ea7", "#8c564b", "#e69f00", "#4d7f17", "#b2182b", "#607d8b"];

export function headline(run: Shown): string {
  return run.data.passport?.json?.["options"]?.convention ?? "";
}

export function conventionBars(run: Shown, many: boolean): HTMLElement {
  const head = many ? chip(run) : null;
  const found = family(run.data, "mfu/")
    .map((name) => ({ name, value: last(run.data, `mfu/${name}`)! }))
    .sort((a, b) => b.value - a.value);
  if (!found.length) return el("div", { class: "panel" }, head, absent(reason(run.data, "efficiency.mfu_pct", "options.peak_tflops")));
  const widest = Math.max(...found.map((each) => each.value), 1e-9);
  const list = el("ol", { class: "bars" });
  for (const { name, value } of found) {
    const bar = el("i", { style: `width:${(100 * value) / widest}%` });
    const first = name === headline(run);
    list.append(el("li", { class: first ? "headline" : "", title: first ? "the headline convention" : "" }, el("span", { class: "name" }, name), el("span", { class: "bar" }, bar), figure(value, "percent", `mfu/${name}`)));
  }
  return el("div", { class: "panel" }, head, list);
}
