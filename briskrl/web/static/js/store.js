// What all views share: the rows of runs as the server streams them, and which are selected.

import { openEvents } from "./api.js";

export const rows = new Map();
/** Ids of the selected runs, in the order of their selection. */
export const selected = new Set();
export const connection = { state: "connecting", offset: 0 };
const listeners = new Map();

/** Call `listener` on "rows", "selection" or "connection"; returns a function that ends it. */
export function on(event, listener) {
  if (!listeners.has(event)) listeners.set(event, new Set());
  listeners.get(event).add(listener);
  return () => listeners.get(event).delete(listener);
}

function emit(event, detail) {
  for (const listener of [...(listeners.get(event) || [])]) listener(detail);
}

const HIDDEN_MS = 20000;
let stopStream = null;
let hiddenTimer = null;

/** Begin to stream; a page that nobody sees gives its connection to others after a while. */
export function connect() {
  openStream();
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(closeStream, HIDDEN_MS);
    else openStream();
  });
}

function openStream() {
  stopStream ??= openEvents("/api/events", {}, {
    open: () => setConnection("live"),
    lost: () => setConnection("lost"),
    runs: receive,
  });
}

function closeStream() {
  stopStream?.();
  stopStream = null;
}

function setConnection(state) {
  connection.state = state;
  emit("connection", state);
}

function receive({ runs, gone, all, now }) {
  connection.offset = now - Date.now() / 1000;
  if (all) rows.clear();
  for (const row of runs) rows.set(row.id, row);
  for (const id of gone) rows.delete(id);
  connection.loaded = true;
  emit("rows", { changed: runs.map((row) => row.id), gone, all });
}

/** Seconds since a time of the server. */
export function secondsSince(time) {
  return Math.max(0, Date.now() / 1000 + connection.offset - time);
}

/** Select exactly these runs. */
export function select(ids) {
  selected.clear();
  for (const id of ids) selected.add(id);
  emit("selection");
}

/** Add a run to the selection, or take it out. */
export function toggle(id) {
  if (!selected.delete(id)) selected.add(id);
  emit("selection");
}

/** The selected runs that exist. */
export function selectedRows() {
  return [...selected].map((id) => rows.get(id)).filter(Boolean);
}

/** The run that views of one run show: the one selected first, else the newest. */
export function currentRun() {
  return selectedRows()[0] || newestRun();
}

/** A run in training, or else the one that was written last; null without runs. */
export function newestRun() {
  let best = null;
  for (const row of rows.values()) {
    if (!best || rank(row) > rank(best)) best = row;
  }
  return best;
}

function rank(row) {
  return row.changed_at + (row.status === "running" ? 1e12 : 0);
}
