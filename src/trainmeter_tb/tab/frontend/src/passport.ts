// The passport of a run as tables, to copy and to download.

import { absent, el } from "./dom";
import { figure } from "./format";
import { chip } from "./runs";
import type { Shown } from "./view";

type Json = any;

const PARTS: [string, string][] = [
  ["identity", "Identity"],
  ["software", "Software"],
  ["hardware", "Hardware"],
  ["options", "Convention, peak and budget"],
  ["model", "Model"],
  ["data", "Data"],
  ["compute", "Compute"],
  ["efficiency", "Efficiency"],
  ["time", "Time"],
  ["energy", "Energy"],
  ["losses", "Losses"],
  ["ends", "End"],
  ["readings", "Readings"],
  ["observation", "What trainmeter saw"],
];

// Long, or repeated elsewhere: these stand in the download alone.
const LEFT_OUT = new Set(["model.description", "data.batches", "steady", "compute.steady_flops"]);
const MOST_ROWS = 60;

/** One table per part, with a column for each run; what differs between them stands out. */
export function passports(runs: Shown[]): HTMLElement {
  const sheets = runs.map((run) => new Map(sheet(run).map((row) => [row.key, row])));
  const heads = runs.map((run) => el("div", { class: "panel" }, runs.length > 1 ? chip(run) : null, buttons(run)));
  const tables = PARTS.map(([part, title]) => table(title, part, sheets)).filter((made) => made !== null);
  return el("div", { class: "passport" }, el("div", { class: "panels" }, ...heads), el("div", { class: runs.length > 1 ? "tables wide" : "tables" }, ...tables));
}

interface Row {
  key: string;
  label: string;
  text: string;
  shown: () => Node | string;
}

function sheet(run: Shown): Row[] {
  const json = run.data.passport?.json;
  if (!json) return [];
  const reasons = new Map<string, string>((json["gaps"] ?? []).map((gap: Json) => [String(gap.field), String(gap.reason)]));
  return PARTS.flatMap(([part]) => (json[part] === undefined ? [] : rows(json[part], part, reasons)));
}

function table(title: string, part: string, sheets: Map<string, Row>[]): HTMLElement | null {
  const keys = [...new Set(sheets.flatMap((sheet) => [...sheet.keys()]))].filter((key) => key === part || key.startsWith(`${part}.`));
  if (!keys.length) return null;
  const lines = keys.slice(0, MOST_ROWS).map((key) => {
    const cells = sheets.map((sheet) => sheet.get(key));
    const differ = new Set(cells.map((cell) => cell?.text)).size > 1;
    const label = cells.find((cell) => cell)!.label;
    return el("tr", { class: differ ? "differ" : "" }, el("th", { scope: "row" }, label), ...cells.map((cell) => el("td", {}, cell ? cell.shown() : "–")));
  });
  if (keys.length > MOST_ROWS) lines.push(el("tr", {}, el("td", { colspan: sheets.length + 1, class: "small" }, `${keys.length - MOST_ROWS} more in the download`)));
  return el("table", {}, el("caption", {}, title), el("tbody", {}, ...lines));
}

function buttons(run: Shown): HTMLElement {
  const found = run.data.passport;
  if (!found) return absent("no passport was written yet");
  if (!found.json) return absent(found.problem ?? "the passport cannot be read");
  const name = `passport-${run.name.replace(/[^\w.-]+/g, "_")}`;
  const copied = el("span", { class: "small", role: "status" });
  return el(
    "div",
    { class: "buttons" },
    el("button", { type: "button", click: () => void copy(found.markdown ?? "", copied) }, "Copy as Markdown"),
    el("button", { type: "button", click: () => download(`${name}.md`, found.markdown ?? "", "text/markdown") }, "Download Markdown"),
    el("button", { type: "button", click: () => download(`${name}.json`, `${JSON.stringify(found.json, null, 1)}\n`, "application/json") }, "Download JSON"),
    copied,
  );
}

function rows(value: Json, key: string, reasons: Map<string, string>, label = ""): Row[] {
  if (LEFT_OUT.has(key)) return [];
  if (value === null) {
    const told = reasons.get(key) ?? "not known";
    return [{ key, label, text: told, shown: () => absent(told) }];
  }
  if (Array.isArray(value)) {
    if (value.some((item) => typeof item === "object")) return value.flatMap((item, at) => rows(item, `${key}.${at}`, reasons, value.length > 1 ? `${label} ${at + 1}` : label));
    return value.length ? [plainRow(key, label, value.join(" "))] : [];
  }
  if (typeof value !== "object") return [plainRow(key, label, typeof value === "boolean" ? (value ? "yes" : "no") : String(value))];
  if ("unit" in value && "value" in value) return [{ key, label, text: `${value.value} ${value.unit} ${value.source}`, shown: () => number(value) }];
  return Object.entries(value).flatMap(([name, inner]) => rows(inner, `${key}.${name}`, reasons, label ? `${label} · ${words(name)}` : words(name)));
}

const plainRow = (key: string, label: string, text: string): Row => ({ key, label, text, shown: () => text });

function number(value: Json): HTMLElement {
  const source = value.source === "user" ? "given by the user" : value.source === "assumed" ? "assumed" : null;
  return el("span", { title: `${value.value} ${value.unit}, ${value.source}` }, figure(Number(value.value), String(value.unit)), source && " ", source && el("span", { class: "source" }, source));
}

function words(name: string): string {
  return name
    .replace(/_per_s(?![a-z])/, " per second")
    .replace(/_(pct|s|bytes|kwh|w|j|c|mhz)$/, "")
    .replace(/_/g, " ")
    .replace(/\btflops\b/, "TFLOP/s")
    .replace(/\bflops\b/, "FLOPs")
    .replace(/\b(mfu|hfu|ofu|gpus?|cpu|cuda)\b/g, (word) => word.toUpperCase().replace(/S$/, "s"));
}

async function copy(text: string, told: HTMLElement): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Not a secure origin, as with TensorBoard on another machine without TLS.
    const area = el("textarea", { class: "offscreen", "aria-hidden": "true" }) as HTMLTextAreaElement;
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  told.textContent = "Copied.";
  setTimeout(() => (told.textContent = ""), 3000);
}

function download(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name }) as HTMLAnchorElement;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
