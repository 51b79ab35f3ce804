// The list of runs: which are shown, and which one the others are compared with.

import type { Listed } from "./api";
import { el } from "./dom";
import { colourOf, letter, type Shown } from "./view";

export const MOST_SHOWN = 12;

export function chip(run: Shown): HTMLElement {
  return el("span", { class: "chip", title: run.name, style: `--run:${run.colour}` }, el("i", {}, run.letter), el("span", {}, run.name));
}

export class RunList {
  readonly root: HTMLElement;
  private readonly filter = el("input", { type: "search", placeholder: "Filter runs", "aria-label": "Filter runs", input: () => this.draw() }) as HTMLInputElement;
  private readonly list = el("ul", { class: "runs" });
  private readonly note = el("p", { class: "small", role: "status" });
  private runs: Listed[] = [];
  private drawn = "";
  private selected: string[] = [];
  private readonly changed: (selected: string[]) => void;

  constructor(changed: (selected: string[]) => void) {
    this.changed = changed;
    this.root = el("aside", { "aria-label": "Runs" }, this.filter, this.list, this.note);
  }

  update(runs: Listed[], selected: string[]): void {
    this.runs = runs;
    this.selected = selected;
    const now = JSON.stringify([runs.map((run) => run.name), selected, colourOf(0)]);
    if (now !== this.drawn) this.draw();
    this.drawn = now;
  }

  private draw(): void {
    const wanted = this.filter.value.toLowerCase();
    const shown = this.runs.filter((run) => run.name.toLowerCase().includes(wanted));
    const focused = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : null;
    this.list.replaceChildren(...shown.map((run) => this.entry(run.name)));
    this.note.textContent = `${shown.length} of ${this.runs.length} runs, newest first. The first one ticked is A, which the others are compared with.`;
    for (const box of this.list.querySelectorAll("input")) if (box.value === focused) box.focus();
  }

  private entry(name: string): HTMLElement {
    const at = this.selected.indexOf(name);
    const box = el("input", { type: "checkbox", value: name, checked: at >= 0, disabled: at < 0 && this.selected.length >= MOST_SHOWN, change: () => this.toggle(name) });
    const mark = el("i", { class: "mark", style: at >= 0 ? `background:${colourOf(at)}` : "" }, at >= 0 ? letter(at) : "");
    return el("li", {}, el("label", { title: name }, box, mark, el("span", {}, name)));
  }

  private toggle(name: string): void {
    const kept = this.selected.filter((each) => each !== name);
    this.selected = kept.length < this.selected.length ? kept : [...kept, name];
    this.draw();
    this.changed(this.selected);
  }
}
