// The strip of sweeps above the table.

import { getJson } from "../api.js";
import { el, fill } from "../dom.js";
import { number, setting } from "../format.js";

/** Fetch and show all sweeps; `choose(id)` is called for the one that is clicked. */
export async function showSweeps(element, choose, isCurrent) {
  const { sweeps } = await getJson("/api/sweeps");
  if (!isCurrent()) return;
  element.hidden = sweeps.length === 0;
  fill(element, sweeps.map((sweep) => card(sweep, choose)));
}

function card(sweep, choose) {
  const head = el("div", { class: "sweep-head" },
    el("strong", { class: "ellipsis", title: sweep.folder }, sweep.name),
    el("span", { class: "quiet" }, sweep.algo ? `${sweep.algo} on ${sweep.env}` : ""));
  if (sweep.problem) {
    return el("div", { class: "card sweep" }, head, el("p", { class: "small quiet" }, sweep.problem));
  }
  const ended = sweep.runs - (sweep.states.planned || 0) - (sweep.states.running || 0);
  const bar = el("progress", { max: Math.max(1, sweep.runs), value: ended, "aria-label": "runs that have ended" });
  const best = sweep.best === null ? "no result yet"
    : `best ${sweep.metric} ${number(sweep.best)}${values(sweep.best_values)}`;
  const states = Object.entries(sweep.states).map(([state, n]) => `${n} ${state}`).join(", ");
  return el("button", { class: "card sweep", type: "button", onclick: () => choose(sweep.id), title: "Select its runs" },
    head, bar, el("span", { class: "small quiet" }, `${ended} of ${sweep.runs} runs (${states})`),
    el("span", { class: "small" }, best));
}

function values(settings) {
  const parts = Object.entries(settings || {}).map(([name, value]) => `${name}=${setting(value)}`);
  return parts.length ? ` with ${parts.join(", ")}` : "";
}
