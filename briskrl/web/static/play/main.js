// The agent plays.

import { emptyState, fill } from "../js/dom.js";

/** Show a policy at play; returns a function that stops it. */
export function mount(element, { run }) {
  fill(element, run
    ? emptyState("No player yet", "This version of the dashboard has no player for this run.", `brisk play ${run.run_dir}`)
    : emptyState("No run to play", "Train an agent first; its newest policy plays here.", "brisk train snake"));
  return () => fill(element);
}
