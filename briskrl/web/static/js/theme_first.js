// Runs before the first paint, so that the page does not flash in the other theme.
const kept = localStorage.getItem("brisk-theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
