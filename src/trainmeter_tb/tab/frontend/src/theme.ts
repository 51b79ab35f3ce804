// Follows TensorBoard's light or dark mode, which it keeps as a class of its own page's body.

export function followTheme(changed: () => void): void {
  const parent = parentBody();
  const apply = (): boolean => {
    const dark = parent ? parent.classList.contains("dark-mode") : matchMedia("(prefers-color-scheme: dark)").matches;
    const theme = dark ? "dark" : "light";
    if (document.documentElement.dataset["theme"] === theme) return false;
    document.documentElement.dataset["theme"] = theme;
    return true;
  };
  apply();
  if (parent) {
    new MutationObserver(() => apply() && changed()).observe(parent, { attributes: true, attributeFilter: ["class"] });
  } else {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply() && changed());
  }
}

function parentBody(): HTMLElement | null {
  try {
    return window.parent !== window ? window.parent.document.body : null;
  } catch {
    return null; // embedded by a page of another origin
  }
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
