// Colors of curves in order; distinct with any kind of color vision (Okabe and Ito 2008), and with
// enough contrast on both backgrounds.

const LIGHT = ["#0072b2", "#c2500a", "#00805c", "#b0578d", "#a87400", "#2f8fc4", "#6b7280",
  "#7a5195", "#8f3b3b", "#4f6b2a"];
const DARK = ["#5aa9e6", "#f08a4b", "#2fbf8f", "#e08bbd", "#e3b341", "#86d0f5", "#a8b0bd",
  "#c3a5e8", "#e39a9a", "#b5cf7a"];

/** Whether dark colors are shown. */
export function isDark() {
  const { theme } = document.documentElement.dataset;
  if (theme) return theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The color of the curve at a place in the order. */
export function colorOf(index) {
  const colors = isDark() ? DARK : LIGHT;
  return colors[((index % colors.length) + colors.length) % colors.length];
}
