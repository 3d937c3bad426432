// Numbers and times as short texts, as the command line prints them.

/** A count in at most three or four digits: 950, 12.3k, 2.0M. */
export function count(value) {
  if (value === null || value === undefined) return "";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= limit) {
      const scaled = value / limit;
      return `${scaled.toFixed(scaled < 100 ? 1 : 0)}${unit}`;
    }
  }
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

/** A score or metric with three or four significant digits. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size >= 1e5) return count(value);
  if (size >= 1000) return value.toFixed(0);
  if (size >= 100) return value.toFixed(1);
  if (size >= 1 || size === 0) return value.toFixed(2);
  return size < 1e-3 ? value.toExponential(2) : value.toPrecision(3);
}

/** Seconds as 42 s, 3 min, 2.5 h, 4 d. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** A share as percent. */
export function percent(share) {
  if (share === null || share === undefined) return "";
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

/** Bytes as kB, MB, GB. */
export function bytes(size) {
  for (const [limit, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (size >= limit) return `${(size / limit).toFixed(1)} ${unit}`;
  }
  return `${size} B`;
}

/** Any setting as text. */
export function setting(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(setting).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}
