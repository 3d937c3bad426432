import { emptyState, fill } from "../dom.js";

/** Show the view; returns a function that ends it. */
export function mount(element) {
  fill(element, emptyState("Nothing here yet", "This view is being built."));
  return () => fill(element);
}
