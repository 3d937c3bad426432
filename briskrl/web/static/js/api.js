// Everything the page asks the server for.

/** JSON of a route; arrays in `params` are repeated. Throws an Error with the server's message. */
export async function getJson(path, params = {}, signal = undefined) {
  let response;
  try {
    response = await fetch(address(path, params), { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is brisk dash still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error || `The server answered ${response.status}.`);
  return body;
}

/**
 * Server-sent events; returns a function that closes the stream.
 * `handlers` maps names of events to functions of their data, and has `open` and `lost`.
 */
export function openEvents(path, params, handlers) {
  const source = new EventSource(address(path, params));
  for (const [name, handler] of Object.entries(handlers)) {
    if (name === "open") source.addEventListener("open", handler);
    else if (name === "lost") source.addEventListener("error", handler);
    else source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
  }
  // Browsers open six connections to a server, and a page that was left may keep its own.
  const close = () => source.close();
  addEventListener("pagehide", close, { once: true });
  return () => {
    removeEventListener("pagehide", close);
    close();
  };
}

function address(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) query.append(name, one);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
