// A time series chart: lines or a stack, one cursor over all charts, usable by keyboard.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { el } from "./dom";
import { inUnit, si } from "./format";
import { colour } from "./theme";
import type { Line } from "./view";

export interface Series {
  label: string;
  colour: string;
  line: Line;
  bold?: boolean;
}

export interface ChartOptions {
  title: string;
  unit: string;
  xLabel: string;
  height?: number;
  stacked?: boolean;
  from0?: boolean;
  to100?: boolean;
}

const CURSOR = uPlot.sync("trainmeter");

export class Chart {
  readonly root: HTMLElement;
  private readonly body = el("div", { class: "plot" });
  private readonly legend = el("ul", { class: "legend" });
  private plot: uPlot | null = null;
  private series: Series[] = [];
  private shape = "";
  private zoomed = false;
  private options: ChartOptions;

  constructor(options: ChartOptions) {
    this.options = options;
    const unit = options.unit === "percent" ? "%" : options.unit;
    const heading = el("h3", {}, options.title, unit ? el("span", { class: "unit" }, unit) : null);
    this.root = el("figure", { class: "chart", tabindex: 0, role: "group", "aria-label": `Chart: ${options.title}. Arrow keys move along it.` });
    this.root.append(heading, this.body, this.legend);
    // One cursor moves all charts; only the one in use is read out.
    this.root.addEventListener("focus", () => this.legend.setAttribute("aria-live", "polite"));
    this.root.addEventListener("blur", () => this.legend.removeAttribute("aria-live"));
    this.root.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
    new ResizeObserver(() => this.resize()).observe(this.body);
  }

