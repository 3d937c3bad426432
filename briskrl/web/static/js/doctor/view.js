// What the doctor has found about one run.

import { getJson } from "../api.js";
import { el, emptyState, fill } from "../dom.js";
import { count, duration, percent } from "../format.js";

const BASIS = { measured: "measured", predicted: "predicted", ceiling: "at most" };

/** Show the view; returns a function that ends it. */
export async function mount(element, { run }) {
  if (!run) {
    fill(element, emptyState("No runs yet", "The doctor examines a run, or an environment.", "brisk doctor snake"));
    return () => fill(element);
  }
  const { report } = await getJson(`/api/runs/${run.id}/doctor`);
  if (!report) {
    fill(element, el("h2", { class: "run-title" }, run.name), emptyState(
      "Not examined yet",
      "The doctor finds what makes a run slow, measures what would help, and keeps its report in the run folder.",
      `brisk doctor ${run.run_dir}`));
    return () => fill(element);
  }
  fill(element, el("h2", { class: "run-title" }, run.name), el("div", { class: "stack" },
    facts(report), findings(report), el("div", { class: "two" }, experiments(report), phases(report)), notes(report)));
  return () => fill(element);
}

function list(value) {
  return Array.isArray(value) ? value : [];
}

function facts(report) {
  const speed = report.speed || {};
  const shown = [
    ["steps per second", count(speed.steps_per_s)], ["cores busy", speed.cores_busy?.toFixed(2)],
    ["share of the machine", percent(speed.machine_fraction)], ["environments", count(speed.num_envs)],
    ["examined for", duration(report.took_s)], ["version", report.version],
  ];
  return el("dl", { class: "run-facts" }, shown.map(([name, value]) =>
    el("div", { class: "card run-fact" }, el("dt", {}, name), el("dd", {}, value || "-"))));
}

function factor(gain) {
  if (!gain) return "";
  return `${gain.factor.toFixed(2)}x (${gain.low.toFixed(2)} to ${gain.high.toFixed(2)})`;
}

function findings(report) {
  const found = list(report.findings);
  if (!found.length) {
    return el("section", { class: "card" }, el("header", {}, el("h2", {}, "Nothing to fix")),
      el("div", { class: "body quiet" }, "The doctor found nothing that would make this run faster."));
  }
  return el("section", { class: "stack", "aria-label": "Findings" }, found.map((finding) =>
    el("article", { class: "card finding" },
      el("header", {}, el("h2", {}, finding.title), el("span", { class: "gain spread" }, `${BASIS[finding.basis] || ""} ${factor(finding.gain)}`)),
      el("div", { class: "body stack" },
        el("p", {}, el("strong", {}, "Do: "), finding.advice),
        el("ul", {}, list(finding.evidence).map((line) => el("li", {}, line))),
        finding.alters_learning ? el("p", { class: "small warn" }, `Changes learning: ${finding.alters_learning}`) : null))));
}

function experiments(report) {
  const rows = list(report.outcomes);
  return el("section", { class: "card" }, el("header", {}, el("h2", {}, "Experiments")),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Change", "Verdict", "Speed"].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, rows.map((row) => el("tr", {},
        el("td", { class: "wrap" }, row.question, el("div", { class: "small quiet mono" }, row.change)),
        el("td", {}, row.verdict), el("td", { title: row.told }, factor(row.gain))))))));
}

function phases(report) {
  return el("section", { class: "card" }, el("header", {}, el("h2", {}, "Phases"), el("span", { class: "small quiet" }, "per million steps")),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["Phase", "Share", "Wall", "CPU"].map((title, at) => el("th", { scope: "col", class: at ? "number" : "" }, title)))),
      el("tbody", {}, list(report.phases).map((row) => el("tr", {}, el("td", {}, row.name),
        el("td", { class: "number" }, percent(row.share)), el("td", { class: "number" }, duration(row.wall_s)),
        el("td", { class: "number" }, duration(row.cpu_s))))))));
}

function notes(report) {
  const lines = list(report.notes);
  return lines.length ? el("section", { class: "card" }, el("header", {}, el("h2", {}, "Notes")),
    el("div", { class: "body" }, el("ul", {}, lines.map((line) => el("li", {}, line))))) : null;
}
