// The page: its sections in order, and which series each chart shows.

import type { Columns } from "./api";
import { cards } from "./cards";
import { Chart, type ChartOptions, type Series } from "./chart";
import { comparison } from "./compare";
import { conventionBars, headline, scaleOf } from "./conventions";
import { absent, el, section } from "./dom";
import { RUNG_COLOURS, RUNG_NAMES, ladderBars } from "./ladder";
import { passports } from "./passport";
import { roofline } from "./roofline";
import { chip } from "./runs";
import { KINDS, timeBar } from "./shares";
import { strips } from "./strips";
import { AXIS_LABEL, colourOf, family, line, type Shown, type View } from "./view";

const OVERVIEW: { series: string; options: Omit<ChartOptions, "xLabel"> }[] = [
  { series: "mfu_pct", options: { title: "MFU", unit: "percent", from0: true } },
  { series: "tokens_per_s", options: { title: "Tokens per second", unit: "", from0: true } },
  { series: "step_time_s", options: { title: "Time per step", unit: "seconds", from0: true } },
  { series: "tflops_per_gpu", options: { title: "Model FLOP rate per GPU", unit: "TFLOP/s", from0: true } },
  { series: "flops", options: { title: "FLOPs spent", unit: "FLOPs", from0: true } },
  { series: "tokens", options: { title: "Tokens", unit: "tokens", from0: true } },
];

type Kind = "ladder" | "mfu" | "time";

export class Page {
  readonly root = el("main", { id: "main" });
  private readonly charts = new Map<string, Chart>();
  private used = new Set<string>();
  private readonly parts = new Map<string, HTMLElement>();
  private readonly askNode: () => void;
  private passports = "";
  node: Record<string, Columns> | null = null;

  constructor(askNode: () => void) {
    this.askNode = askNode;
  }

  get nodeOpen(): boolean {
    return (this.parts.get("node")?.querySelector("details") as HTMLDetailsElement | null)?.open ?? false;
  }

  say(...content: (Node | string)[]): void {
    this.clear();
    this.root.replaceChildren(el("p", { class: "nothing" }, ...content));
  }

  update(view: View): void {
    this.used = new Set();
    const many = view.runs.length > 1;
    const focused = document.activeElement;
    const each = (make: (run: Shown) => HTMLElement, kind: Kind): HTMLElement =>
      el("div", { class: "panels" }, ...view.runs.map((run) => el("div", { class: "panel" }, many ? chip(run) : null, el("div", { class: "split" }, make(run), this.perRun(kind, run, view)))));
    const scale = scaleOf(view.runs);
    this.put("headline", "Now", "newest values", cards(view));
    const differences = comparison(view);
    this.put("differences", "Compared with A", "medians over each run", differences);
    this.put("overview", "Over time", `by ${AXIS_LABEL[view.x]}; drag to zoom, double-click to see all`, el("div", { class: "charts" }, ...this.overview(view)));
    this.put("ladder", "Utilization ladder", "medians over the run; what is lost between two rungs, and where to look", each(ladderBars, "ladder"));
    this.put("conventions", "MFU under every convention", `medians over the run, counted in other ways; bars end at ${scale} %`, each((run) => conventionBars(run, scale), "mfu"));
    this.put("time", "Where the time goes", "share of wall time; the bar is the whole run", each(timeBar, "time"));
    const roof = roofline(view);
    const gpu = strips(view.runs, (run) => run.data, "gpu/", view.x);
    this.put("roofline", "Roofline", "each run's newest point; faint ones are earlier", roof ?? absent("no run shown has an arithmetic intensity, which needs the GPU's memory counters, and a peak"));
    this.put("gpu", "GPU", "newest value and its course", gpu ?? absent("no GPU counters were published"));
    this.putNode(view);
    this.putPassports(view);
    for (const [key, chart] of this.charts) {
      if (this.used.has(key)) continue;
      chart.destroy();
      this.charts.delete(key);
    }
    // A chart that is in use keeps the keyboard, though its section was made anew.
    if (focused instanceof HTMLElement && focused.isConnected) focused.focus({ preventScroll: true });
  }

  private clear(): void {
    for (const chart of this.charts.values()) chart.destroy();
    this.charts.clear();
    this.parts.clear();
    this.passports = "";
  }

