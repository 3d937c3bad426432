// A landscape with fuel breaks, and fires that burn with those of the agent, of others and without.

import { Decision, Facts, card, el, fill, text } from "./panels.js";
import { Surface, bytesOf } from "./surface.js";

const NAMES = { none: "No breaks", agent: "Agent", dpv: "DPV", own: "Yours" };
const NEVER = 65535;
const BURN_SECONDS = 6, REST_SECONDS = 1.5;
const FRONT = 1 / 12;
const FIRE = [255, 96, 32], EMBER = [70, 28, 24], BREAK = "#101418";

export function create({ stage, side, request, timeline, changed, announce }) {
  let scene = null, game = null, legal = null, results = null, asking = false;
  const fire = { number: 0, minutes: null, last: 0, now: 0, rest: 0, asked: 0 };
  const panels = Object.fromEntries(Object.keys(NAMES).map((who) => [who, newPanel(who)]));
  const grid = el("div", { class: "lands" }, Object.values(panels).map((panel) => panel.element));
  const fireLabel = el("span", { class: "quiet" });
  const wind = el("span", { class: "wind", "aria-hidden": "true" }, "↓");
  const clear = el("button", { class: "button", type: "button", onclick: clearOwn }, "Remove your breaks");
  stage.append(grid, el("div", { class: "toolbar" },
    el("button", { class: "button", type: "button", "aria-label": "Fire before", onclick: () => light(fire.number - 1) }, "‹"),
    el("button", { class: "button", type: "button", "aria-label": "Next fire", onclick: () => light(fire.number + 1) }, "›"),
    wind, fireLabel, el("span", { class: "spread" }), clear));
  const facts = new Facts(["Breaks", "Left", "Burned", "No breaks"]);
  const table = card("Burned area");
  const decision = new Decision();
  side.append(facts.element, table.element, decision.element);
  fill(table.body, el("p", { class: "quiet" }, "Measured when the agent has placed its breaks."));
  panels.own.surface.canvas.addEventListener("click", place);

  function newPanel(who) {
    const surface = new Surface(`Landscape: ${NAMES[who]}`, changed);
    const number = el("b");
    const element = el("figure", { class: `board land-${who}` },
      el("figcaption", {}, el("span", {}, NAMES[who]), number, who === "own" ? el("span", { class: "quiet" }, "click cells") : null), surface.canvas);
    return { surface, number, element, cells: new Set(), minutes: null };
  }

  async function place(event) {
    const { surface } = panels.own, box = surface.canvas.getBoundingClientRect();
    const side_ = Math.min(surface.width / scene.width, surface.height / scene.height);
    const col = Math.floor((event.clientX - box.left - (surface.width - side_ * scene.width) / 2) / side_);
    const row = Math.floor((event.clientY - box.top - (surface.height - side_ * scene.height) / 2) / side_);
    if (row < 0 || col < 0 || row >= scene.height || col >= scene.width) return;
    await change("treat", { cell: row * scene.width + col });
  }

  function clearOwn() {
    return change("clear");
  }

  async function change(name, params = {}) {
    try {
      const { own } = await request(name, params);
      results = { ...(results || {}), own };
      showResults();
      await light(fire.number, { keepTime: true });
    } catch (error) {
      announce(error.message);
    }
  }

  /** Measure all breaks when the agent has placed its own. */
  async function compare() {
    if (asking || (results && results.agent)) return;
    asking = true;
    const measured = timeline.epoch;
    fill(table.body, el("p", { class: "quiet" }, "Burning the held-out fires."));
    try {
      const found = await request("compare");
      if (measured !== timeline.epoch) return;
      results = { ...found, own: found.own };
      showResults();
      await light(0);
    } catch (error) {
      announce(error.message);
    } finally {
      asking = false;
    }
  }

  function showResults() {
    for (const who of Object.keys(NAMES)) {
      const found = results[who];
      panels[who].cells = new Set(found ? found.cells : []);
      text(panels[who].number, found ? percent(found.area) : "");
    }
    if (!results.none) return;
    const most = results.none.area || 1;
    fill(table.body, Object.keys(NAMES).map((who) => resultRow(who, results[who], most)),
      el("p", { class: "quiet small" }, `Mean of ${results.fires} held-out fires, as a share of what can burn. DPV: ${results.planner}.`));
    changed();
  }

  function resultRow(who, found, most) {
    const bar = el("span", { class: "fill" });
    bar.style.transform = `scaleX(${found ? found.area / most : 0})`;
    const fewer = found && who !== "none" ? `${(100 * (found.area / most - 1)).toFixed(0)} %` : "";
    return el("div", { class: `bar-row result-${who}` }, el("span", { class: "name" }, `${NAMES[who]} (${found ? found.cells.length : 0})`),
      el("span", { class: "track" }, bar), el("span", { class: "number" }, found ? percent(found.area) : "-"), el("span", { class: "quiet number" }, fewer));
  }

  async function light(number, { keepTime = false } = {}) {
    if (!game) return;
    const count = game.facts.fires.length;
    fire.number = ((number % count) + count) % count;
    const turn = ++fire.asked;
    const { wind_kmh: speed, wind_from_deg: from } = game.facts.fires[fire.number];
    text(fireLabel, `fire ${fire.number + 1} of ${count}, wind ${speed} km/h`);
    wind.style.transform = `rotate(${from}deg)`;
    try {
      const { minutes, last } = await request("fire", { fire: fire.number });
      if (turn !== fire.asked) return;
      for (const [who, panel] of Object.entries(panels)) panel.minutes = minutes[who] ? wordsOf(minutes[who]) : null;
      fire.last = Math.max(last, 1);
      if (!keepTime) fire.now = 0;
      fire.rest = 0;
      changed();
    } catch (error) {
      announce(error.message);
    }
  }

  return {
    speeds: [1, 60],
    begin(now) {
      game = now;
      scene = now.scene;
      legal = bitsOf(bytesOf(now.facts.legal), scene.height * scene.width);
      results = null;
      fire.last = 0;
      const ground = groundImage(bytesOf(now.facts.ground), scene);
      for (const panel of Object.values(panels)) {
        Object.assign(panel, { ground, cells: new Set(), minutes: null });
        text(panel.number, "");
        panel.surface.canvas.style.aspectRatio = `${scene.width} / ${scene.height}`;
      }
      fill(table.body, el("p", { class: "quiet" }, "Measured when the agent has placed its breaks."));
      text(fireLabel, "");
    },
    tick(seconds) {
      if (timeline.over) compare();
      if (!fire.last || !timeline.playing) return;
      if (fire.now < fire.last) {
        fire.now = Math.min(fire.last, fire.now + (seconds * fire.last * timeline.speed) / 6 / BURN_SECONDS);
        changed();
      } else {
        fire.rest += seconds;
        if (fire.rest > REST_SECONDS) {
          fire.rest = -Infinity;
          light(fire.number + 1);
        }
      }
    },
    holdsGame: () => true,
    draw() {
      const { state } = timeline;
      if (!results || !results.agent) panels.agent.cells = new Set(state.treated);
      for (const panel of Object.values(panels)) paint(panel, scene, fire, legal);
    },
    panel(state) {
      facts.show({
        Breaks: state.treated.length, Left: scene.budget - state.spent,
        Burned: percent(state.burned), "No breaks": percent(state.untreated),
      });
      decision.show(state, new Proxy([], { get: (_, cell) => cellName(cell, scene) }));
    },
    destroy() {
      for (const panel of Object.values(panels)) panel.surface.destroy();
    },
  };
}

