// The table of runs: live, filtered, sorted, grouped, selected by mouse or keyboard.

import { el, emptyState, fill, text } from "../dom.js";
import { number } from "../format.js";
import { isTyping } from "../shortcuts.js";
import * as store from "../store.js";
import { COLUMNS, compare, kindOf, scoreOf, settingColumn } from "./columns.js";
import { Filter } from "./filter.js";
import { loadSettings, settingNames, settingOf } from "./settings.js";
import { showSweeps } from "./sweeps.js";

const PAGE = 500;
/** Kept while other tabs are shown. */
const kept = { sort: "age", descending: false, group: "", filter: "", extra: [], closed: new Set(), most: PAGE };

/** Show the view; returns a function that ends it. */
export function mount(element) {
  const view = new RunsView(element);
  return () => view.stop();
}

class RunsView {
  constructor(element) {
    this.element = element;
    this.lines = new Map();
    this.cursor = null;
    this.order = "";
    this.filter = new Filter(() => this.update());
    this.build();
    this.stops = [
      store.on("rows", (news) => this.receive(news)),
      store.on("selection", () => this.markSelection()),
    ];
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
    this.timer = setInterval(() => this.updateAges(), 5000);
    this.filter.set(kept.filter);
    this.loadNames();
    this.loadSweeps();
  }

  stop() {
    this.stopped = true;
    clearInterval(this.timer);
    document.removeEventListener("keydown", this.onKey);
    for (const stop of this.stops) stop();
    fill(this.element);
  }

  build() {
    this.input = el("input", {
      class: "field filter", type: "search", value: kept.filter, spellcheck: "false",
      placeholder: "Filter: name, score>40, lr<=1e-3", "aria-label": "Filter runs",
      oninput: () => this.typed(),
    });
    this.groupBy = el("select", { class: "field", onchange: () => this.regroup() });
    this.addColumn = el("select", { class: "field", "aria-label": "Add a column", onchange: () => this.extend() });
    this.tally = el("span", { class: "quiet spread", role: "status" });
    this.problem = el("span", { class: "problem small", role: "alert" });
    this.openCurves = el("button", {
      class: "button primary", type: "button", disabled: true, onclick: () => this.go("curves"),
    }, "Compare curves");
    this.sweeps = el("section", { class: "sweeps", "aria-label": "Sweeps", hidden: true });
    this.head = el("thead");
    this.body = el("tbody");
    this.table = el("div", { class: "table-scroll runs-table" }, el("table", {}, this.head, this.body));
    this.nothing = el("div", { hidden: true });
    this.more = el("button", { class: "button", type: "button", hidden: true, onclick: () => { kept.most += PAGE; this.update(); } }, "Show more");
    fill(this.element, el("div", { class: "stack" },
      el("div", { class: "toolbar" }, this.input,
        el("label", {}, "Group by", this.groupBy), this.addColumn, this.problem, this.tally, this.openCurves),
      this.sweeps, this.table, this.nothing, this.more));
    this.fillChoices();
  }

  get columns() {
    const extra = kept.extra.map((name) => settingColumn(name, (run) => settingOf(run, name)));
    return [...COLUMNS.slice(0, -1), ...extra, COLUMNS.at(-1)];
  }

  async loadNames() {
    try {
      if (await loadSettings(store.rows.keys()) && !this.stopped) this.fillChoices();
      if (!this.stopped) this.update(true);
    } catch (error) {
      if (!this.stopped) text(this.problem, error.message);
    }
  }

  async loadSweeps() {
    const choose = (id) => store.select([...store.rows.values()].filter((run) => run.sweep === id).map((run) => run.id));
    await showSweeps(this.sweeps, choose, () => !this.stopped).catch((error) => text(this.problem, error.message));
  }

  fillChoices() {
    const { varying, shared } = settingNames();
    const options = (names) => names.map((name) => el("option", { value: name }, name));
    fill(this.groupBy, el("option", { value: "" }, "nothing"),
      ["env", "algo", "status", "sweep", "host"].map((name) => el("option", { value: `:${name}` }, { env: "environment", algo: "algorithm", status: "state" }[name] || name)),
      el("optgroup", { label: "Settings that differ" }, options(varying)),
      el("optgroup", { label: "Other settings" }, options(shared)));
    this.groupBy.value = kept.group;
    fill(this.addColumn, el("option", { value: "" }, "Add column"),
      el("optgroup", { label: "Settings that differ" }, options(varying)),
      el("optgroup", { label: "Other settings" }, options(shared)));
    this.drawHead();
  }

