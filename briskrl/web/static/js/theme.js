// Light or dark: as the system has it, until the button is used.

const SIGNS = { system: "◐", light: "☀", dark: "☾" };
const NEXT = { system: "light", light: "dark", dark: "system" };
const watchers = new Set();

/** Call `listener` whenever colors change; returns a function that ends it. */
export function onTheme(listener) {
  watchers.add(listener);
  return () => watchers.delete(listener);
}

/** The value of a variable of the style sheet, such as `--ink`. */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Make the button switch themes. */
export function installTheme(button) {
  const root = document.documentElement;
  const apply = (theme) => {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = SIGNS[theme];
    button.title = `Theme: ${theme} (t)`;
    button.setAttribute("aria-label", `Color theme: ${theme}`);
    for (const watcher of [...watchers]) watcher();
  };
  button.addEventListener("click", () => {
    const theme = NEXT[root.dataset.theme || "system"];
    if (theme === "system") localStorage.removeItem("brisk-theme");
    else localStorage.setItem("brisk-theme", theme);
    apply(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const watcher of [...watchers]) watcher();
  });
  apply(root.dataset.theme || "system");
}
