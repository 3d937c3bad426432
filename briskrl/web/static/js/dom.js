// Elements are built from calls, and text only ever becomes text: nothing of a run is parsed as HTML.

/** A new element: `el("td", {class: "number", title: "x"}, "text", child)`. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Replace the content of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Set text only when it differs, so that selections and screen readers are left alone. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

function append(element, children) {
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child);
  }
}

/** What a view shows when there is nothing: a title, an explanation, and a command to copy. */
export function emptyState(title, explanation, command = "") {
  return el(
    "div",
    { class: "empty" },
    el("h2", {}, title),
    el("p", {}, explanation),
    command ? el("pre", { class: "command" }, command) : null,
  );
}

/** What a view shows when something has failed. */
export function errorState(message) {
  return el(
    "div",
    { class: "empty error", role: "alert" },
    el("h2", {}, "This cannot be shown"),
    el("p", {}, message),
  );
}
