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

export function passport(run: Shown, many: boolean): HTMLElement {
  const found = run.data.passport;
  const head = many ? chip(run) : null;
  if (!found) return el("div", { class: "panel" }, head, absent("no passport was written yet"));
  if (!found.json) return el("div", { class: "panel" }, head, absent(found.problem ?? "the passport cannot be read"));
  const json = found.json;
  const name = `passport-${run.name.replace(/[^\w.-]+/g, "_")}`;
  const copied = el("span", { class: "small", role: "status" });
  const buttons = el(
    "div",
    { class: "buttons" },
    el("button", { type: "button", click: () => void copy(found.markdown ?? "", copied) }, "Copy as Markdown"),
    el("button", { type: "button", click: () => download(`${name}.md`, found.markdown ?? "", "text/markdown") }, "Download Markdown"),
    el("button", { type: "button", click: () => download(`${name}.json`, `${JSON.stringify(json, null, 1)}\n`, "application/json") }, "Download JSON"),
    copied,
  );
  const reasons = new Map<string, string>((json["gaps"] ?? []).map((gap: Json) => [String(gap.field), String(gap.reason)]));
  const tables = PARTS.filter(([part]) => json[part] !== undefined).map(([part, title]) => table(title, rows(json[part], part, reasons)));
  return el("div", { class: "panel passport" }, head, buttons, el("div", { class: "tables" }, ...tables));
}

type Row = [string, Node | string];

function table(title: string, found: Row[]): HTMLElement | null {
  if (!found.length) return null;
  const shown = found.slice(0, MOST_ROWS);
  const more = found.length - shown.length;
  const lines = shown.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)));
  if (more) lines.push(el("tr", {}, el("td", { colspan: 2, class: "small" }, `${more} more in the download`)));
  return el("table", {}, el("caption", {}, title), el("tbody", {}, ...lines));
}

function rows(value: Json, path: string, reasons: Map<string, string>, label = ""): Row[] {
  if (LEFT_OUT.has(path)) return [];
  if (value === null) return [[label, absent(reasons.get(path) ?? "not known")]];
  if (Array.isArray(value)) {
    if (value.every((item) => typeof item !== "object")) return value.length ? [[label, value.join(" ")]] : [];
    return value.flatMap((item, at) => rows(item, path, reasons, value.length > 1 ? `${label} ${at + 1}` : label));
  }
  if (typeof value !== "object") return [[label, typeof value === "boolean" ? (value ? "yes" : "no") : String(value)]];
  if ("unit" in value && "value" in value) return [[label, number(value)]];
  return Object.entries(value).flatMap(([name, inner]) => rows(inner, `${path}.${name}`, reasons, `${label} ${words(name)}`.trim()));
}

function number(value: Json): HTMLElement {
  const unit = String(value.unit);
  const shown = figure(Number(value.value), unit === "tokens/s" || unit === "samples/s" ? unit : unit);
  const source = value.source === "user" || value.source === "assumed" ? el("span", { class: "source" }, value.source === "user" ? "given by the user" : "assumed") : null;
  return el("span", { title: `${value.value} ${unit}, ${value.source}` }, shown, source ? " " : null, source);
}

const words = (name: string): string => name.replace(/_pct$/, "").replace(/_s$/, "").replace(/_/g, " ");

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
