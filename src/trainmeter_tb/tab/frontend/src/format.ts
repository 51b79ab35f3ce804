// Writes numbers for reading; the exact value always stands beside, in an attribute.

import { el } from "./dom";

const PREFIXES = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];

export function si(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return "n/a";
  let power = Math.abs(value) < 1000 ? 0 : Math.min(Math.floor(Math.log10(Math.abs(value)) / 3), PREFIXES.length - 1);
  if (Number((value / 1000 ** power).toPrecision(digits)) >= 1000 && power < PREFIXES.length - 1) power += 1;
  const shown = Number((value / 1000 ** power).toPrecision(digits)).toString();
  return PREFIXES[power] ? `${shown} ${PREFIXES[power]}` : shown;
}

export function plain(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 1 ? 2 : 4;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

export function duration(seconds: number): string {
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** "1.2 M" and "J" are 1.2 MJ. */
const joined = (number: string, unit: string): string => (/[A-Z]$|k$/i.test(number) ? number + unit : `${number} ${unit}`);

/** A number in a unit of the series or the passport. */
export function inUnit(value: number, unit: string): string {
  switch (unit) {
    case "percent":
      return `${Number(value.toFixed(Math.abs(value) < 10 ? 2 : 1))} %`;
    case "seconds":
      return duration(value);
    case "FLOPs":
      return joined(si(value), "FLOPs");
    case "FLOPs/token":
      return joined(si(value), "FLOPs per token");
    case "bytes":
      return Math.abs(value) < 1000 ? `${value} bytes` : joined(si(value), "B");
    case "tokens":
    case "samples":
      return Math.abs(value) < 1e6 ? plain(value) : si(value);
    case "":
    case "as sampled":
    case "as logged":
      return Math.abs(value) >= 1e6 ? si(value) : plain(value);
    case "count":
      return plain(value);
    case "J":
    case "B/s":
      return joined(si(value), unit);
    case "parameters":
      return Math.abs(value) < 1e6 ? plain(value) : si(value);
    default:
      return `${Math.abs(value) >= 1e6 ? si(value) : plain(value)} ${unit}`;
  }
}

/** A value on the screen: short to read, exact in its title and in data-value. */
export function figure(value: number, unit: string, series = ""): HTMLElement {
  return el("span", { class: "value", "data-value": value, "data-series": series, title: String(value) }, inUnit(value, unit));
}
