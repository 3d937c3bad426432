// The network of CAGE-2 on a canvas: thirteen hosts as they are, and as blue sees them.

import { OrderRow, placesOf, verdict } from "./cage2_order.js";
import { Decision, Facts, card, el, fill, text } from "./panels.js";
import { Surface, roundRect } from "./surface.js";

const ACCESS = ["clean", "user access", "ROOT"];
const BELIEF = ["clean", "unknown", "user", "privileged"];
const ACTIVITY = { 0: "", 1: "scan seen", 3: "exploit seen" };
const DANGER = ["#3b9c6d", "#d9902f", "#d64545"];
const DOUBT = ["#3b9c6d", "#8b93a1", "#d9902f", "#d64545"];
const BLUE = "#3f8cff", RED = "#ff4d4d", DECOY = "#2bb8a6";
const LOG_LINES = 6;

export function create({ stage, side, request, timeline, changed, announce, setPlaying }) {
  let scene = null, boxes = [], ranks = [], view = "both";
  const alone = { totals: [], branched: false };
  const surface = new Surface("A network of thirteen hosts", changed);
  surface.canvas.classList.add("network");
  const order = new OrderRow();
  const views = choice([["both", "Both"], ["truth", "Truth"], ["belief", "Blue's view"]], (name) => {
    view = name;
    order.show(timeline.state, view === "belief");
    changed();
  });
  const service = el("span", { class: "badge" });
  stage.append(el("div", { class: "toolbar" }, views, legend(), el("span", { class: "spread" }), service), order.element, surface.canvas);
  const facts = new Facts(["Step", "Reward", "Total", "Agent alone"]);
  const moves = card("Moves");
  moves.body.classList.add("moves");
  const decision = new Decision();
  const picker = card("Be blue");
  const filter = el("input", { class: "field", type: "search", placeholder: "Find an action: restore op", "aria-label": "Find an action", oninput: listActions });
  const list = el("div", { class: "actions", role: "listbox", "aria-label": "Actions of blue" });
  picker.body.append(el("p", { class: "quiet small" }, "Choose blue's next action. The agent goes on from there."), filter, list);
  side.append(facts.element, decision.element, picker.element, moves.element);

  function listActions() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = scene.actions.map((name, action) => [name, action])
      .filter(([name]) => words.every((word) => name.toLowerCase().includes(word)));
    fill(list, found.map(([name, action]) =>
      el("button", { type: "button", role: "option", "data-action": action, onclick: () => take(action) }, name)));
  }

  async function take(action) {
    if (timeline.state.end) {
      announce("The game is over. Begin another one.");
      return;
    }
    setPlaying(false);
    const index = timeline.index;
    try {
      await request("act", { epoch: timeline.epoch, index, action });
      alone.branched = true;
      timeline.seek(index + 1);
      announce(`Blue: ${scene.actions[action]}`);
      changed();
    } catch (error) {
      announce(error.message);
    }
  }

  return {
    speeds: [0.5, 120],
    begin(game) {
      scene = game.scene;
      ranks = placesOf(game);
      order.begin(game.facts.order);
      alone.totals = [];
      alone.branched = false;
      listActions();
    },
    receive(from, states) {
      if (!alone.branched) states.forEach((state, at) => { alone.totals[from + at] = state.t ?? 0; });
    },
    draw() {
      boxes = layout(surface, scene);
      paint(surface, scene, boxes, ranks, timeline.state, view, timeline.part);
    },
    panel(state) {
      const before = alone.totals[timeline.index];
      facts.show({
        Step: `${state.step}/${scene.length}`, Reward: (state.r ?? 0).toFixed(1), Total: (state.t ?? 0).toFixed(1),
        "Agent alone": before === undefined ? "-" : before.toFixed(1),
      });
      service.dataset.kind = state.service ? "good" : "bad";
      text(service, state.service ? "Operational service runs" : "Operational service is down");
      order.show(state, view === "belief");
      decision.show(state, scene.actions, take);
      showMoves(moves.body, timeline, scene);
    },
    key: () => false,
    destroy: () => surface.destroy(),
  };
}

