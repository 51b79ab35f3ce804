// MFU under every convention that applies, as bars in one scale.

import { absent, el } from "./dom";
import { figure } from "./format";
import { family, median, reason, type Shown } from "./view";

export function headline(run: Shown): string {
  return run.data.passport?.json?.["options"]?.convention ?? "";
}

/** `scale` is the percent at the right end, the same for all runs that are shown. */
export function conventionBars(run: Shown, scale: number): HTMLElement {
  const found = medians(run).sort((a, b) => b.value - a.value);
  if (!found.length) return el("div", {}, absent(reason(run.data, "efficiency.mfu_pct", "options.peak_tflops")));
  const list = el("ol", { class: "bars" });
  for (const { name, value } of found) {
    const bar = el("i", { style: `width:${Math.min(100, (100 * value) / scale)}%` });
    const first = name === headline(run);
    list.append(el("li", { class: first ? "headline" : "", title: first ? "the headline convention" : "" }, el("span", { class: "name" }, name), el("span", { class: "bar" }, bar), figure(value, "percent", `median mfu/${name}`)));
  }
  return el("div", {}, list);
}

export function scaleOf(runs: Shown[]): number {
  const highest = Math.max(10, ...runs.flatMap((run) => medians(run).map((each) => each.value)));
  return Math.ceil(highest / 10) * 10;
}

function medians(run: Shown): { name: string; value: number }[] {
  return family(run.data, "mfu/").map((name) => ({ name, value: median(run.data, `mfu/${name}`)! }));
}
