// The table of settings that differ between the selected runs.

import { getJson } from "../api.js";
import { el, fill } from "../dom.js";
import { colorOf } from "../palette.js";

/** Fetch and show the table; `isCurrent()` is false when another selection has taken over. */
export async function showDifferences(element, runs, isCurrent) {
  if (runs.length < 2) {
    element.hidden = true;
    return;
  }
  const { names, rows } = await getJson("/api/differences", { run: runs.map((run) => run.id) });
  if (!isCurrent()) return;
  element.hidden = false;
  const head = el("header", {}, el("h2", {}, "Settings that differ"),
    el("span", { class: "quiet small" }, names.length ? "" : "These runs have the same settings."));
  if (!names.length) {
    fill(element, head);
    return;
  }
  fill(element, head, el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Run"),
      names.map((name) => el("th", { scope: "col", title: name }, name.split(".").pop())))),
    el("tbody", {}, rows.map((row, at) => el("tr", {},
      el("td", {}, swatch(at), " ", row.name),
      row.values.map((value) => el("td", { class: "mono" }, value))))))));
}

function swatch(at) {
  const mark = el("span", { class: "swatch" });
  mark.style.background = colorOf(at);
  return mark;
}
