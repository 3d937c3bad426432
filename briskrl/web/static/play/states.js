// What the play view shows when there is no game: why, and what to do about it.

const STATES = {
  "no-policy": ["No policy yet", "The first checkpoint of this run will hold one. The game begins by itself then."],
  untrusted: ["This run is not trusted", null, "brisk dash --trust"],
  environment: ["The environment cannot be made", null],
  run: ["The policy cannot be loaded", null],
  game: ["The environment has failed", null],
  broken: ["The player has failed", null],
  died: ["The player has stopped", null],
  busy: ["All players are taken", null],
  idle: ["Paused for long", "The player has ended to free memory. Playing goes on with a new one."],
  left: ["The game has ended", "Nobody watched it for a while."],
  lost: ["The connection is lost", "The server may have stopped."],
  offline: ["The server does not answer", "Is brisk dash still running?"],
};

/** Title, explanation and command for a failure; `text` is what the server says about it. */
export function describe(code, text) {
  const [title, explanation, command = ""] = STATES[code] || ["The game cannot go on", null];
  return { title, explanation: explanation || text, command };
}
