// The order in which blue has to repair kinds of hosts: a row above the network, marks on its hosts.

import { el, fill, text } from "./panels.js";

/** The row of categories, the most urgent first; hidden in games without an order. */
export class OrderRow {
  constructor() {
    this.list = el("ol", { class: "order-list" });
    this.fixes = el("span", { class: "quiet small" });
    this.element = el("div", { class: "order-row", hidden: true }, el("h3", {}, "Order to follow"), this.list, this.fixes);
  }

  begin(names) {
    this.element.hidden = !names;
    this.places = (names || []).map((name) => el("li", {}, name));
    fill(this.list, this.places);
  }

  /** What is open by the true state; blue's view does not know it. */
  show(state, hidesTruth) {
    if (!state?.open) return;
    const required = hidesTruth ? -1 : state.open.indexOf(true);
    this.places.forEach((item, at) => {
      item.classList.toggle("open", !hidesTruth && state.open[at]);
      item.classList.toggle("required", at === required);
      item.title = at === required ? "to be repaired next" : item.classList.contains("open") ? "red holds a host of this kind" : "";
    });
    const [ok, judged] = state.fixes;
    text(this.fixes, `${ok} of ${judged} repairs in order`);
  }
}

/** The place of every host in the order, from 1; empty for hosts of no category. */
export function placesOf({ scene, facts }) {
  const places = [];
  (facts.order || []).forEach((name, at) => {
    for (const host of scene.categories[name] || []) places[host] = at + 1;
  });
  return places;
}

/** How blue's last repair was judged; empty if it was none. */
export function verdict(state, before) {
  if (!state.fixes || !before || state.fixes[1] === before.fixes[1]) return "";
  return state.fixes[0] > before.fixes[0] ? "in order" : "out of order";
}
