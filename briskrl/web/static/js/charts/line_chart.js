// One chart of several lines over a common axis, with bands, crosshair, readout and zoom.

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { el, fill } from "../dom.js";
import { count, duration, number } from "../format.js";
import { colorOf } from "../palette.js";
import { color, onTheme } from "../theme.js";
import { smooth } from "./smooth.js";

const HEIGHT = 230;
const MOST_BANDS = 8;
const MOST_READOUTS = 12;

/** How places on the horizontal axis are written. */
export function formatPlace(clock, value) {
  return clock === "env_steps" ? count(value) : duration(value);
}

export class LineChart {
  /**
   * @param title what the vertical axis shows
   * @param onZoom called with the two ends that were dragged, or null to see everything
   */
  constructor({ title, onZoom }) {
    this.onZoom = onZoom;
    this.plot = null;
    this.shape = "";
    this.canvas = el("div", { class: "plot" });
    this.readout = el("div", { class: "readout", hidden: true });
    this.note = el("span", { class: "small quiet spread" });
    this.element = el("figure", {
      class: "card chart", tabindex: "0", role: "group",
      "aria-label": `${title}. Plus and minus zoom, arrows move, 0 shows everything.`,
      onkeydown: (event) => this.key(event),
    }, el("figcaption", {}, el("h3", {}, title), this.note),
    el("div", { class: "plot-frame" }, this.canvas, this.readout));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    this.stopTheme = onTheme(() => { this.shape = ""; this.draw(); });
  }

  destroy() {
    this.observer.disconnect();
    this.stopTheme();
    this.plot?.destroy();
  }

  /** Show lines: `{name, x, mean, low, high, color}` with numbers for colors. */
  show(lines, options) {
    this.lines = lines;
    this.options = options;
    this.note.textContent = options.note || "";
    this.draw();
  }

  draw() {
    if (!this.lines || !this.canvas.clientWidth) return;
    const data = this.data();
    const shape = JSON.stringify([this.lines.map((line) => [line.name, line.color]), this.options, this.bands]);
    if (this.plot && shape === this.shape) {
      this.plot.setData(data, false);
      this.plot.batch(() => { this.setScales(); });
      return;
    }
    this.shape = shape;
    this.plot?.destroy();
    fill(this.canvas);
    this.plot = new uPlot(this.plotOptions(), data, this.canvas);
    this.setScales();
  }

  setScales() {
    const { window } = this.options;
    const x = this.plot.data[0];
    const [min, max] = window || [x[0] ?? 0, x.at(-1) ?? 1];
    this.plot.setScale("x", { min, max: max > min ? max : min + 1 });
  }

  /** Columns of uPlot: places, then per line raw values, smoothed values and the band. */
  data() {
    this.bands = this.options.band && this.lines.length <= MOST_BANDS;
    const tables = this.lines.map((line) => {
      const columns = [line.x, line.mean, smooth(line.mean, this.options.smoothing)];
      // On a logarithmic axis a band may not go below zero.
      const low = this.options.log ? line.low.map((value) => (value > 0 ? value : null)) : line.low;
      return this.bands ? [...columns, line.high, low] : columns;
    });
    if (!tables.length) return [[0]];
    return tables.length === 1 ? tables[0] : uPlot.join(tables);
  }

  plotOptions() {
    const { clock, smoothing, log } = this.options;
    const series = [{ label: "x" }];
    const bands = [];
    for (const line of this.lines) {
      const stroke = colorOf(line.color);
      series.push({ label: line.name, stroke: smoothing ? `${stroke}40` : "transparent", width: 1, spanGaps: true, points: { show: false } });
      series.push({ label: line.name, stroke, width: 1.75, spanGaps: true, points: { show: line.x.length < 2, size: 6 } });
      if (!this.bands) continue;
      series.push({ label: "high", stroke: "transparent", spanGaps: true, points: { show: false } });
      series.push({ label: "low", stroke: "transparent", spanGaps: true, points: { show: false } });
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${stroke}22` });
    }
    const axis = { stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width: this.canvas.clientWidth, height: HEIGHT, series, bands, legend: { show: false },
      padding: [10, 22, 0, 0],
      scales: { x: { time: false, auto: false }, y: log ? { distr: 3 } : { range: yRange } },
      axes: [
        { ...axis, size: 30, values: (_, places) => places.map((place) => formatPlace(clock, place)) },
        { ...axis, size: 56, values: (_, values) => values.map((value) => (value === null ? "" : tick(value))) },
      ],
      cursor: {
        sync: { key: "curves", setSeries: false },
        drag: { x: true, y: false, setScale: false },
        points: { show: false },
        bind: { dblclick: () => () => { this.onZoom(null); return null; } },
      },
      hooks: {
        setSelect: [(plot) => this.selected(plot)],
        setCursor: [(plot) => this.readOut(plot)],
      },
    };
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 8) return;
    this.onZoom([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  /** Values at the crosshair, beside it; only in the chart below the mouse. */
  readOut(plot) {
    const { left, idx } = plot.cursor;
    const over = plot.over.matches(":hover");
    this.readout.hidden = !over || idx === null || idx === undefined || left < 0;
    if (this.readout.hidden) return;
    const place = plot.posToVal(left, "x");
    const rows = this.lines.slice(0, MOST_READOUTS).map((line) => {
      const at = nearest(line.x, place);
      const mark = el("span", { class: "swatch" });
      mark.style.background = colorOf(line.color);
      return el("div", {}, mark, el("span", { class: "ellipsis" }, line.name),
        el("b", {}, number(line.mean[at])));
    });
    fill(this.readout, el("div", { class: "quiet" }, formatPlace(this.options.clock, place)), rows);
    const right = left > plot.over.clientWidth / 2;
    this.readout.style.left = right ? "" : `${left + 72}px`;
    this.readout.style.right = right ? `${plot.over.clientWidth - left + 24}px` : "";
  }

  key(event) {
    if (!this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { min, max } = this.plot.scales.x;
    const span = max - min;
    const windows = {
      "+": [min + span / 4, max - span / 4], "=": [min + span / 4, max - span / 4],
      "-": [min - span / 2, max + span / 2],
      ArrowLeft: [min - span / 4, max - span / 4], ArrowRight: [min + span / 4, max + span / 4],
    };
    if (event.key === "0") this.onZoom(null);
    else if (windows[event.key]) this.onZoom([Math.max(0, windows[event.key][0]), windows[event.key][1]]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (!width) return;
    if (!this.plot) this.draw();
    else if (Math.abs(this.plot.width - width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }
}

/** A tenth of room, and never a flat line on the edge. */
function yRange(_, low, high) {
  if (low === null || high === null) return [0, 1];
  // Rounding in the smoothing makes a flat line differ in its last digits.
  const isFlat = high - low <= 1e-9 * Math.max(Math.abs(high), Math.abs(low));
  const room = isFlat ? Math.abs(high) * 0.1 || 1 : (high - low) * 0.06;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function tick(value) {
  if (Math.abs(value) >= 10000) return count(value);
  return String(Number(value.toPrecision(6)));
}

function nearest(places, place) {
  let low = 0;
  let high = places.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (places[middle] < place) low = middle;
    else high = middle;
  }
  return place - places[low] < places[high] - place ? low : high;
}
