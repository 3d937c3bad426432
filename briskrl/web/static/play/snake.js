// Snake on a canvas, alone or beside the user's own game.

import { Decision, Facts, Inputs, el, text } from "./panels.js";
import { Surface, mix, roundRect } from "./surface.js";

const KEYS = { ArrowUp: 0, ArrowRight: 1, ArrowDown: 2, ArrowLeft: 3, w: 0, d: 1, s: 2, a: 3 };
const NECK = [46, 184, 124], TAIL = [24, 110, 122], HEAD = "#7fd14f", FOOD = "#ef5350";
const SLIDE_BELOW = 40;

export function create({ stage, side, request, timeline, changed, announce }) {
  let scene = null;
  let start = [];
  const bodies = [];
  const mine = { game: null, direction: null, waiting: false, at: 0, body: [] };
  const boards = { agent: newBoard("Agent"), mine: newBoard("You") };
  boards.mine.element.hidden = true;
  const row = el("div", { class: "boards" }, boards.agent.element, boards.mine.element);
  const duelButton = el("button", { class: "button", type: "button", onclick: toggleDuel, "data-action": "duel" }, "Play against it");
  const hint = el("span", { class: "quiet small" }, "Same start, same food. Steer with the arrow keys.");
  stage.append(row, el("div", { class: "toolbar" }, duelButton, hint, padOf()));
  const facts = new Facts(["Score", "Length", "Return", "Steps"]);
  const decision = new Decision();
  let inputs = null;
  side.append(facts.element, decision.element);

  function newBoard(name) {
    const surface = new Surface(`Snake board: ${name}`, changed);
    const score = el("b", {}, "0");
    const note = el("span", { class: "quiet" });
    const element = el("figure", { class: "board" }, el("figcaption", {}, el("span", {}, name), score, note), surface.canvas);
    return { surface, score, note, element };
  }

  /** Keys for screens without a keyboard. */
  function padOf() {
    const names = ["↑", "→", "↓", "←"], labels = ["up", "right", "down", "left"];
    return el("span", { class: "pad", hidden: true }, [3, 0, 2, 1].map((direction) =>
      el("button", { class: "button", type: "button", "aria-label": labels[direction], onclick: () => steer(direction) }, names[direction])));
  }

  async function toggleDuel() {
    if (mine.game) {
      endDuel();
      return;
    }
    duelButton.disabled = true;
    try {
      mine.game = await request("duel");
    } catch (error) {
      announce(error.message);
      return;
    } finally {
      duelButton.disabled = false;
    }
    Object.assign(mine, { direction: null, waiting: false, at: 0, body: mine.game.body });
    boards.mine.element.hidden = false;
    stage.querySelector(".pad").hidden = false;
    text(duelButton, "Stop playing");
    text(hint, "Press an arrow key to begin. Both snakes move together.");
    timeline.seek(0);
    timeline.limit = 0;
    showMine();
    changed();
  }

  function endDuel() {
    mine.game = null;
    timeline.limit = Infinity;
    boards.mine.element.hidden = true;
    stage.querySelector(".pad").hidden = true;
    text(duelButton, "Play against it");
    text(hint, "Same start, same food. Steer with the arrow keys.");
    changed();
  }

  function steer(direction) {
    if (!mine.game || mine.game.over) return false;
    mine.direction = direction;
    return true;
  }

  /** One step of the user's game whenever its time has come. */
  function tick(seconds, speed) {
    if (!mine.game || mine.game.over || mine.direction === null || mine.waiting || !timeline.playing) return;
    mine.at += seconds * speed;
    if (mine.at < 1) return;
    mine.at = 0;
    mine.waiting = true;
    request("move", { direction: mine.direction })
      .then((state) => {
        if (!mine.game) return;
        mine.game = state;
        // The agent is shown at the same step as the user.
        timeline.limit = state.over ? Infinity : state.steps;
        showMine();
        changed();
      })
      .catch((error) => announce(error.message))
      .finally(() => { mine.waiting = false; });
  }

  function showMine() {
    text(boards.mine.score, String(mine.game.score));
    text(boards.mine.note, mine.game.over ? (mine.game.won ? "won" : "over") : "");
    if (mine.game.over) text(hint, `Your game is over with ${mine.game.score}. The agent plays on.`);
  }

  /** Bodies follow from heads and lengths. */
  function bodyAt(index) {
    if (!bodies.length) bodies.push(start);
    for (let at = bodies.length; at <= index; at += 1) {
      const before = bodies[at - 1], { head, length } = timeline.states[at];
      bodies.push(before[0] === head ? before : [head, ...before].slice(0, length));
    }
    return bodies[index];
  }

  return {
    speeds: [1, 120],
    begin(game) {
      scene = game.scene;
      start = game.facts.body;
      bodies.length = 0;
      if (!inputs) {
        inputs = new Inputs(scene.inputs, scene.input_shape);
        side.append(inputs.element);
      }
      for (const { surface } of Object.values(boards)) surface.canvas.style.aspectRatio = `${scene.width} / ${scene.height}`;
      if (mine.game) endDuel();
    },
    tick,
    key: (event) => (event.key in KEYS ? steer(KEYS[event.key]) : false),
    draw() {
      const body = bodyAt(timeline.index);
      const slides = timeline.next && timeline.speed < SLIDE_BELOW;
      const coming = slides ? bodyAt(timeline.index + 1) : body;
      paint(boards.agent.surface, scene, { body, coming, part: slides ? timeline.part : 0, food: timeline.state.food });
      if (mine.game) paint(boards.mine.surface, scene, { body: mine.game.body, coming: mine.game.body, part: 0, food: mine.game.food });
    },
    panel(state) {
      text(boards.agent.score, String(state.score));
      text(boards.agent.note, state.end ? (state.end.won ? "won" : "over") : "");
      facts.show({ Score: state.score, Length: state.length, Return: (state.t ?? 0).toFixed(2), Steps: timeline.index });
      decision.show(state, scene.actions);
      inputs.show(state);
    },
    destroy() {
      for (const { surface } of Object.values(boards)) surface.destroy();
    },
  };
}