/** Buttons of which one is pressed. */
function choice(options, pick) {
  const buttons = options.map(([name, label]) => el("button", { type: "button", "data-name": name, onclick: () => choose(name) }, label));
  const choose = (name) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.name === name));
    pick(name);
  };
  for (const button of buttons) button.setAttribute("aria-pressed", String(button === buttons[0]));
  return el("div", { class: "choice", role: "group", "aria-label": "What hosts show" }, buttons);
}

function legend() {
  return el("span", { class: "legend small quiet" }, [["clean", DANGER[0]], ["user", DANGER[1]], ["root", DANGER[2]], ["decoys", DECOY]].map(([name, color]) => {
    const dot = el("i");
    dot.style.background = color;
    return el("span", {}, dot, name);
  }));
}

function showMoves(body, timeline, scene) {
  const lines = [];
  for (let at = timeline.index; at > 0 && lines.length < LOG_LINES; at -= 1) {
    const state = timeline.states[at];
    const [blue, , red] = state.moves.map((move) => move.replace(/^\w+ +/, ""));
    lines.push(el("div", { class: "move" },
      el("span", { class: "quiet" }, String(state.step)),
      el("span", { class: state.human ? "blue human" : "blue" }, state.human ? `${blue} (you)` : blue, judged(state, timeline.states[at - 1])),
      el("span", { class: "red" }, red)));
  }
  fill(body, lines.length ? lines : el("p", { class: "quiet" }, "No moves yet."));
}

/** A mark beside a repair that followed the order, or did not. */
function judged(state, before) {
  const words = verdict(state, before);
  return words && el("span", { class: words === "in order" ? "good" : "poor" }, ` ${words}`);
}

/** Boxes of hosts: zones are columns on wide canvases and rows on narrow ones. */
function layout(surface, scene) {
  const { width, height } = surface, gap = 10, upright = width < 620;
  const boxes = [];
  scene.zones.forEach((zone, number) => {
    const hosts = scene.hosts.map((host, index) => [host, index]).filter(([host]) => host.zone === zone);
    const count = scene.zones.length;
    const area = upright
      ? { x: 0, y: (height * number) / count, width, height: height / count - gap }
      : { x: (width * number) / count, y: 0, width: width / count - gap, height };
    const columns = upright ? 2 : 1, rows = Math.ceil(hosts.length / columns);
    const inner = { top: 26, side: 10 };
    const boxWidth = (area.width - inner.side * (columns + 1)) / columns;
    const boxHeight = Math.min(78, (area.height - inner.top - inner.side * rows) / rows);
    hosts.forEach(([, index], at) => {
      boxes[index] = {
        x: area.x + inner.side + (at % columns) * (boxWidth + inner.side),
        y: area.y + inner.top + Math.floor(at / columns) * (boxHeight + inner.side),
        width: boxWidth, height: boxHeight,
      };
    });
    boxes.areas = [...(boxes.areas || []), { ...area, zone }];
  });
  return boxes;
}

function paint(surface, scene, boxes, ranks, state, view, part) {
  const { brush, colors } = surface;
  surface.clear();
  brush.textBaseline = "middle";
  brush.textAlign = "left";
  for (const area of boxes.areas) {
    brush.fillStyle = colors.raised;
    roundRect(brush, area.x, area.y, area.width, area.height, 10);
    brush.fill();
    brush.fillStyle = colors.soft;
    brush.font = "600 12px system-ui, sans-serif";
    brush.fillText(area.zone, area.x + 12, area.y + 14);
  }
  paintLinks(brush, colors, scene, boxes);
  scene.hosts.forEach((host, index) => paintHost(brush, colors, host, boxes[index], { ...stateOf(scene, state, index), rank: ranks[index] }, view));
  if (state.red >= 0 && view !== "belief") pulse(brush, boxes[state.red], RED, part);
  if (state.blue >= 0) pulse(brush, boxes[state.blue], BLUE, part);
}

