// Settings of all runs, fetched once and again when there are new runs.

import { getJson } from "../api.js";

let shared = {};
let own = {};
let loadedFor = "";

/** Fetch the settings unless they are known for these ids. */
export async function loadSettings(ids) {
  const key = [...ids].sort().join();
  if (key === loadedFor) return false;
  ({ shared, own } = await getJson("/api/settings"));
  loadedFor = key;
  return true;
}

/** A setting of a run. */
export function settingOf(run, name) {
  return own[run.id]?.[name] ?? shared[name];
}

/** Settings that differ between runs first, then the others. */
export function settingNames() {
  const varying = new Set(Object.values(own).flatMap((settings) => Object.keys(settings)));
  varying.delete("run_dir");
  return { varying: [...varying].sort(), shared: Object.keys(shared).sort() };
}
