// Makes elements; text only ever goes in as text, so nothing of a run's can be markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;

export function el(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
}

function append(element: Element, children: Child[]): void {
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
}

/** A section with its heading; `note` says in a few words what is shown. */
export function section(id: string, title: string, note: string, ...children: Child[]): HTMLElement {
  const heading = el("h2", { id: `${id}-title` }, title, note ? el("span", { class: "note" }, note) : null);
  return el("section", { id, "aria-labelledby": `${id}-title` }, heading, ...children);
}

/** What stands in the place of a value that is not known. */
export function absent(reason: string): HTMLElement {
  return el("span", { class: "absent" }, `n/a: ${reason}`);
}