/** Which host leads red to which. */
function paintLinks(brush, colors, scene, boxes) {
  brush.strokeStyle = colors.line;
  brush.lineWidth = 1.5;
  scene.hosts.forEach((host, index) => {
    if (host.link === null) return;
    const from = boxes[index], to = boxes[host.link];
    const x0 = from.x + from.width, y0 = from.y + from.height / 2, y1 = to.y + to.height / 2;
    brush.beginPath();
    brush.moveTo(x0, y0);
    brush.bezierCurveTo(x0 + 30, y0, to.x - 30, y1, to.x, y1);
    brush.stroke();
  });
}

function stateOf(scene, state, index) {
  const decoys = scene.decoys.filter((_, bit) => (state.decoys[index] >> bit) & 1).length;
  return { access: state.access[index], belief: state.belief[index], activity: state.activity[index], decoys };
}

function paintHost(brush, colors, host, box, now, view) {
  const shown = view === "belief" ? DOUBT[now.belief] : DANGER[now.access];
  brush.fillStyle = colors.card;
  roundRect(brush, box.x, box.y, box.width, box.height, 8);
  brush.fill();
  brush.save();
  brush.clip();
  brush.fillStyle = shown;
  brush.fillRect(box.x, box.y, 6, box.height);
  brush.globalAlpha = (view === "belief" ? now.belief : now.access) ? 0.16 : 0;
  brush.fillRect(box.x, box.y, box.width, box.height);
  brush.restore();
  brush.strokeStyle = colors.line;
  brush.lineWidth = 1;
  roundRect(brush, box.x, box.y, box.width, box.height, 8);
  brush.stroke();
  paintHostText(brush, colors, host, box, now, view, shown);
}

function paintHostText(brush, colors, host, box, now, view, shown) {
  const tight = box.height < 44, left = box.x + 16, right = box.x + box.width - 10;
  const line = (at) => box.y + box.height * at;
  brush.textAlign = "left";
  brush.fillStyle = colors.ink;
  brush.font = "600 12.5px system-ui, sans-serif";
  brush.fillText(host.name, left, line(tight ? 0.3 : 0.27));
  if (now.rank) {
    const end = left + brush.measureText(host.name).width + 8;
    brush.fillStyle = colors.soft;
    brush.fillText(now.rank, end, line(tight ? 0.3 : 0.27));
  }
  brush.font = "11px system-ui, sans-serif";
  brush.fillStyle = shown;
  brush.fillText(view === "belief" ? BELIEF[now.belief] : ACCESS[now.access], left, line(tight ? 0.72 : 0.56));
  for (let at = 0; at < now.decoys; at += 1) {
    brush.fillStyle = DECOY;
    brush.beginPath();
    brush.arc(right - 4 - at * 11, line(tight ? 0.3 : 0.27), 4, 0, 7);
    brush.fill();
  }
  if (view === "truth") return;
  brush.textAlign = "right";
  brush.fillStyle = now.activity ? colors.warn : colors.soft;
  const seen = [view === "both" ? `blue: ${BELIEF[now.belief]}` : "", ACTIVITY[now.activity]].filter(Boolean);
  if (tight || box.width < 150) brush.fillText(seen.at(-1) || "", right, line(0.72));
  else seen.forEach((words, at) => brush.fillText(words, right, line(0.56 + 0.24 * at)));
}

/** A ring that leaves the box of a host that was acted on. */
function pulse(brush, box, color, part) {
  brush.save();
  brush.strokeStyle = color;
  brush.globalAlpha = 1 - 0.7 * part;
  brush.lineWidth = 2.5;
  const out = 1 + 4 * part;
  roundRect(brush, box.x - out, box.y - out, box.width + 2 * out, box.height + 2 * out, 9 + out);
  brush.stroke();
  brush.restore();
}
