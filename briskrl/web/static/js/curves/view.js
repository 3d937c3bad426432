// Curves of the selected runs: a chart per metric, live.

import { getJson } from "../api.js";
import { LineChart } from "../charts/line_chart.js";
import { el, emptyState, errorState, fill, text } from "../dom.js";
import { colorOf } from "../palette.js";
import { loadSettings, settingNames } from "../runs/settings.js";
import * as store from "../store.js";
import { showDifferences } from "./differences.js";

const CLOCKS = [["env_steps", "Steps"], ["wall_s", "Wall time"], ["cpu_s", "CPU time"]];
const REFRESH_MS = 2000;
const READING_MS = 250;
/** Kept while other tabs are shown. */
const kept = { clock: "env_steps", group: "", smoothing: 0.6, band: true, log: false, window: null, metrics: [], hidden: new Set() };

/** Show the view; returns a function that ends it. */
export function mount(element) {
  const view = new CurvesView(element);
  return () => view.stop();
}

class CurvesView {
  constructor(element) {
    this.element = element;
    this.charts = new Map();
    this.turn = 0;
    this.build();
    this.stops = [
      store.on("rows", ({ changed }) => this.receive(changed)),
      store.on("selection", () => this.choose()),
    ];
    this.choose();
  }

  stop() {
    this.turn = -1;
    clearTimeout(this.timer);
    this.request?.abort();
    for (const stop of this.stops) stop();
    for (const chart of this.charts.values()) chart.destroy();
    fill(this.element);
  }

  build() {
    this.clocks = el("div", { class: "choice", role: "group", "aria-label": "Horizontal axis" },
      CLOCKS.map(([clock, label]) => el("button", {
        type: "button", "aria-pressed": String(clock === kept.clock), "data-clock": clock,
        onclick: () => this.setClock(clock),
      }, label)));
    this.group = el("select", { class: "field", onchange: () => { kept.group = this.group.value; this.fetch(); } });
    this.smoothing = el("input", {
      type: "range", min: "0", max: "0.99", step: "0.01", value: kept.smoothing,
      oninput: () => { kept.smoothing = Number(this.smoothing.value); this.redraw(); },
    });
    this.metric = el("select", { class: "field", "aria-label": "Add a chart", onchange: () => this.addMetric() });
    const box = (label, key) => {
      const input = el("input", { type: "checkbox", onchange: () => { kept[key] = input.checked; this.redraw(); } });
      input.checked = kept[key];
      return el("label", {}, input, label);
    };
    this.reset = el("button", { class: "button", type: "button", hidden: true, onclick: () => this.zoom(null) }, "Reset zoom");
    this.state = el("span", { class: "quiet small spread state", role: "status" });
    this.legend = el("div", { class: "legend" });
    this.grid = el("div", { class: "charts" });
    this.message = el("div", {});
    this.differences = el("section", { class: "card", hidden: true });
    fill(this.element, el("div", { class: "stack" },
      el("div", { class: "toolbar" }, this.clocks,
        el("label", {}, "Mean over", this.group),
        el("label", {}, "Smoothing", this.smoothing),
        box("range", "band"), box("log", "log"), this.metric, this.reset, this.state),
      this.legend, this.message, this.grid, this.differences));
  }

  /** The selected runs, or the newest one. */
  get runs() {
    const chosen = store.selectedRows();
    const newest = store.newestRun();
    return chosen.length || !newest ? chosen : [newest];
  }

  async choose() {
    this.shownIds = "";
    kept.window = null;
    this.fetch();
    const turn = this.turn;
    try {
      await loadSettings(store.rows.keys());
      if (turn < 0 || this.turn < 0) return;
      this.fillGroups();
      const runs = this.runs;
      await showDifferences(this.differences, runs, () => this.turn >= 0 && runs.length === this.runs.length);
    } catch (error) {
      if (this.turn >= 0) text(this.state, error.message);
    }
  }

  fillGroups() {
    const { varying } = settingNames();
    fill(this.group, el("option", { value: "" }, "nothing: a line per run"), el("option", { value: "seeds" }, "seeds"),
      el("optgroup", { label: "Runs with the same" }, varying.map((name) => el("option", { value: name }, name))));
    this.group.value = kept.group;
    if (!this.group.value) this.group.value = kept.group = "";
  }

  setClock(clock) {
    Object.assign(kept, { clock, window: null });
    for (const button of this.clocks.children) button.setAttribute("aria-pressed", String(button.dataset.clock === clock));
    this.fetch();
  }

  zoom(window) {
    kept.window = window;
    this.redraw();
    this.fetch();
  }

  addMetric() {
    const name = this.metric.value;
    this.metric.value = "";
    if (!name) return;
    kept.hidden.delete(name);
    if (!kept.metrics.includes(name)) kept.metrics.push(name);
    this.fetch();
  }

