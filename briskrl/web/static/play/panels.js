// Cards beside the board: what the network sees, what it makes of it, and how games have ended.

import { el, fill, text } from "../js/dom.js";
import { bytesOf, themeColors } from "./surface.js";

/** A card with a title; `body` holds its content. */
export function card(title, ...content) {
  const body = el("div", { class: "body" }, ...content);
  const element = el("section", { class: "card" }, el("header", {}, el("h3", {}, title)), body);
  return { element, body };
}

const TITLES = { values: "Action values (Q)", probabilities: "Action probabilities", mean: "Mean of the actions" };

/** The numbers behind the next action, as bars. */
export class Decision {
  constructor() {
    const { element, body } = card("Decision");
    this.element = element;
    this.body = body;
    this.title = element.querySelector("h3");
    this.rows = [];
    element.hidden = true;
  }

  show(state, actions, onPick = null) {
    const kind = ["values", "probabilities", "mean"].find((name) => state[name]);
    if (!kind) {
      if (state.end) for (const row of this.rows) row.element.classList.remove("chosen");
      return;
    }
    this.element.hidden = false;
    text(this.title, TITLES[kind]);
    const pairs = state[kind].top || state[kind].map((number, action) => [action, number]);
    const numbers = pairs.map(([, number]) => number);
    const most = kind === "probabilities" && state[kind].top ? Math.max(...numbers) : 1;
    const low = kind === "probabilities" ? 0 : Math.min(...numbers, kind === "mean" ? -1 : Infinity);
    const high = kind === "probabilities" ? 1 : Math.max(...numbers, kind === "mean" ? 1 : -Infinity);
    while (this.rows.length < pairs.length) this.rows.push(this.newRow());
    this.rows.forEach((row, at) => {
      row.element.hidden = at >= pairs.length;
      if (row.element.hidden) return;
      const [action, number] = pairs[at];
      // A bar that shows the lowest value is short, but visible.
      const share = high > low ? 0.04 + (0.96 * (number - low)) / (high - low) : 0.5;
      text(row.name, actions[action] ?? `action ${action}`);
      text(row.number, kind === "probabilities" ? `${(100 * number).toFixed(1)} %` : number.toFixed(2));
      row.bar.style.transform = `scaleX(${kind === "probabilities" ? number / most : share})`;
      const chosen = kind === "mean" ? false : Array.isArray(state.next) ? state.next.includes(action) : state.next === action;
      row.element.classList.toggle("chosen", chosen);
      row.element.title = actions[action] ?? "";
      row.element.onclick = onPick && (() => onPick(action));
      row.element.classList.toggle("pickable", Boolean(onPick));
    });
  }

  newRow() {
    const name = el("span", { class: "name" });
    const number = el("span", { class: "number" });
    const bar = el("span", { class: "fill" });
    const element = el("div", { class: "bar-row" }, name, el("span", { class: "track" }, bar), number);
    this.body.append(element);
    return { element, name, number, bar };
  }
}

/** Features by name, or planes as small pictures. */
export class Inputs {
  constructor(names, shape) {
    const { element, body } = card("What the network sees");
    this.element = element;
    this.body = body;
    this.names = names;
    this.shape = shape;
    body.classList.add("inputs");
    if (shape.length === 3) this.makePlanes(shape);
    else this.makeFeatures();
  }

  makeFeatures() {
    this.cells = this.names.map((name) => {
      const number = el("b", {}, "");
      const cell = el("div", { class: "feature" }, el("span", {}, name), number);
      this.body.append(cell);
      return { cell, number };
    });
  }

  makePlanes([, height, width]) {
    this.planes = this.names.map((name) => {
      const canvas = el("canvas", { width, height, class: "plane", "aria-label": name });
      this.body.append(el("figure", {}, canvas, el("figcaption", {}, name)));
      const brush = canvas.getContext("2d");
      return { brush, pixels: brush.createImageData(width, height) };
    });
  }

  show(state) {
    if (this.cells && state.obs) {
      state.obs.forEach((value, at) => {
        if (!this.cells[at]) return;
        const { cell, number } = this.cells[at];
        text(number, Number.isInteger(value) ? String(value) : value.toFixed(2));
        cell.style.setProperty("--level", String(Math.max(0, Math.min(1, value))));
        cell.classList.toggle("on", value > 0.5);
      });
    }
    if (this.planes && state.planes) this.showPlanes(bytesOf(state.planes));
  }

  showPlanes(bytes) {
    const [, height, width] = this.shape;
    const [red, green, blue] = rgbOf(themeColors().accent);
    this.planes.forEach(({ brush, pixels }, plane) => {
      for (let at = 0; at < height * width; at += 1) {
        const level = bytes[plane * height * width + at];
        pixels.data.set([red, green, blue, level], 4 * at);
      }
      brush.putImageData(pixels, 0, 0);
    });
  }
}

function rgbOf(color) {
  const digits = /^#(..)(..)(..)$/.exec(color);
  return digits ? digits.slice(1).map((pair) => parseInt(pair, 16)) : [15, 118, 110];
}

/** How the games of this session have ended, the newest first. */
export class Results {
  constructor() {
    const { element, body } = card("Games");
    this.element = element;
    this.list = el("ol", { class: "results" });
    body.append(this.list);
    element.hidden = true;
    this.known = new Set();
  }

  add({ seed, episode, policy }, { score, steps, won }) {
    const key = `${seed}/${episode}/${policy.name}/${policy.step}`;
    if (this.known.has(key)) return;
    this.known.add(key);
    this.element.hidden = false;
    const line = el("li", {}, el("span", {}, `seed ${seed}, game ${episode}`), el("b", {}, short(score)),
      el("span", { class: "quiet" }, `${steps} steps${won ? ", won" : ""}`));
    this.list.prepend(line);
    while (this.list.children.length > 8) this.list.lastChild.remove();
  }
}

/** A number with as many places as it needs. */
export function short(number) {
  if (Number.isInteger(number)) return String(number);
  return Math.abs(number) >= 100 ? number.toFixed(0) : number.toFixed(2);
}

/** Facts as a row of labels and numbers: `{Score: element}`. */
export class Facts {
  constructor(names) {
    this.numbers = {};
    this.element = el("dl", { class: "facts" }, names.map((name) => {
      this.numbers[name] = el("dd", {}, "-");
      return el("div", {}, el("dt", {}, name), this.numbers[name]);
    }));
  }

  show(values) {
    for (const [name, value] of Object.entries(values)) text(this.numbers[name], String(value));
  }
}

export { el, fill, text };
