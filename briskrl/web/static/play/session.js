// A viewing session: a player process of the server, its events, and requests to it.

const EVENTS = ["opening", "game", "states", "branch", "failed"];

/** An answer that says no; `code` is what the page tells apart. */
export class PlayError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** JSON of a route under /api/play/; throws a PlayError. */
export async function ask(path, params = {}, options = {}) {
  const query = new URLSearchParams(params).toString();
  let response;
  try {
    response = await fetch(`/api/play/${path}${query ? `?${query}` : ""}`, options);
  } catch {
    throw new PlayError("offline", "The server does not answer. Is brisk dash still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new PlayError(body.code || "http", body.error || `The server answered ${response.status}.`);
  return body;
}

/** Start a player; `handlers` maps names of events to functions of their data. */
export class Session {
  constructor(handlers) {
    this.handlers = handlers;
    this.id = null;
    this.closed = false;
    // A page that was left may be kept by the browser, with its connection.
    this.onLeave = () => this.close();
    addEventListener("pagehide", this.onLeave);
  }

  async start(params) {
    const { session } = await ask("start", params);
    this.id = session;
    if (this.closed) {
      this.leave();
      return;
    }
    this.source = new EventSource(`/api/play/${session}/events`);
    for (const name of EVENTS) {
      this.source.addEventListener(name, (event) => {
        if (name === "failed") this.stop();
        if (!this.closed || name === "failed") this.handlers[name](JSON.parse(event.data));
      });
    }
    this.source.addEventListener("error", () => {
      // The browser tries again by itself while the server is there; a refusal is final.
      if (this.source.readyState === EventSource.CLOSED && !this.closed) {
        this.stop();
        this.handlers.failed({ code: "lost", text: "The connection to the player is lost." });
      }
    });
  }

  /** Ask the player for something. */
  request(name, params = {}) {
    if (this.closed || !this.id) return Promise.reject(new PlayError("ended", "This game has ended."));
    return ask(`${this.id}/${name}`, params);
  }

  /** End the session and its process. */
  close() {
    if (this.closed) return;
    this.stop();
    if (this.id) this.leave();
  }

  stop() {
    this.closed = true;
    removeEventListener("pagehide", this.onLeave);
    this.source?.close();
  }

  leave() {
    ask(`${this.id}/leave`, {}, { keepalive: true }).catch(() => {});
  }
}
