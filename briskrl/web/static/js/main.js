// The frame of the page: tabs, address, theme, selection, shortcuts. Views are loaded when shown.

import { el, errorState, fill, text } from "./dom.js";
import { showSelection } from "./selection_bar.js";
import { installShortcuts } from "./shortcuts.js";
import * as store from "./store.js";
import { installTheme } from "./theme.js";

const TABS = [
  ["runs", "Runs", () => import("./runs/view.js")],
  ["curves", "Curves", () => import("./curves/view.js")],
  ["phases", "Phases", () => import("./phases/view.js")],
  ["play", "Play", () => import("../play/main.js")],
  ["doctor", "Doctor", () => import("./doctor/view.js")],
  ["files", "Files", () => import("./files/view.js")],
];
/** Views that show one run, and are mounted anew for another one. */
const OF_ONE_RUN = new Set(["phases", "play", "doctor", "files"]);

const view = document.getElementById("view");
const shown = { tab: "", run: null, stop: null, turn: 0, following: false };

/** The address holds the tab and the selected runs: `#/curves?runs=ID,ID`. */
function readAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const params = new URLSearchParams(query || "");
  const tab = TABS.some(([name]) => name === path) ? path : "runs";
  const ids = (params.get("runs") || "").split(",").filter(Boolean);
  return { tab, ids, follow: params.get("follow") === "newest" };
}

function writeAddress() {
  const ids = [...store.selected].join(",");
  const address = `#/${shown.tab}${ids ? `?runs=${ids}` : ""}`;
  if (location.hash !== address) history.replaceState(null, "", address);
}

/** Show another tab. */
export function go(tab) {
  const ids = [...store.selected].join(",");
  location.hash = `#/${tab}${ids ? `?runs=${ids}` : ""}`;
}

async function show(tab) {
  const run = OF_ONE_RUN.has(tab) ? store.currentRun() : null;
  if (shown.tab === tab && shown.run === (run && run.id)) return;
  const turn = ++shown.turn;
  if (shown.stop) shown.stop();
  Object.assign(shown, { tab, run: run && run.id, stop: null });
  markTab(tab);
  fill(view);
  view.dataset.view = tab;
  document.title = `${TABS.find(([name]) => name === tab)[1]} - brisk dash`;
  try {
    const module = await TABS.find(([name]) => name === tab)[2]();
    if (turn !== shown.turn) return;
    const stop = await module.mount(view, { run });
    if (turn !== shown.turn) stop?.();
    else shown.stop = stop;
  } catch (error) {
    console.error(error);
    if (turn === shown.turn) fill(view, errorState(error.message));
  }
}

function markTab(current) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const active = tab.dataset.tab === current;
    tab.setAttribute("aria-selected", String(active));
    tab.tabIndex = active ? 0 : -1;
  }
}

function buildTabs() {
  const bar = document.getElementById("tabs");
  const tabs = TABS.map(([name, label]) =>
    el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "data-tab": name, "data-label": label, "aria-controls": "view",
      onclick: () => go(name),
    }, label),
  );
  fill(bar, tabs);
  bar.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    const next = tabs[(at + step + tabs.length) % tabs.length];
    next.focus();
    go(next.dataset.tab);
  });
}

function showConnection() {
  const words = { connecting: "connecting", live: "live", lost: "reconnecting" };
  document.getElementById("live").dataset.state = store.connection.state;
  text(document.getElementById("live-text"), words[store.connection.state]);
}

function followAddress() {
  const { tab, ids, follow } = readAddress();
  shown.following = true;
  if (follow && store.newestRun()) store.select([store.newestRun().id]);
  else if (ids.join() !== [...store.selected].join()) store.select(ids);
  shown.following = false;
  show(tab);
}

function start() {
  // A token in the address has become a cookie; it must not stay in the history.
  if (location.search) history.replaceState(null, "", `/${location.hash}`);
  buildTabs();
  installTheme(document.getElementById("theme"));
  installShortcuts({ tabs: TABS.map(([name, label]) => [name, label]), go });
  showSelection(document.getElementById("selection"), { go });
  store.on("connection", showConnection);
  store.on("selection", () => {
    if (!shown.tab || shown.following) return;
    writeAddress();
    if (OF_ONE_RUN.has(shown.tab)) show(shown.tab);
  });
  store.on("rows", () => {
    // The first rows, or the first run ever, decide what views of one run show.
    if (!shown.tab) followAddress();
    else if (OF_ONE_RUN.has(shown.tab) && shown.run === null) show(shown.tab);
  });
  addEventListener("hashchange", followAddress);
  // A page from the history of the browser has lost its streams.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  store.connect();
}

start();