function cellName(cell, scene) {
  const number = Number(cell);
  return `row ${Math.floor(number / scene.width)}, column ${number % scene.width}`;
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function bitsOf(bytes, count) {
  return Array.from({ length: count }, (_, at) => (bytes[at >> 3] >> (7 - (at & 7))) & 1);
}

function wordsOf(base64) {
  const bytes = bytesOf(base64);
  return Array.from({ length: bytes.length / 2 }, (_, at) => bytes[2 * at] | (bytes[2 * at + 1] << 8));
}

/** The landscape as a small canvas, one pixel per cell. */
function groundImage(bytes, { width, height }) {
  const canvas = el("canvas", { width, height });
  const brush = canvas.getContext("2d"), pixels = brush.createImageData(width, height);
  for (let at = 0; at < width * height; at += 1) pixels.data.set([bytes[3 * at], bytes[3 * at + 1], bytes[3 * at + 2], 255], 4 * at);
  brush.putImageData(pixels, 0, 0);
  return canvas;
}

function paint({ surface, ground, cells, minutes }, scene, fire) {
  const { brush, width, height } = surface;
  const cell = Math.min(width / scene.width, height / scene.height);
  surface.clear();
  brush.save();
  brush.translate((width - cell * scene.width) / 2, (height - cell * scene.height) / 2);
  brush.imageSmoothingEnabled = false;
  brush.drawImage(ground, 0, 0, cell * scene.width, cell * scene.height);
  if (minutes && fire.last) paintFire(brush, minutes, fire, scene, cell);
  for (const place of cells) paintBreak(brush, place % scene.width, Math.floor(place / scene.width), cell);
  brush.restore();
}

function paintFire(brush, minutes, { now, last }, scene, cell) {
  minutes.forEach((minute, place) => {
    if (minute >= NEVER || minute > now) return;
    const age = (now - minute) / (last * FRONT);
    const heat = Math.max(0, 1 - age);
    const [red, green, blue] = FIRE.map((level, part) => Math.round(level * heat + EMBER[part] * (1 - heat)));
    brush.fillStyle = `rgb(${red} ${green} ${blue} / ${Math.round(70 + 25 * heat)}%)`;
    const col = place % scene.width, row = Math.floor(place / scene.width);
    // Whole pixels, so that neighbors do not overlap in a grid of darker lines.
    const [left, top, right, bottom] = [col, row, col + 1, row + 1].map((edge) => Math.round(edge * cell));
    brush.fillRect(left, top, right - left, bottom - top);
  });
}

function paintBreak(brush, col, row, cell) {
  brush.fillStyle = BREAK;
  brush.fillRect(col * cell, row * cell, cell, cell);
  brush.strokeStyle = "rgb(255 255 255 / 70%)";
  brush.lineWidth = 1;
  brush.strokeRect(col * cell + 0.5, row * cell + 0.5, cell - 1, cell - 1);
}
