// Shares of the phases in the course of a run, stacked.

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { el, fill } from "../dom.js";
import { count, percent } from "../format.js";
import { colorOf } from "../palette.js";
import { color, onTheme } from "../theme.js";

const HEIGHT = 230;
const ORDER = ["update", "sample", "act", "env", "store", "log", "other", "save", "eval", "wait"];

/** The color of a phase: the same in all runs, as far as there are enough. */
export function phaseColor(name, at) {
  const place = ORDER.indexOf(name);
  return colorOf(place < 0 ? at : place);
}

export class PhaseChart {
  constructor() {
    this.plot = null;
    this.canvas = el("div", { class: "plot" });
    this.readout = el("span", { class: "small quiet spread ellipsis" });
    this.element = el("figure", { class: "card chart" },
      el("figcaption", {}, el("h3", {}, "Share of the time"), this.readout), this.canvas);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    this.stopTheme = onTheme(() => this.draw());
  }

  destroy() {
    this.observer.disconnect();
    this.stopTheme();
    this.plot?.destroy();
  }

  /** Show the answer of the server: `names`, `x`, and `over_time` with shares per phase. */
  show(answer) {
    this.answer = answer;
    this.draw();
  }

  draw() {
    if (!this.answer || !this.canvas.clientWidth) return;
    const { names, x, over_time: shares } = this.answer;
    const sums = x.map(() => 0);
    const stacked = shares.map((row) => row.map((share, at) => (sums[at] += share)));
    const series = [{ label: "x" }, ...names.map((name, at) => ({
      label: name, stroke: "transparent", width: 0, fill: `${phaseColor(name, at)}d0`, points: { show: false },
    })).reverse()];
    this.plot?.destroy();
    fill(this.canvas);
    const axis = { stroke: color("--soft"), grid: { show: false }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: this.canvas.clientWidth, height: HEIGHT, series, legend: { show: false }, padding: [10, 22, 0, 0],
      scales: { x: { time: false }, y: { range: [0, 1] } },
      axes: [
        { ...axis, size: 30, values: (_, places) => places.map(count) },
        { ...axis, size: 48, values: (_, values) => values.map(percent) },
      ],
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      hooks: { setCursor: [(plot) => this.readOut(plot)] },
    }, [x, ...stacked.reverse()], this.canvas);
  }

  readOut(plot) {
    const { idx } = plot.cursor;
    const { names, x, over_time: shares } = this.answer;
    const has = idx !== null && idx !== undefined && x[idx] !== undefined;
    this.readout.textContent = has
      ? `${count(x[idx])}: ${names.slice(0, 4).map((name, at) => `${name} ${percent(shares[at][idx])}`).join(", ")}` : "";
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    if (!this.plot) this.draw();
    else if (Math.abs(this.plot.width - width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }
}
