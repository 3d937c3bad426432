// The folder of one run: config, notes, logs, checkpoints.

import { getJson } from "../api.js";
import { el, emptyState, errorState, fill } from "../dom.js";
import { bytes, duration } from "../format.js";
import * as store from "../store.js";

/** Show the view; returns a function that ends it. */
export async function mount(element, { run }) {
  if (!run) {
    fill(element, emptyState("No runs yet", "A run folder holds its settings, logs, checkpoints and policy.", "brisk train snake"));
    return () => fill(element);
  }
  const view = new FilesView(element, run);
  await view.fetch();
  return () => view.stop();
}

class FilesView {
  constructor(element, run) {
    this.run = run;
    this.element = element;
    this.key = "config";
    this.path = el("span", { class: "mono quiet path" });
    this.texts = el("div", { class: "choice", role: "group", "aria-label": "File" });
    this.content = el("pre", { class: "file mono", tabindex: "0" });
    this.logs = el("tbody");
    this.checkpoints = el("tbody");
    this.commands = el("div", { class: "stack" });
    const table = (head, body) => el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, head.map((title, at) => el("th", { scope: "col", class: at ? "number" : "" }, title)))), body));
    fill(element, el("h2", { class: "run-title" }, run.name, " ", this.path), el("div", { class: "two files" },
      el("section", { class: "card" }, el("header", {}, this.texts), this.content),
      el("div", { class: "stack" },
        el("section", { class: "card" }, el("header", {}, el("h2", {}, "Checkpoints and policies")), table(["Name", "Size", "Age"], this.checkpoints)),
        el("section", { class: "card" }, el("header", {}, el("h2", {}, "Logs")), table(["Name", "Size", "Age"], this.logs)),
        el("section", { class: "card" }, el("header", {}, el("h2", {}, "Commands")), el("div", { class: "body" }, this.commands)))));
    this.stopRows = store.on("rows", ({ changed }) => { if (changed.includes(run.id)) this.later(); });
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.stopRows();
    fill(this.element);
  }

  later() {
    if (this.timer) return;
    this.timer = setTimeout(() => { this.timer = null; this.fetch().catch(() => {}); }, 2000);
  }

  async fetch() {
    const found = await getJson(`/api/runs/${this.run.id}/files`);
    if (this.stopped) return;
    this.path.textContent = found.run_dir;
    fill(this.texts, found.texts.map(({ key, name }) => el("button", {
      type: "button", "aria-pressed": String(key === this.key), onclick: () => this.open(key),
    }, name)));
    fill(this.logs, found.logs.map(line));
    fill(this.checkpoints, [...found.policies, ...found.checkpoints].map(line));
    if (!found.checkpoints.length && !found.policies.length) {
      fill(this.checkpoints, el("tr", {}, el("td", { colspan: "3", class: "quiet wrap" }, "No checkpoint yet; the first is written a minute after the start.")));
    }
    const commands = ["eval", "play", "resume", "report"].map((name) => `brisk ${name} ${found.run_dir}`);
    fill(this.commands, el("pre", { class: "command" }, commands.join("\n")));
    if (!this.opened) await this.open(found.texts.some(({ key }) => key === this.key) ? this.key : found.texts[0]?.key);
  }

  async open(key) {
    if (!key) return;
    this.key = this.opened = key;
    for (const button of this.texts.children) button.setAttribute("aria-pressed", "false");
    try {
      const { text } = await getJson(`/api/runs/${this.run.id}/files/${key}`);
      if (this.stopped || key !== this.key) return;
      fill(this.content, text);
    } catch (error) {
      if (!this.stopped) fill(this.content, errorState(error.message));
    }
    const names = { config: "config.toml", notes: "notes.md", status: "status.json", meta: "meta.json" };
    for (const button of this.texts.children) button.setAttribute("aria-pressed", String(button.textContent === names[key]));
  }
}

function line(file) {
  return el("tr", {}, el("td", { class: "mono" }, file.name), el("td", { class: "number" }, bytes(file.bytes)),
    el("td", { class: "number" }, duration(store.secondsSince(file.changed_at))));
}
