// The utilization ladder: from wall time down to MFU, and what each gap on the way means.

import { absent, el } from "./dom";
import { figure } from "./format";
import { reason, type Shown } from "./view";

export const RUNG_NAMES: Record<string, string> = {
  "1_gpu_util": "GPU busy",
  "2_sm_active": "SMs active",
  "3_tensor_active": "tensor cores active",
  "4_ofu": "OFU",
  "5_hfu": "HFU",
  "6_mfu": "MFU",
};

// From pale to strong: the further down, the more of it is the user's own model.
export const RUNG_COLOURS: Record<string, string> = {
  "1_gpu_util": "#9aa5b1",
  "2_sm_active": "#56b4e9",
  "3_tensor_active": "#0072b2",
  "4_ofu": "#009e73",
  "5_hfu": "#e69f00",
  "6_mfu": "#d55e00",
};

export function ladderBars(run: Shown): HTMLElement {
  const { rungs, gaps } = run.data.ladder;
  if (!rungs.length) return el("div", {}, absent(reason(run.data, "efficiency.ladder.1_gpu_util", "efficiency.mfu_pct")));
  const list = el("ol", { class: "ladder" });
  for (const { rung, value, meaning } of rungs) {
    const gap = gaps.find((each) => each.lower === rung);
    const points = gap && Math.abs(gap.points) >= 0.05 ? `${gap.points > 0 ? "−" : "+"}${Math.abs(gap.points).toFixed(1)}` : "";
    if (gap) list.append(el("li", { class: "gap" }, el("b", {}, points), el("span", {}, gap.sentence)));
    const bar = el("i", { style: `width:${Math.max(0, Math.min(100, value))}%;background:${RUNG_COLOURS[rung]}` });
    list.append(el("li", { class: "rung", title: meaning }, el("span", { class: "name" }, RUNG_NAMES[rung] ?? rung), el("span", { class: "bar" }, bar), figure(value, "percent", `median ladder/${rung}`)));
  }
  return el("div", {}, list);
}