  receive(changed) {
    const ids = new Set(this.runs.map((run) => run.id));
    if (!this.answer && ids.size) this.fetch();
    else if (changed.some((id) => ids.has(id))) this.later(REFRESH_MS);
  }

  later(delay) {
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = null; this.fetch(); }, delay);
  }

  async fetch() {
    clearTimeout(this.timer);
    this.timer = null;
    this.request?.abort();
    this.request = new AbortController();
    const turn = ++this.turn;
    const runs = this.runs;
    if (!runs.length) {
      this.showEmpty();
      return;
    }
    const [from, to] = kept.window || [];
    try {
      const answer = await getJson("/api/curves", {
        run: runs.map((run) => run.id), x: kept.clock, group: kept.group, from, to,
        metric: kept.metrics.length ? [...this.usual, ...kept.metrics] : [],
      }, this.request.signal);
      if (turn !== this.turn) return;
      this.answer = answer;
      this.failed = false;
      this.redraw();
      if (answer.progress < 1) this.later(READING_MS);
    } catch (error) {
      if (error.name === "AbortError" || turn !== this.turn) return;
      this.failed = true;
      fill(this.message, errorState(error.message));
      this.later(5000);
    }
  }

  get usual() {
    return (this.answer?.charts || []).map((chart) => chart.metric).filter((name) => !kept.metrics.includes(name));
  }

  showEmpty() {
    this.answer = null;
    for (const chart of this.charts.values()) { chart.destroy(); chart.element.remove(); }
    this.charts.clear();
    fill(this.legend);
    fill(this.message, emptyState("No runs yet", "Curves appear here as soon as a run starts.", "brisk train snake"));
  }

  redraw() {
    if (!this.answer) return;
    const order = this.runs.map((run) => run.id);
    const names = [...new Set(this.answer.charts.flatMap((chart) => chart.lines.map((line) => line.id)))];
    const colorNumber = (line) => (kept.group ? names.indexOf(line.id) : order.indexOf(line.id));
    const shown = this.answer.charts.filter((chart) => !kept.hidden.has(chart.metric));
    for (const [name, chart] of this.charts) {
      if (shown.some(({ metric }) => metric === name)) continue;
      chart.destroy();
      chart.element.remove();
      this.charts.delete(name);
    }
    shown.forEach(({ metric, label, lines }, at) => {
      const chart = this.chartOf(metric, label, at);
      const colored = lines.map((line) => ({ ...line, color: colorNumber(line) }));
      chart.show(colored, { clock: kept.clock, smoothing: kept.smoothing, band: kept.band, log: kept.log, window: kept.window, note: note(lines) });
    });
    this.reset.hidden = !kept.window;
    fill(this.message, shown.length ? null : emptyState("No numbers yet", "The first row of metrics is written a few seconds after the start."));
    this.showLegend(names, colorNumber);
    this.showState();
    this.showMetrics();
  }

  chartOf(metric, label, at) {
    if (!this.charts.has(metric)) {
      this.charts.set(metric, new LineChart({ title: label, onZoom: (window) => this.zoom(window) }));
    }
    const chart = this.charts.get(metric);
    if (this.grid.children[at] !== chart.element) this.grid.insertBefore(chart.element, this.grid.children[at] || null);
    return chart;
  }

  /** Names of groups; runs are in the strip of the selection already. */
  showLegend(names, colorNumber) {
    const chosen = store.selectedRows().length;
    this.legend.hidden = !kept.group && chosen > 0;
    const lines = new Map(this.answer.charts.flatMap((chart) => chart.lines.map((line) => [line.id, line])));
    fill(this.legend, names.map((id) => {
      const mark = el("span", { class: "swatch" });
      mark.style.background = colorOf(colorNumber(lines.get(id)));
      const runs = lines.get(id).runs;
      return el("span", { class: "legend-item" }, mark, lines.get(id).name,
        kept.group ? el("span", { class: "quiet" }, runs === 1 ? "1 run" : `${runs} runs, mean and 95 % interval`) : null);
    }), !chosen ? el("span", { class: "quiet" }, "The newest run. Select others in Runs.") : null);
  }

  showState() {
    const { progress } = this.answer;
    text(this.state, progress < 1 ? `Reading logs: ${Math.floor(100 * progress)} %, from samples so far` : "");
  }

  showMetrics() {
    const present = new Set(this.charts.keys());
    const rest = this.answer.available.filter(({ metric }) => !present.has(metric));
    const key = rest.map(({ metric }) => metric).join();
    if (this.metric.dataset.key === key) return;
    this.metric.dataset.key = key;
    fill(this.metric, el("option", { value: "" }, "Add chart"), rest.map(({ metric, label }) => el("option", { value: metric }, label)));
  }
}

function note(lines) {
  return lines.every((line) => line.exact) ? "" : "from samples";
}