  update(series: Series[], options: Partial<ChartOptions> = {}): void {
    this.options = { ...this.options, ...options };
    this.series = series;
    const shape = JSON.stringify([series.map((each) => [each.label, each.colour]), this.options, document.documentElement.dataset["theme"]]);
    if (this.plot && shape === this.shape) {
      this.plot.setData(this.data(), !this.zoomed);
    } else {
      this.shape = shape;
      this.zoomed = false;
      this.plot?.destroy();
      this.plot = null;
      this.resize();
    }
    this.describe(null);
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private data(): uPlot.AlignedData {
    if (!this.series.length) return [[]] as unknown as uPlot.AlignedData;
    const joined = uPlot.join(this.series.map((each) => [each.line.x, each.line.y] as uPlot.AlignedData));
    return this.options.stacked ? stack(joined) : joined;
  }

  private resize(): void {
    const width = this.body.clientWidth;
    if (width < 50) return;
    const height = this.options.height ?? 180;
    if (this.plot) this.plot.setSize({ width, height });
    else if (this.series.length) this.plot = new uPlot(this.uplotOptions(width, height), this.data(), this.body);
  }

  private uplotOptions(width: number, height: number): uPlot.Options {
    const { stacked, xLabel, unit } = this.options;
    const axis = { stroke: colour("muted"), font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: colour("grid"), width: 1 } };
    const short = (value: number): string => (Math.abs(value) >= 1000 ? si(value, 3).replace(" ", "") : String(Number(value.toPrecision(4))));
    return {
      width,
      height,
      padding: [6, 10, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: CURSOR.key, setSeries: false }, focus: { prox: 24 }, drag: { x: true, y: false }, points: { size: 5 } },
      scales: { x: { time: false }, y: { range: (_plot, low, high) => this.range(low, high) } },
      axes: [
        { ...axis, size: 24, gap: 2, space: 60, values: (_plot, ticks) => ticks.map((tick) => short(tick)) },
        { ...axis, size: 46, gap: 4, space: 32, values: (_plot, ticks) => ticks.map((tick) => (unit === "seconds" ? inUnit(tick, unit) : short(tick))) },
      ],
      series: [
        { label: xLabel },
        // In a stack each band reaches down to zero, and those below are drawn over it.
        ...this.series.map((each) => ({
          label: each.label,
          stroke: each.colour,
          width: each.bold ? 2 : 1.25,
          fill: stacked ? each.colour : undefined,
          spanGaps: true,
          points: { show: each.line.x.length === 1, size: 5 },
        })),
      ] as uPlot.Series[],
      hooks: {
        setCursor: [(plot) => this.describe(plot.cursor.idx ?? null)],
        setSelect: [(plot) => (this.zoomed = this.zoomed || plot.select.width > 0)],
        setScale: [(plot, key) => key === "x" && (this.zoomed = isZoomed(plot))],
      },
    };
  }

  private range(low: number | null, high: number | null): uPlot.Range.MinMax {
    if (this.options.stacked) return [0, 100];
    const { from0, to100 } = this.options;
    if (low === null || high === null) return [0, 1];
    const pad = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    return [from0 ? Math.min(0, low) : low - pad, to100 ? Math.max(100, high) : high + pad];
  }

  /** Write the values at the cursor, or the newest ones, into the legend. */
  private describe(index: number | null): void {
    const joined = this.plot?.data[0];
    const at = index === null || !joined ? null : (joined[index] as number);
    const place = at === null ? "" : `${this.options.xLabel} ${si(at, 6)}`;
    // The legend of a stack reads from the bottom up.
    const items = (this.options.stacked ? [...this.series].reverse() : this.series).map((each) => {
      const value = valueAt(each.line, at);
      const shown = value === null ? "–" : inUnit(value, this.options.unit);
      return el("li", { class: each.bold ? "bold" : "" }, el("i", { class: "swatch", style: `background:${each.colour}` }), el("span", { class: "label" }, each.label), el("b", { "data-value": value ?? "" }, shown));
    });
    this.legend.replaceChildren(...(place ? [el("li", { class: "place" }, place)] : []), ...items);
  }

  private key(event: KeyboardEvent): void {
    const plot = this.plot;
    const places = plot?.data[0];
    if (!plot || !places || !places.length) return;
    const end = places.length - 1;
    const now = plot.cursor.idx ?? end;
    const stride = event.shiftKey ? 10 : 1;
    const moves: Record<string, number> = { ArrowLeft: now - stride, ArrowRight: now + stride, Home: 0, End: end };
    if (event.key === "Escape") {
      plot.setCursor({ left: -10, top: -10 });
      plot.setScale("x", { min: places[0] as number, max: places[end] as number });
      this.zoomed = false;
    } else if (event.key in moves) {
      const to = Math.max(0, Math.min(end, moves[event.key]!));
      plot.setCursor({ left: plot.valToPos(places[to] as number, "x"), top: plot.over.clientHeight / 2 });
    } else {
      return;
    }
    event.preventDefault();
  }
}

function isZoomed(plot: uPlot): boolean {
  const places = plot.data[0];
  const { min, max } = plot.scales["x"]!;
  if (!places?.length || min === undefined || max === undefined || min === null || max === null) return false;
  return min > (places[0] as number) || max < (places[places.length - 1] as number);
}

/** The value at a place, or the newest one before it. */
function valueAt(line: Line, at: number | null): number | null {
  if (!line.x.length) return null;
  if (at === null) return line.y[line.y.length - 1]!;
  let low = 0;
  let high = line.x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.x[middle]! <= at) low = middle + 1;
    else high = middle;
  }
  return low ? line.y[low - 1]! : null;
}

/** Sums from the last series up, so that the first one is the top of the stack. */
function stack(data: uPlot.AlignedData): uPlot.AlignedData {
  const [x, ...columns] = data as unknown as (number | null | undefined)[][];
  const sums: (number | null)[][] = columns.map(() => new Array<number | null>(x!.length).fill(null));
  for (let place = 0; place < x!.length; place++) {
    let sum = 0;
    for (let index = columns.length - 1; index >= 0; index--) {
      sum += columns[index]![place] ?? 0;
      sums[index]![place] = sum;
    }
  }
  return [x, ...sums] as unknown as uPlot.AlignedData;
}
