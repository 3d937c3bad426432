// The agent plays: a session with a player process, drawn by the view of its environment.

import { emptyState, fill } from "../js/dom.js";
import { isTyping } from "../js/shortcuts.js";
import { Controls } from "./controls.js";
import { Results, el } from "./panels.js";
import { PlayError, Session, ask } from "./session.js";
import { describe } from "./states.js";
import { Timeline } from "./timeline.js";

const VIEWS = {
  snake: () => import("./snake.js"),
  cage2: () => import("./cage2.js"),
  wildfire: () => import("./wildfire.js"),
  cartpole: () => import("./cartpole.js"),
  frames: () => import("./frames.js"),
  numbers: () => import("./frames.js"),
};
const AFTER_GAME_S = 1.5, RETRY_MS = 3000, PANELS_PER_S = 20, LONGEST_TICK_S = 0.25;

/** Show a policy at play; returns a function that stops it. */
export function mount(element, { run }) {
  if (!run) {
    fill(element, emptyState("No run to play", "Train an agent first; its newest policy plays here.", "brisk train snake"));
    return () => fill(element);
  }
  const player = new Player(element, run);
  player.open();
  return () => player.close();
}

class Player {
  constructor(element, run) {
    this.element = element;
    this.run = run;
    this.game = null;
    this.view = null;
    this.turn = 0;
    this.dirty = true;
    this.closed = false;
    this.timeline = new Timeline((shown, upto) => this.want(shown, upto));
    this.controls = new Controls(this, this.timeline);
    this.results = new Results();
    this.stage = el("div", { class: "play-stage" });
    this.side = el("aside", { class: "play-side" });
    this.cover = el("div", { class: "play-cover", role: "status" });
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
    fill(element, el("div", { class: "play" }, this.controls.top, this.cover,
      el("div", { class: "play-main" }, this.stage, this.side), this.controls.transport));
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  /** Start a player process, or say why there is none. */
  async open() {
    const turn = ++this.turn;
    this.session?.close();
    this.showCover("Starting a player", "");
    try {
      const { policies } = await ask("policies", { run: this.run.id });
      if (turn !== this.turn) return;
      this.controls.listPolicies(policies);
      if (!policies.length) throw new PlayError("no-policy", "");
      this.session = new Session({
        opening: ({ text: words }) => this.showCover(words, "The first start compiles kernels, which takes up to a minute."),
        game: (game) => this.begin(game),
        states: (batch) => this.receive(batch),
        branch: (branch) => this.timeline.branch(branch),
        failed: (failure) => { if (turn === this.turn) this.fail(failure.code, failure.text); },
      });
      await this.session.start({ run: this.run.id, ...this.controls.choice() });
    } catch (error) {
      if (turn === this.turn) this.fail(error.code || "broken", error.message);
    }
  }

  /** Another game with the chosen policy, seed and number. */
  async restart() {
    if (!this.session || this.session.closed) {
      this.open();
      return;
    }
    try {
      await this.session.request("begin", this.controls.choice());
    } catch (error) {
      if (error.code === "unknown" || error.code === "ended") this.open();
      else this.controls.announce(error.message);
    }
  }

  async begin(game) {
    this.timeline.begin(game);
    this.game = game;
    this.overFor = 0;
    this.shownIndex = -1;
    // States may arrive while the module of the view is loading.
    const module = await VIEWS[game.kind]();
    if (this.closed || this.game !== game) return;
    if (this.kind !== game.kind || this.env !== game.env) {
      this.view?.destroy();
      fill(this.stage);
      fill(this.side);
      this.view = module.create(this.surroundings());
      this.side.append(this.results.element);
      this.timeline.speed = game.scene.fps;
      Object.assign(this, { kind: game.kind, env: game.env });
    }
    this.view.begin(game);
    this.controls.begin(game, this.view.speeds);
    this.hideCover();
    if (this.timeline.states.length) this.view.receive?.(0, this.timeline.states);
    this.viewed = game;
    this.dirty = true;
  }

  surroundings() {
    return {
      stage: this.stage, side: this.side, timeline: this.timeline,
      request: (name, params) => this.session.request(name, params),
      changed: () => { this.dirty = true; },
      announce: (words) => this.controls.announce(words),
      setPlaying: (playing) => this.controls.setPlaying(playing),
    };
  }

  receive(batch) {
    if (!this.timeline.receive(batch)) return;
    if (this.viewed === this.game) this.view.receive?.(batch.from, batch.states);
    this.dirty = true;
  }

  want(shown, upto) {
    this.session.request("want", { epoch: this.timeline.epoch, shown, upto }).catch((error) => {
      if (error.code === "offline") this.fail(error.code, error.message);
    });
  }

  tick(now) {
    this.frame = requestAnimationFrame((later) => this.tick(later));
    const seconds = Math.min((now - (this.before ?? now)) / 1000, LONGEST_TICK_S);
    this.before = now;
    if (!this.view || this.viewed !== this.game || !this.timeline.state) return;
    const at = this.timeline.at;
    this.timeline.advance(seconds);
    this.view.tick?.(seconds, this.timeline.speed);
    if (this.timeline.at !== at || this.dirty) this.draw(now);
    this.goOn(seconds);
  }

  draw(now) {
    this.dirty = false;
    this.view.draw();
    const index = this.timeline.index;
    if (index !== this.shownIndex || this.shownEpoch !== this.timeline.epoch) {
      if (now - (this.panelAt ?? 0) < 1000 / PANELS_PER_S && !this.timeline.over) {
        this.dirty = true;
        return;
      }
      Object.assign(this, { panelAt: now, shownIndex: index, shownEpoch: this.timeline.epoch });
      this.view.panel(this.timeline.state);
    }
    this.controls.show();
  }

  /** After a game, the next one. */
  goOn(seconds) {
    if (!this.timeline.over) return;
    if (!this.overFor) this.results.add(this.game, this.timeline.state.end);
    this.overFor += seconds || 1e-6;
    if (this.overFor < AFTER_GAME_S || this.askedNext === this.game || !this.timeline.playing) return;
    if (!this.controls.goesOn || this.view.holdsGame?.()) return;
    this.askedNext = this.game;
    this.controls.step(1);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || document.querySelector("dialog[open]")) return;
    if (this.view?.key?.(event) || this.controls.key(event)) event.preventDefault();
  }

  fail(code, words) {
    const { title, explanation, command } = describe(code, words);
    const again = el("button", { class: "button primary", type: "button", onclick: () => this.open() }, code === "idle" ? "Go on" : "Try again");
    this.showCover(title, explanation, command, code === "no-policy" ? null : again, code);
    if (code === "no-policy") this.retry = setTimeout(() => this.open(), RETRY_MS);
  }

  showCover(title, explanation, command = "", button = null, code = "") {
    const content = emptyState(title, explanation, command);
    content.dataset.code = code;
    if (button) content.append(button);
    if (!code || code === "no-policy") content.prepend(el("span", { class: "spinner", "aria-hidden": "true" }));
    fill(this.cover, content);
    this.cover.hidden = false;
    this.element.firstChild.classList.add("covered");
  }

  hideCover() {
    this.cover.hidden = true;
    this.element.firstChild.classList.remove("covered");
  }

  close() {
    this.closed = true;
    this.turn += 1;
    clearTimeout(this.retry);
    cancelAnimationFrame(this.frame);
    document.removeEventListener("keydown", this.onKey);
    this.session?.close();
    this.view?.destroy();
    fill(this.element);
  }
}
