// Smoothing of curves in the page, so that the slider answers at once.

/**
 * Exponential mean of values; `strength` from 0 (none) to below 1. It is relative to the length of
 * the curve, so that ten points are not smeared while a thousand are calmed. Starts without a bias.
 */
export function smooth(values, strength) {
  if (!strength) return values;
  const weight = strength ** (100 / Math.max(1, values.length));
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return value;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}