  drawHead() {
    const cells = this.columns.map((column) => {
      const sorted = kept.sort === column.id;
      const removable = column.id.startsWith("setting:");
      return el("th", {
        scope: "col", class: `${column.number ? "number" : ""} col-${removable ? "setting" : column.id}`,
        "aria-sort": sorted ? (kept.descending ? "descending" : "ascending") : "none",
      }, el("button", { class: "sort", type: "button", title: column.hint, onclick: () => this.sortBy(column) },
        column.title, el("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (kept.descending ? "▼" : "▲") : "")),
      removable ? el("button", { class: "remove", type: "button", "aria-label": `Remove column ${column.title}`, onclick: () => this.remove(column) }, "×") : null);
    });
    this.all = el("input", { type: "checkbox", "aria-label": "Select all shown runs", onchange: () => this.selectAll() });
    fill(this.head, el("tr", {}, el("th", { class: "col-check" }, this.all), cells));
  }

  typed() {
    kept.filter = this.input.value;
    clearTimeout(this.wait);
    this.wait = setTimeout(() => this.filter.set(kept.filter), 150);
  }

  sortBy(column) {
    if (kept.sort === column.id) kept.descending = !kept.descending;
    else Object.assign(kept, { sort: column.id, descending: Boolean(column.number) && column.id !== "age" });
    this.drawHead();
    this.update(true);
  }

  regroup() {
    kept.group = this.groupBy.value;
    kept.closed.clear();
    this.update(true);
  }

  extend() {
    const name = this.addColumn.value;
    this.addColumn.value = "";
    if (name && !kept.extra.includes(name)) kept.extra.push(name);
    this.drawHead();
    this.update(true);
  }

  remove(column) {
    kept.extra = kept.extra.filter((name) => `setting:${name}` !== column.id);
    if (kept.sort === column.id) kept.sort = "age";
    this.drawHead();
    this.update(true);
  }

  receive({ changed, gone, all }) {
    for (const id of all ? this.lines.keys() : [...changed, ...gone]) this.lines.delete(id);
    if (all || gone.length || changed.some((id) => !settingOf({ id }, "env"))) this.loadNames();
    if (!this.refreshSweeps) {
      this.refreshSweeps = setTimeout(() => { this.refreshSweeps = null; if (!this.stopped) this.loadSweeps(); }, 5000);
    }
    if (this.filter.isLive) this.filter.refresh();
    else this.update();
  }

  groupOf(run) {
    if (!kept.group) return "";
    const found = kept.group.startsWith(":") ? run[kept.group.slice(1)] : settingOf(run, kept.group);
    return found === null || found === undefined ? "none" : String(found);
  }

  update(rebuild = false) {
    if (this.stopped) return;
    if (rebuild) this.lines.clear();
    text(this.problem, this.filter.problem);
    this.shown = [...store.rows.values()].filter((run) => this.filter.admits(run));
    const column = this.columns.find(({ id }) => id === kept.sort) || COLUMNS.at(-1);
    this.shown.sort(compare(column, kept.descending));
    this.showStates();
    this.place(this.arranged());
    this.markSelection();
  }

  /** Elements of the body in order: rows, below a header for each group. */
  arranged() {
    if (!kept.group) return this.shown.slice(0, kept.most).map((run) => this.line(run));
    const groups = new Map();
    for (const run of this.shown.slice(0, kept.most)) {
      const name = this.groupOf(run);
      groups.set(name, [...(groups.get(name) || []), run]);
    }
    return [...groups].flatMap(([name, runs]) => [
      this.groupLine(name, runs),
      ...(kept.closed.has(name) ? [] : runs.map((run) => this.line(run))),
    ]);
  }

  groupLine(name, runs) {
    const scores = runs.map(scoreOf).filter((score) => score !== null && score !== undefined);
    const mean = scores.length ? scores.reduce((a, b) => a + b, 0) / scores.length : null;
    const closed = kept.closed.has(name);
    const toggle = () => { if (!kept.closed.delete(name)) kept.closed.add(name); this.update(); };
    const title = `${this.groupBy.selectedOptions[0]?.textContent}: ${this.sweepName(name)}`;
    return el("tr", { class: "group" }, el("td", { colspan: this.columns.length + 1 },
      el("button", { class: "link", type: "button", "aria-expanded": String(!closed), onclick: toggle }, `${closed ? "▸" : "▾"} ${title}`),
      el("span", { class: "quiet" }, ` ${runs.length} ${runs.length === 1 ? "run" : "runs"}${mean === null ? "" : `, mean score ${number(mean)}`} `),
      el("button", { class: "link", type: "button", onclick: () => store.select(runs.map((run) => run.id)) }, "select")));
  }

  sweepName(name) {
    if (kept.group !== ":sweep" || name === "none") return name;
    const run = [...store.rows.values()].find((row) => row.sweep === name);
    return run ? run.name.split("/runs/")[0] : name;
  }

  line(run) {
    if (!this.lines.has(run.id)) this.lines.set(run.id, this.makeLine(run));
    return this.lines.get(run.id);
  }

  makeLine(run) {
    const cells = this.columns.map((column) => {
      const cell = el("td", { class: `${column.number ? "number" : ""} ${column.wide ? "name" : ""}`, title: column.wide ? run.run_dir : undefined });
      if (column.id === "status") cell.append(badge(run));
      else cell.textContent = column.text(run);
      if (column.id === "score" && run.final_score === null) cell.classList.add("in-training");
      if (column.id === "age") cell.dataset.age = "";
      return cell;
    });
    const box = el("input", { type: "checkbox", tabindex: "-1", "aria-label": `Select ${run.name}` });
    return el("tr", {
      "data-id": run.id, tabindex: "-1",
      onclick: (event) => this.click(event, run.id),
      ondblclick: () => { store.select([run.id]); this.go("curves"); },
    }, el("td", { class: "col-check" }, box), cells);
  }

  /** Put elements in order, moving only when the order has changed. */
  place(wanted) {
    const present = [...this.body.children];
    if (present.length === wanted.length && wanted.every((line, at) => line === present[at])) return;
    const focused = document.activeElement?.dataset?.id;
    this.body.replaceChildren(...wanted);
    if (focused) this.lines.get(focused)?.focus({ preventScroll: true });
  }

  showStates() {
    const total = store.rows.size;
    this.table.hidden = this.shown.length === 0;
    this.more.hidden = this.shown.length <= kept.most;
    const counted = this.shown.length === total ? `${total} runs` : `${this.shown.length} of ${total} runs`;
    const running = this.shown.filter((run) => run.status === "running").length;
    text(this.tally, total ? `${counted}${running ? `, ${running} running` : ""}` : "");
    this.nothing.hidden = this.shown.length > 0;
    if (this.shown.length) return;
    fill(this.nothing, total
      ? emptyState("No run matches", "Clear the filter to see all runs again.")
      : emptyState("No runs yet", "Runs appear here as soon as they start.", "brisk train snake"));
  }

  click(event, id) {
    if (event.target.closest("button")) return;
    const ids = this.shown.map((run) => run.id);
    if (event.shiftKey && this.cursor) {
      const [from, to] = [ids.indexOf(this.cursor), ids.indexOf(id)].sort((a, b) => a - b);
      store.select([...new Set([...store.selected, ...ids.slice(Math.max(0, from), to + 1)])]);
      getSelection()?.removeAllRanges();
    } else store.toggle(id);
    this.moveTo(id, false);
  }

  selectAll() {
    store.select(this.all.checked ? this.shown.map((run) => run.id) : []);
  }

  markSelection() {
    for (const [id, line] of this.lines) {
      const chosen = store.selected.has(id);
      line.classList.toggle("selected", chosen);
      line.firstChild.firstChild.checked = chosen;
    }
    const chosen = store.selectedRows().length;
    this.openCurves.disabled = chosen === 0;
    text(this.openCurves, chosen > 1 ? `Compare ${chosen} runs` : "Show curves");
    const shown = this.shown || [];
    const marked = shown.filter((run) => store.selected.has(run.id)).length;
    this.all.checked = marked > 0 && marked === shown.length;
    this.all.indeterminate = marked > 0 && marked < shown.length;
  }

  updateAges() {
    const age = COLUMNS.at(-1);
    for (const [id, line] of this.lines) {
      const run = store.rows.get(id);
      if (run) text(line.querySelector("[data-age]"), age.text(run));
    }
  }

  moveTo(id, focus = true) {
    this.cursor = id;
    for (const [other, line] of this.lines) line.classList.toggle("cursor", other === id);
    if (focus) {
      this.lines.get(id)?.focus({ preventScroll: true });
      this.lines.get(id)?.scrollIntoView({ block: "nearest" });
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (isTyping(event)) this.input.blur();
      else store.select([]);
      return;
    }
    if (isTyping(event) && event.target.type !== "checkbox") return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (step) this.step(step);
    else if ((event.key === "x" || event.key === " ") && this.cursor && !event.target.closest("button")) store.toggle(this.cursor);
    else if (event.key === "Enter" && this.cursor && event.target.closest("tr")) this.openCursor();
    else if (event.key === "/") this.input.focus();
    else return;
    event.preventDefault();
  }

  step(by) {
    const ids = [...this.body.querySelectorAll("tr[data-id]")].map((line) => line.dataset.id);
    if (!ids.length) return;
    const at = ids.indexOf(this.cursor);
    this.moveTo(ids[at < 0 ? 0 : Math.min(ids.length - 1, Math.max(0, at + by))]);
  }

  openCursor() {
    if (!store.selected.has(this.cursor)) store.select([this.cursor]);
    this.go("curves");
  }

  go(tab) {
    document.getElementById(`tab-${tab}`).click();
  }
}

function badge(run) {
  const damage = run.damaged.length ? ` (damaged: ${run.damaged.join(", ")})` : "";
  return el("span", { class: "badge", "data-kind": damage ? "bad" : kindOf(run.status), title: damage || undefined }, run.status, damage ? " !" : "");
}
