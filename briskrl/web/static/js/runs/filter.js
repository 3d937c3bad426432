// The filter of the table: words are looked for in names, conditions are decided by the server,
// with the same rules as `brisk runs --filter`.

import { getJson } from "../api.js";

const CONDITION = /[<>=]/;

/** A filter that keeps its answer until it changes; `changed` is called when there is a new one. */
export class Filter {
  constructor(changed) {
    this.words = [];
    this.ids = null;
    this.problem = "";
    this.changed = changed;
    this.turn = 0;
  }

  /** Filter by a text such as `snake lr<=1e-3 score>40`. */
  async set(value) {
    const parts = value.split(/\s+/).filter(Boolean);
    this.words = parts.filter((part) => !CONDITION.test(part)).map((word) => word.toLowerCase());
    this.conditions = parts.filter((part) => CONDITION.test(part));
    await this.refresh();
  }

  /** Ask the server again, because runs have changed. */
  async refresh() {
    const turn = ++this.turn;
    let ids = null;
    let problem = "";
    if (this.conditions?.length) {
      try {
        const answer = await getJson("/api/matching", { filter: this.conditions });
        ids = new Set(answer.ids);
        problem = answer.problem;
      } catch (error) {
        problem = error.message;
      }
    }
    if (turn !== this.turn) return;
    this.ids = problem ? this.ids : ids;
    this.problem = problem;
    this.changed();
  }

  /** Whether conditions must be decided again when runs change. */
  get isLive() {
    return Boolean(this.conditions?.length);
  }

  /** Whether a run is shown. */
  admits(run) {
    if (this.ids && !this.ids.has(run.id)) return false;
    if (!this.words.length) return true;
    const text = `${run.name} ${run.env} ${run.algo} ${run.status} ${run.host || ""}`.toLowerCase();
    return this.words.every((word) => text.includes(word));
  }
}
