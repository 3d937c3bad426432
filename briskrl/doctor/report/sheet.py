"""How a report's page looks: one column, by day and by night, down to the width of a phone."""

SHEET = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1c2430; --soft: #5c6675; --line: #d9dde3;
  --wall: #2060b0; --cpu: #e07b00; --good: #2b8a3e; --bad: #c92a2a; --warn: #fff3d6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --card: #1d232a; --ink: #e4e8ee; --soft: #9aa5b3; --line: #343c46;
    --wall: #6ea8fe; --cpu: #ffb454; --good: #69db7c; --bad: #ff8787; --warn: #3a3114;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); }
body { font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 0 0 0.25rem; }
p { margin: 0.5rem 0; }
dl { margin: 0; }
dl div { display: flex; gap: 0.75rem; padding: 0.15rem 0; }
dt { flex: 0 0 5rem; color: var(--soft); }
dd { margin: 0; }
ul, ol { margin: 0; padding-left: 1.4rem; }
li { margin: 0.4rem 0; }
ol > li { background: var(--card); padding: 0.75rem; border-radius: 0.5rem; margin: 0.75rem 0; }
ol ul { color: var(--soft); }
dd.gain, p.all { font-weight: 600; }
b.wall { color: var(--wall); }
b.cpu { color: var(--cpu); }
p.warning { background: var(--warn); padding: 0.5rem 0.75rem; border-radius: 0.5rem; }
figure { margin: 0.5rem 0; max-width: 40rem; }
figcaption { color: var(--soft); font-size: 0.9rem; }
.plots { display: grid; gap: 1rem; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.75rem; white-space: nowrap; text-align: right; }
th, td { border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 400; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
footer { margin-top: 2rem; color: var(--soft); font-size: 0.9rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg text.value { font-size: 10px; }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg rect.wall { fill: var(--wall); }
svg rect.cpu { fill: var(--cpu); }
svg path, svg polyline { fill: none; stroke: var(--soft); stroke-width: 2; }
svg path.grid { stroke: var(--line); stroke-width: 1; }
svg path.one { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 4 4; }
svg polyline.curve { stroke: var(--wall); stroke-linecap: round; }
svg path.good { stroke: var(--good); }
svg path.bad { stroke: var(--bad); }
svg circle { fill: var(--soft); }
svg circle.good { fill: var(--good); }
svg circle.bad { fill: var(--bad); }
"""
