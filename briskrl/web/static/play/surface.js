// A canvas that is sharp on every display, follows its size, and knows the colors of the theme.

import { el } from "../js/dom.js";
import { onTheme } from "../js/theme.js";

const NAMES = ["paper", "card", "raised", "ink", "soft", "line", "accent", "accent-soft", "good", "warn", "bad", "grid"];

/** Colors of the theme by the name of their variable. */
export function themeColors() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name === "accent-soft" ? "accentSoft" : name, style.getPropertyValue(`--${name}`).trim()]));
}

export class Surface {
  /** `label` is what screen readers say; `changed` is called when size or colors have changed. */
  constructor(label, changed) {
    this.canvas = el("canvas", { class: "surface", role: "img", "aria-label": label });
    this.brush = this.canvas.getContext("2d");
    this.changed = changed;
    this.colors = themeColors();
    this.width = this.height = 1;
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.canvas);
    this.stopTheme = onTheme(() => {
      this.colors = themeColors();
      this.changed();
    });
  }

  fit() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.width = width;
    this.height = height;
    this.brush.setTransform(this.canvas.width / width, 0, 0, this.canvas.height / height, 0, 0);
    this.changed();
  }

  clear() {
    this.brush.clearRect(0, 0, this.width, this.height);
  }

  destroy() {
    this.observer.disconnect();
    this.stopTheme();
  }
}

/** A filled rectangle with round corners. */
export function roundRect(brush, x, y, width, height, radius) {
  brush.beginPath();
  brush.roundRect(x, y, width, height, radius);
}

/** Between two numbers. */
export function mix(from, to, part) {
  return from + (to - from) * part;
}

/** Bytes of base64 text. */
export function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