  /** Put a section in its place, or take it away when it has no content. */
  private put(id: string, title: string, note: string, ...content: (HTMLElement | null)[]): void {
    const before = this.parts.get(id);
    if (content.every((part) => part === null)) {
      before?.remove();
      this.parts.delete(id);
      return;
    }
    const made = section(id, title, note, ...content);
    if (before) before.replaceWith(made);
    else this.place(id, made);
    this.parts.set(id, made);
  }

  private place(id: string, made: HTMLElement): void {
    if (!this.parts.size) this.root.replaceChildren();
    if (id === "differences") this.parts.get("headline")!.after(made);
    else this.root.append(made);
  }

  private chart(key: string, options: ChartOptions, series: Series[]): HTMLElement {
    this.used.add(key);
    let chart = this.charts.get(key);
    if (!chart) this.charts.set(key, (chart = new Chart(options)));
    chart.update(series, options);
    return chart.root;
  }

  private overview(view: View): HTMLElement[] {
    return OVERVIEW.map(({ series, options }) => {
      const lines = view.runs
        .map((run) => ({ label: view.runs.length > 1 ? `${run.letter} ${run.name}` : run.name, colour: run.colour, line: line(run.data, series, view.x)! }))
        .filter((each) => each.line?.x.length);
      return lines.length ? this.chart(series, { ...options, xLabel: AXIS_LABEL[view.x] }, lines) : null;
    }).filter((chart): chart is HTMLElement => chart !== null);
  }

  private perRun(kind: Kind, run: Shown, view: View): HTMLElement | null {
    const series = SERIES_OF[kind](run, view);
    const options = { ...OPTIONS_OF[kind], xLabel: AXIS_LABEL[view.x], height: 200 };
    return series.length ? this.chart(`${kind} ${run.name}`, options, series) : null;
  }

  private putNode(view: View): void {
    const shown = this.node ? strips(view.runs, (run) => this.node![run.name] ?? { axes: [], series: {} }, "node/", view.x) : null;
    const content = shown ?? (this.node ? absent("no reading of the node was published") : el("p", { class: "small" }, "Reading …"));
    const before = this.parts.get("node");
    if (!before) {
      const details = el("details", { toggle: () => this.nodeOpen && !this.node && this.askNode() }, el("summary", {}, "CPU, memory, disks and network, as the machine itself saw them"), el("div", { class: "node" }, content));
      this.put("node", "Node", "", details);
    } else {
      before.querySelector(".node")!.replaceChildren(content);
    }
  }

  // Tables in which a user reads, selects and clicks are left alone until they change.
  private putPassports(view: View): void {
    const now = JSON.stringify(view.runs.map((run) => [run.name, run.colour, run.data.passport]));
    if (now === this.passports && this.parts.has("passport")) return;
    this.passports = now;
    this.put("passport", "Passport", "what the run was, spent and reached; every number with its source", passports(view.runs));
  }
}

const OPTIONS_OF: Record<Kind, Omit<ChartOptions, "xLabel">> = {
  ladder: { title: "Rungs over time", unit: "percent", from0: true, to100: true },
  mfu: { title: "Conventions over time", unit: "percent", from0: true },
  time: { title: "Shares over time", unit: "percent", stacked: true },
};

const SERIES_OF: Record<Kind, (run: Shown, view: View) => Series[]> = {
  ladder: (run, view) => found(run, view, Object.keys(RUNG_NAMES).map((rung) => ({ name: `ladder/${rung}`, label: RUNG_NAMES[rung]!, colour: RUNG_COLOURS[rung]! }))),
  mfu: (run, view) =>
    found(run, view, family(run.data, "mfu/").map((name, at) => ({ name: `mfu/${name}`, label: name, colour: colourOf(at), bold: name === headline(run) }))),
  time: (run, view) => found(run, view, [...KINDS].reverse().map(({ kind, label, colour }) => ({ name: `time/${kind}`, label, colour }))),
};

function found(run: Shown, view: View, wanted: { name: string; label: string; colour: string; bold?: boolean }[]): Series[] {
  return wanted.map(({ name, ...rest }) => ({ ...rest, line: line(run.data, name, view.x)! })).filter((each) => each.line?.x.length);
}
