// Columns of the table: what a cell shows, and what it is sorted by.

import { count, duration, number, percent, setting } from "../format.js";
import { secondsSince } from "../store.js";

const KINDS = {
  running: "running", finished: "good", callback: "good", empty: "", silent: "warn",
  sigint: "warn", sigterm: "warn", sighup: "warn", killed: "bad",
};

/** How a state is colored. */
export function kindOf(status) {
  return KINDS[status] ?? "bad";
}

/** The score of a run: that of its final evaluation, else the mean of training. */
export function scoreOf(run) {
  return run.final_score ?? run.mean_score;
}

function steps(run) {
  const total = run.total_steps ? ` / ${count(run.total_steps)}` : "";
  return `${count(run.env_steps)}${total}`;
}

/** Columns in order: `value` is sorted by, `text` is shown. */
export const COLUMNS = [
  { id: "name", title: "Run", value: (run) => run.name, text: (run) => run.name, wide: true },
  { id: "status", title: "State", value: (run) => run.status, text: (run) => run.status },
  { id: "env", title: "Environment", value: (run) => run.env, text: (run) => run.env || "?" },
  { id: "algo", title: "Algorithm", value: (run) => run.algo, text: (run) => run.algo || "?" },
  { id: "score", title: "Score", number: true, value: scoreOf, text: (run) => number(scoreOf(run)),
    hint: "final evaluation without exploration; in italics: mean of the last training episodes" },
  { id: "steps", title: "Steps", number: true, value: (run) => run.env_steps, text: steps },
  { id: "speed", title: "Steps/s", number: true, value: (run) => run.steps_per_s,
    text: (run) => count(run.steps_per_s) },
  { id: "machine", title: "Machine", number: true, value: (run) => run.machine_fraction,
    text: (run) => percent(run.machine_fraction), hint: "share of the arithmetic of a core" },
  { id: "seed", title: "Seed", number: true, value: (run) => run.seed,
    text: (run) => setting(run.seed) },
  { id: "age", title: "Age", number: true, value: (run) => -run.changed_at,
    text: (run) => duration(secondsSince(run.changed_at)), hint: "since it last wrote its state" },
];

/** A column for a setting; `valueOf(run)` looks it up. */
export function settingColumn(name, valueOf) {
  return {
    id: `setting:${name}`, title: name.split(".").pop(), hint: name, number: false,
    value: valueOf, text: (run) => setting(valueOf(run)),
  };
}

/** Order of two runs by a column; missing values come last in both directions. */
export function compare(column, descending) {
  return (left, right) => {
    const a = column.value(left);
    const b = column.value(right);
    if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
    if (b === null || b === undefined) return -1;
    const order = typeof a === "number" && typeof b === "number"
      ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
    return descending ? -order : order;
  };
}
