// The strip below the tabs: which runs are selected, each with a button that takes it out.

import { el, fill } from "./dom.js";
import { colorOf } from "./palette.js";
import * as store from "./store.js";

const MOST = 12;

/** Keep the strip up to date. */
export function showSelection(bar) {
  const update = () => {
    const runs = store.selectedRows();
    bar.hidden = runs.length === 0;
    fill(
      bar,
      runs.slice(0, MOST).map((run) =>
        el("span", { class: "chip" },
          swatch(run.id),
          el("span", { class: "chip-name", title: run.run_dir }, run.name),
          el("button", {
            type: "button", "aria-label": `Deselect ${run.name}`,
            onclick: () => store.toggle(run.id),
          }, "×"))),
      runs.length > MOST ? el("span", { class: "quiet" }, `and ${runs.length - MOST} more`) : null,
      el("button", { class: "link", type: "button", onclick: () => store.select([]) }, "Clear"),
    );
  };
  store.on("selection", update);
  store.on("rows", ({ gone, all }) => {
    if (all || gone.length) update();
  });
}

function swatch(id) {
  const mark = el("span", { class: "swatch" });
  mark.style.background = colorOf([...store.selected].indexOf(id));
  return mark;
}