function paint(surface, { width, height }, { body, coming, part, food }) {
  const { brush, colors } = surface;
  const cell = Math.min(surface.width / width, surface.height / height);
  surface.clear();
  brush.save();
  brush.translate((surface.width - cell * width) / 2, (surface.height - cell * height) / 2);
  paintGround(brush, colors, width, height, cell);
  if (food >= 0) paintFood(brush, food % width, Math.floor(food / width), cell);
  paintBody(brush, bodyPoints(body, coming, part, width), cell);
  brush.restore();
}

function paintGround(brush, colors, width, height, cell) {
  brush.fillStyle = colors.raised;
  roundRect(brush, 0, 0, width * cell, height * cell, Math.min(10, cell / 2));
  brush.fill();
  brush.save();
  brush.clip();
  brush.fillStyle = colors.grid;
  for (let row = 0; row < height; row += 1) {
    for (let col = row % 2; col < width; col += 2) brush.fillRect(col * cell, row * cell, cell, cell);
  }
  brush.restore();
}

function paintFood(brush, col, row, cell) {
  brush.fillStyle = FOOD;
  brush.beginPath();
  brush.arc((col + 0.5) * cell, (row + 0.5) * cell, cell * 0.32, 0, 7);
  brush.fill();
  brush.fillStyle = "rgb(255 255 255 / 55%)";
  brush.beginPath();
  brush.arc((col + 0.4) * cell, (row + 0.4) * cell, cell * 0.08, 0, 7);
  brush.fill();
}

/** Centers of the body on its way from one state to the next, head first, in cells. */
function bodyPoints(body, coming, part, width) {
  const center = (place) => [(place % width) + 0.5, Math.floor(place / width) + 0.5];
  const points = body.map(center);
  if (!part || coming[0] === body[0]) return points;
  const ahead = center(coming[0]);
  points.unshift([mix(points[0][0], ahead[0], part), mix(points[0][1], ahead[1], part)]);
  if (coming.length === body.length) {
    const tail = points.at(-1), before = points.at(-2);
    points[points.length - 1] = [mix(tail[0], before[0], part), mix(tail[1], before[1], part)];
  }
  return points;
}

function paintBody(brush, points, cell) {
  brush.lineCap = "round";
  brush.lineWidth = cell * 0.72;
  const shade = (at) => `rgb(${NECK.map((level, part) => Math.round(mix(level, TAIL[part], at / points.length))).join(" ")})`;
  for (let at = points.length - 1; at > 0; at -= 1) {
    const [x0, y0, x1, y1] = [...points[at], ...points[at - 1]].map((place) => place * cell);
    // Both ends of a piece have the colors of its neighbors, so that no seams show.
    const fade = brush.createLinearGradient(x0, y0, x1, y1);
    fade.addColorStop(0, shade(at));
    fade.addColorStop(1, shade(at - 1));
    brush.strokeStyle = fade;
    brush.beginPath();
    brush.moveTo(x0, y0);
    brush.lineTo(x1, y1);
    brush.stroke();
  }
  paintHead(brush, points, cell);
}

function paintHead(brush, [head, neck = head], cell) {
  const [x, y] = [head[0] * cell, head[1] * cell];
  brush.fillStyle = HEAD;
  brush.beginPath();
  brush.arc(x, y, cell * 0.42, 0, 7);
  brush.fill();
  const angle = Math.atan2(head[1] - neck[1], head[0] - neck[0]);
  for (const sideways of [-1, 1]) {
    brush.fillStyle = "#16202c";
    brush.beginPath();
    brush.arc(x + cell * (0.14 * Math.cos(angle) - sideways * 0.19 * Math.sin(angle)),
      y + cell * (0.14 * Math.sin(angle) + sideways * 0.19 * Math.cos(angle)), cell * 0.075, 0, 7);
    brush.fill();
  }
}
