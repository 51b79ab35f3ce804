// Entry: TensorBoard loads this module in a frame and calls render().

import { listRuns, readData, readNode, type Data, type Listed } from "./api";
import { el } from "./dom";
import { Page } from "./page";
import { RunList } from "./runs";
import "./style.css";
import { followTheme } from "./theme";
import { view, type XAxis } from "./view";

const EVERY_MS = 5000;
const SHOWN_AT_FIRST = 2;
const KEPT = "trainmeter-tab";

interface Kept {
  selected: string[];
  x: XAxis;
}

class Tab {
  private runs: Listed[] = [];
  private data: Data = { runs: {}, differences: [] };
  private kept: Kept = recall();
  private seen = "";
  private asking = 0;
  private readonly list = new RunList((selected) => this.choose(selected));
  private readonly page = new Page(() => void this.readNode());
  private readonly status = el("span", { class: "small", role: "status" });

  start(): void {
    document.documentElement.lang = "en";
    document.title = "trainmeter";
    document.head.append(el("link", { rel: "stylesheet", href: "./static/index.css", load: () => this.draw() }));
    document.body.append(el("a", { class: "skip", href: "#main", click: (event) => this.skip(event) }, "Skip to the charts"), this.bar(), el("div", { class: "frame" }, this.list.root, this.page.root));
    followTheme(() => this.draw());
    void this.reload();
    setInterval(() => document.visibilityState === "visible" && document.body.clientWidth > 0 && void this.reload(), EVERY_MS);
  }

  private bar(): HTMLElement {
    const choice = (x: XAxis, label: string): HTMLElement =>
      el("label", {}, el("input", { type: "radio", name: "x", value: x, checked: this.kept.x === x, change: () => this.along(x) }), label);
    return el(
      "header",
      {},
      el("h1", {}, "trainmeter"),
      el("fieldset", { class: "choice" }, el("legend", {}, "Horizontal axis"), choice("step", "step"), choice("time", "time"), choice("tokens", "tokens")),
      this.status,
      el("button", { type: "button", click: () => void this.reload(true) }, "Reload"),
    );
  }

  // The frame's base address is another than its page's, so that a plain link would leave it.
  private skip(event: Event): void {
    event.preventDefault();
    this.page.root.setAttribute("tabindex", "-1");
    this.page.root.focus();
  }

  private along(x: XAxis): void {
    this.kept.x = x;
    remember(this.kept);
    this.draw();
  }

  private choose(selected: string[]): void {
    this.kept.selected = selected;
    remember(this.kept);
    void this.reload(true);
  }

  private async reload(anew = false): Promise<void> {
    const asking = ++this.asking;
    try {
      const runs = await listRuns();
      if (asking !== this.asking) return;
      this.runs = runs;
      const names = new Set(runs.map((run) => run.name));
      const there = this.kept.selected.filter((name) => names.has(name));
      const selected = there.length || (anew && runs.length) ? there : runs.slice(0, SHOWN_AT_FIRST).map((run) => run.name);
      this.kept.selected = selected;
      this.list.update(runs, selected);
      const seen = JSON.stringify([selected, runs.filter((run) => selected.includes(run.name))]);
      if (anew || seen !== this.seen) {
        const data = selected.length ? await readData(selected) : { runs: {}, differences: [] };
        const node = selected.length && this.page.nodeOpen ? await readNode(selected) : null;
        if (asking !== this.asking) return;
        this.data = data;
        this.page.node = node;
        this.seen = seen;
        this.draw();
      }
      this.status.textContent = `read ${new Date().toLocaleTimeString()}`;
      this.status.classList.remove("alarm");
    } catch {
      // TensorBoard was stopped or is starting: what was read stays on the screen.
      if (asking !== this.asking) return;
      this.status.textContent = "TensorBoard does not answer; trying again";
      this.status.classList.add("alarm");
    }
  }

  private async readNode(): Promise<void> {
    this.page.node = await readNode(this.kept.selected);
    this.draw();
  }

  private draw(): void {
    this.list.update(this.runs, this.kept.selected);
    if (!this.runs.length) {
      this.page.say("No run here was written under tm yet. Start one with ", el("code", {}, "tm train.py"), "; it appears here by itself.");
      return;
    }
    const shown = view(this.kept.selected, this.data, this.kept.x);
    if (shown.runs.length) this.page.update(shown);
    else this.page.say(this.kept.selected.length ? "Reading …" : "Tick a run to see it, and a second one to compare them.");
  }
}

function recall(): Kept {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}") as Partial<Kept>;
    const x = kept.x === "time" || kept.x === "tokens" ? kept.x : "step";
    return { selected: Array.isArray(kept.selected) ? kept.selected.filter((name) => typeof name === "string") : [], x };
  } catch {
    return { selected: [], x: "step" }; // storage is blocked, or holds another version's
  }
}

function remember(kept: Kept): void {
  try {
    localStorage.setItem(KEPT, JSON.stringify(kept));
  } catch {
    // Storage is blocked or full: the choice lasts as long as the page.
  }
}

export function render(): void {
  new Tab().start();
}
