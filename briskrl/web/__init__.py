"""The dashboard: one page about run folders, which it only reads.

`brisk dash` serves it with starlette and uvicorn (extra `[web]`). The pieces:

- `server.py` binds the address and runs uvicorn; `app.py` puts routes and security together.
- `security.py` checks every request before any route: method, host, origin, token. It also adds
  the headers of every response, so routes never set headers for caching or security.
- `assets.py` knows every file under `static/` by its name; a request is a key of that table and
  never becomes a path. The browser finds `static/js/main.js` as `/static/js/main.js`.
- `run_index.py` finds run folders and gives each an id. Routes take ids, look them up and answer
  404 to unknown ones.

How "The agent plays" plugs in:

- `briskrl/web/play/routes.py` has `routes(context: WebContext) -> list[Route]`. Paths begin with
  `/api/play/`. Only GET and HEAD reach them, and they change nothing on the disk. Handlers are
  `async def`; what blocks runs in a thread (`anyio.to_thread.run_sync`) or in another process.
- `context.index.folder(run_id)` is the run folder of an id, or None. `context.on_close(function)`
  registers what ends processes and frees memory when the server stops.
- `briskrl.web.responses` has `json_response(data)`, `error_response(status, message)` and
  `event_stream(events)` for server-sent events: `events` is an async iterator of `(name, data)`,
  and is closed when the client leaves or does not read for half a minute.
- `static/play/main.js` exports `mount(element, {run})` and may import others beside it. `run` is
  the row of the selected run: `id, name, env, algo, status, seed, ...`, or null if there is none.
  It returns a function that stops everything it has started; the page calls it when another tab
  or another run is chosen. Styles are in `static/play/play.css`, with the variables of
  `static/css/base.css` for colors and spacing. Text of runs goes into the page through
  `textContent` (`el` and `text` of `/static/js/dom.js`), never as HTML. `getJson(path, params)` of
  `/static/js/api.js` fetches, `openEvents(path, params, handlers)` opens an event stream.
  The content security policy forbids inline scripts and style attributes in markup; setting
  `element.style.width` from a script works.
"""
