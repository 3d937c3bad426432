// Keys that work everywhere, and the dialog that lists them. Views handle their own keys.

import { el, fill } from "./dom.js";

const VIEW_KEYS = [
  ["/", "filter runs"],
  ["j k", "next and previous run"],
  ["x", "select or deselect the run"],
  ["Enter", "curves of the run"],
  ["Esc", "clear the selection, close"],
];

/** Whether keys belong to a field that is being typed in. */
export function isTyping(event) {
  const { tagName, isContentEditable } = event.target;
  return isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(tagName);
}

/** Install the keys: digits for tabs, t for the theme, ? for help. */
export function installShortcuts({ tabs, go }) {
  const dialog = document.getElementById("shortcuts");
  const list = [
    ...tabs.map(([, label], index) => [String(index + 1), label]),
    ["t", "color theme"], ["?", "this list"], ...VIEW_KEYS,
  ];
  fill(
    dialog,
    el("h2", { id: "shortcuts-title" }, "Keyboard"),
    el("dl", { class: "keys" }, list.map(([keys, what]) =>
      el("div", {},
        el("dt", {}, keys.split(" ").map((key) => el("kbd", {}, key))),
        el("dd", {}, what)))),
    el("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Close"),
  );
  document.getElementById("help").addEventListener("click", () => dialog.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || dialog.open) return;
    const at = Number(event.key) - 1;
    if (tabs[at]) go(tabs[at][0]);
    else if (event.key === "t") document.getElementById("theme").click();
    else if (event.key === "?") dialog.showModal();
    else return;
    event.preventDefault();
  });
}
