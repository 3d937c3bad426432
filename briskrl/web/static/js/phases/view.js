// Where the time of one run goes: now, over the whole run, and in its course.

import { getJson } from "../api.js";
import { LineChart } from "../charts/line_chart.js";
import { PhaseChart, phaseColor } from "../charts/phase_chart.js";
import { el, emptyState, errorState, fill } from "../dom.js";
import { count, duration, percent } from "../format.js";
import * as store from "../store.js";

const MEANINGS = {
  act: "choosing actions", env: "stepping environments", store: "storing transitions",
  sample: "drawing minibatches", update: "updating the network", eval: "evaluating",
  log: "writing logs", save: "writing checkpoints", wait: "waiting for the other thread",
  average: "averaging replicas", other: "everything else",
};
const REFRESH_MS = 2000;

/** Show the view; returns a function that ends it. */
export function mount(element, { run }) {
  if (!run) {
    fill(element, emptyState("No runs yet", "Where the time goes appears here while a run trains.", "brisk train snake"));
    return () => fill(element);
  }
  const view = new PhasesView(element, run);
  return () => view.stop();
}

class PhasesView {
  constructor(element, run) {
    this.element = element;
    this.run = run;
    this.facts = el("dl", { class: "run-facts" });
    this.table = el("div", { class: "scroll" });
    this.stacked = new PhaseChart();
    this.machine = new LineChart({ title: "share of the machine", onZoom: () => this.draw() });
    this.message = el("div");
    this.body = el("div", { class: "stack", hidden: true },
      this.facts,
      el("div", { class: "two" },
        el("section", { class: "card" }, el("header", {}, el("h2", {}, "Phases")), this.table),
        el("div", { class: "stack" }, this.stacked.element, this.machine.element)));
    fill(element, el("h2", { class: "run-title" }, run.name), this.message, this.body);
    this.stopRows = store.on("rows", ({ changed }) => { if (changed.includes(run.id)) this.later(REFRESH_MS); });
    this.fetch();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.stopRows();
    this.machine.destroy();
    this.stacked.destroy();
    fill(this.element);
  }

  later(delay) {
    if (!this.timer) this.timer = setTimeout(() => { this.timer = null; this.fetch(); }, delay);
  }

  async fetch() {
    try {
      this.answer = await getJson(`/api/runs/${this.run.id}/phases`);
      if (this.stopped) return;
      this.draw();
      if (this.answer.progress < 1) this.later(250);
    } catch (error) {
      if (this.stopped) return;
      this.body.hidden = true;
      fill(this.message, errorState(error.message));
      this.later(5000);
    }
  }

  draw() {
    const { names, machine } = this.answer;
    this.body.hidden = names.length === 0;
    fill(this.message, names.length ? null
      : emptyState("No times yet", "The first row is written a few seconds after the start of training."));
    if (!names.length) return;
    this.drawFacts();
    this.drawTable();
    this.stacked.show(this.answer);
    this.machine.element.hidden = machine.x.length === 0;
    this.machine.show([{ name: "share", x: machine.x, mean: machine.share, low: machine.share, high: machine.share, color: 0 }],
      { clock: "env_steps", smoothing: 0, band: false, log: false, window: null });
  }

  drawFacts() {
    const run = store.rows.get(this.run.id) || this.run;
    const facts = [
      ["steps per second", count(run.steps_per_s)], ["share of the machine", percent(run.machine_fraction)],
      ["training time", duration(run.wall_s)], ["CPU time", duration(run.cpu_s)],
      ["steps", count(run.env_steps)], ["updates", count(run.updates)],
    ];
    fill(this.facts, facts.map(([name, value]) => el("div", { class: "card run-fact" }, el("dt", {}, name), el("dd", {}, value || "-"))));
  }

  drawTable() {
    const { names, seconds, shares, now } = this.answer;
    const running = (store.rows.get(this.run.id) || this.run).status === "running";
    fill(this.table, el("table", { class: "phases" },
      el("thead", {}, el("tr", {}, ["Phase", "", running ? "Now" : "At the end", "Whole run", "Time"].map((title, at) =>
        el("th", { scope: "col", class: at > 1 ? "number" : "" }, title)))),
      el("tbody", {}, names.map((name, at) => {
        const bar = el("span", { class: "share-bar" });
        bar.style.width = `${100 * shares[at]}%`;
        bar.style.background = phaseColor(name, at);
        return el("tr", {}, el("td", { title: MEANINGS[name] }, el("span", { class: "swatch", "data-phase": name }), " ", name,
          el("div", { class: "small quiet" }, MEANINGS[name] || "")),
        el("td", { class: "bar-cell" }, bar), el("td", { class: "number" }, percent(now[at])),
        el("td", { class: "number" }, percent(shares[at])), el("td", { class: "number" }, duration(seconds[at])));
      }))));
    names.forEach((name, at) => { this.table.querySelectorAll(".swatch")[at].style.background = phaseColor(name, at); });
  }
}
