// The bar above the board (policy, seed, game) and the one below (play, step, speed).

import { el, fill, text } from "./panels.js";

const STEPS = 100;
const KEYS = [
  ["Space", "play or pause"], [", .", "one step back or on"], ["[ ]", "slower, faster"],
  ["n p", "next, previous game"], ["r", "play the game again"],
];

export class Controls {
  constructor(player, timeline) {
    this.player = player;
    this.timeline = timeline;
    this.speeds = [1, 60];
    this.goesOn = true;
    this.top = this.topBar();
    this.transport = this.bottomBar();
  }

  topBar() {
    this.policy = el("select", { class: "field", "aria-label": "Policy", onchange: () => this.player.restart() }, el("option", { value: "newest" }, "newest"));
    this.seed = el("input", { class: "field number", type: "number", min: 0, step: 1, value: 0, "aria-label": "Seed", onchange: () => this.player.restart() });
    this.episode = el("input", { class: "field number", type: "number", min: 0, step: 1, value: 0, "aria-label": "Game", onchange: () => this.player.restart() });
    this.about = el("span", { class: "quiet" });
    return el("div", { class: "toolbar play-top" },
      el("label", {}, "Policy", this.policy), el("label", {}, "Seed", this.seed),
      el("label", {}, "Game",
        el("button", { class: "button", type: "button", "aria-label": "Previous game", title: "Previous game (p)", onclick: () => this.step(-1) }, "‹"),
        this.episode,
        el("button", { class: "button", type: "button", "aria-label": "Next game", title: "Next game (n)", onclick: () => this.step(1) }, "›")),
      el("button", { class: "button", type: "button", title: "Play the game again (r)", onclick: () => this.player.restart() }, "Again"),
      this.about);
  }

  bottomBar() {
    this.playButton = el("button", { class: "button primary play-button", type: "button", "aria-label": "Pause", title: "Play or pause (Space)", onclick: () => this.setPlaying(!this.timeline.playing) }, "❚❚");
    this.stepButton = el("button", { class: "button", type: "button", "aria-label": "One step", title: "One step (.)", onclick: () => this.move(1) }, "▸|");
    this.place = el("input", { type: "range", min: 0, max: 0, value: 0, step: 1, class: "place", "aria-label": "Step of the game", oninput: () => this.seek() });
    this.count = el("span", { class: "quiet count" }, "");
    this.speed = el("input", { type: "range", min: 0, max: STEPS, value: 50, class: "speed", "aria-label": "Speed", oninput: () => this.setSpeed(this.speedAt(Number(this.speed.value))) });
    this.rate = el("output", { class: "count" }, "");
    const goesOn = el("input", { type: "checkbox", checked: true, onchange: () => { this.goesOn = goesOn.checked; } });
    this.says = el("p", { class: "says", role: "status" });
    const keys = el("details", { class: "keys-hint small quiet" }, el("summary", {}, "Keys"), KEYS.map(([names, what]) =>
      el("span", {}, names.split(" ").map((name) => el("kbd", {}, name)), ` ${what}`)));
    return el("div", { class: "card play-transport" },
      el("div", { class: "toolbar" }, this.playButton, this.stepButton, this.place, this.count,
        el("label", { class: "speed-label" }, "Speed", this.speed, this.rate), el("label", {}, goesOn, "next game by itself"), keys),
      this.says);
  }

  /** What to begin: the policy, the seed and the number of the game. */
  choice() {
    return { policy: this.policy.value, seed: wholeOf(this.seed), episode: wholeOf(this.episode) };
  }

  listPolicies(policies) {
    const chosen = this.policy.value;
    fill(this.policy, policies.map(({ name, step }) =>
      el("option", { value: name }, step === null ? name : `step ${step.toLocaleString("en")}`)));
    if (policies.some(({ name }) => name === chosen)) this.policy.value = chosen;
  }

  begin(game, speeds) {
    this.speeds = speeds;
    this.seed.value = game.seed;
    this.episode.value = game.episode;
    const step = game.policy.step >= 0 ? `, ${game.policy.step.toLocaleString("en")} steps` : "";
    text(this.about, `${game.policy.algo} on ${game.env}${step}`);
    this.setSpeed(this.timeline.speed);
    this.announce("");
    this.show();
  }

  /** Keep the place up to date. */
  show() {
    const { timeline } = this;
    this.place.max = Math.max(timeline.last, 1);
    if (document.activeElement !== this.place || timeline.playing) this.place.value = timeline.index;
    text(this.count, `step ${timeline.index}${timeline.complete ? ` of ${timeline.last}` : ""}`);
  }

  setPlaying(playing) {
    this.timeline.playing = playing;
    text(this.playButton, playing ? "❚❚" : "▶");
    this.playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
  }

  /** Pause, and show the state before or after. */
  move(by) {
    this.setPlaying(false);
    this.timeline.seek(this.timeline.index + by);
    this.player.dirty = true;
  }

  seek() {
    this.timeline.seek(Number(this.place.value));
    this.player.dirty = true;
  }

  /** The speed at a place of the slider, in equal ratios. */
  speedAt(place) {
    const [low, high] = this.speeds;
    return low * (high / low) ** (place / STEPS);
  }

  setSpeed(speed) {
    const [low, high] = this.speeds;
    this.timeline.speed = Math.min(high, Math.max(low, speed));
    this.speed.value = Math.round((STEPS * Math.log(this.timeline.speed / low)) / Math.log(high / low));
    text(this.rate, `${this.timeline.speed < 10 ? this.timeline.speed.toFixed(1) : Math.round(this.timeline.speed)}/s`);
  }

  /** The next or the previous game of the seed. */
  step(by) {
    this.episode.value = Math.max(0, wholeOf(this.episode) + by);
    this.player.restart();
  }

  announce(words) {
    text(this.says, words);
  }

  /** Whether a key was for the controls. */
  key({ key, target }) {
    if (key === " " && target.tagName === "BUTTON") return false;
    const actions = {
      " ": () => this.setPlaying(!this.timeline.playing), ".": () => this.move(1), ",": () => this.move(-1),
      "]": () => this.setSpeed(this.timeline.speed * 1.25), "[": () => this.setSpeed(this.timeline.speed / 1.25),
      n: () => this.step(1), p: () => this.step(-1), r: () => this.player.restart(),
    };
    actions[key]?.();
    return key in actions;
  }
}

function wholeOf(field) {
  const number = Math.floor(Number(field.value));
  return Number.isSafeInteger(number) && number >= 0 ? number : 0;
}
