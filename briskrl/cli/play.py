"""`brisk play`: show episodes in the terminal, or save them as a GIF."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from briskrl.cli.flags import Parser
from briskrl.cli.frames import Frame
from briskrl.cli.output import drawing, escape_all_but_colors, is_lost
from briskrl.cli.play_workflow import has_workflows, workflow_frames
from briskrl.cli.targets import CONFIG_TOML, WORKFLOW_TOML, ParsedArgs, load_agent, parse_args
from briskrl.core.errors import BriskError, ConfigError

if TYPE_CHECKING:
    from briskrl.training.evaluate import Agent

EXAMPLES = """\
examples:
  brisk play runs/NAME
  brisk play runs/NAME --seed 3 --fps 30
  brisk play runs/NAME --gif game.gif
  brisk play snake                        the heuristic player
  brisk play snake --player random --height 6 --width 6
  brisk play runs/NAME --workflow "op_server>enterprise>user>defender>op_host"
  brisk play runs/NAME --workflow critical-first --workflow user-first --gif two.gif
  brisk play gym:FrozenLake-v1            any Gymnasium environment, as text if it can"""

HOME, CLEAR_BELOW = "\x1b[H", "\x1b[J"
COLORS = {"H": "\x1b[1;92m", "o": "\x1b[32m", "t": "\x1b[36m", "*": "\x1b[1;91m", ".": "\x1b[90m"}
"""Terminal colors of the cells of a text board."""
MAX_FRAMES = 20_000
"""Frames after which a GIF ends, so that an endless episode does not fill the disk."""


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """Options of `brisk play`."""

    ALIASES: ClassVar[dict[str, str]] = {"policy": "player"}

    episodes: Annotated[int, Meta(ge=1)] = 1
    """Episodes to show."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of the episodes; equal seeds give equal episodes."""
    fps: Annotated[float, Meta(gt=0, le=1000)] = 12.0
    """Frames per second."""
    gif: str | None = None
    """Save the episodes in this file instead of showing them."""
    cell_px: Annotated[int, Meta(ge=2, le=128)] = 16
    """Size of a cell in the GIF, in pixels."""
    player: str = "auto"
    """Player for an environment without a run: random, or a scripted player such as heuristic; auto
    uses the best available. With a workflow: oracle, which knows the true state, or random."""
    workflow: tuple[str, ...] = ()
    """Workflow to play under: names joined by >, a well-known name, or an id. Several, each in a
    flag of its own, are shown side by side in a GIF, otherwise one after another."""


def run(argv: list[str]) -> int:
    """Show or save the episodes."""
    parser = Parser("brisk play", "Show an episode in the terminal, or save it as a GIF.", EXAMPLES)
    parser.usage = "brisk play RUN|ENV [options]"
    parsed = parse_args(parser, argv, PlayOptions, marks=(CONFIG_TOML, WORKFLOW_TOML))
    options = parsed.options
    if options.gif is not None:
        _check_gif(Path(options.gif))
    frames = _frames(parsed, options)
    if options.gif is None:
        show(frames, options.fps)
    else:
        write_gif(frames, Path(options.gif), options.fps)
    return 0


def _frames(parsed: ParsedArgs, options: PlayOptions) -> Iterator[Frame]:
    if options.workflow or has_workflows(parsed.target):
        return workflow_frames(parsed, options)
    agent, _ = load_agent(parsed, options.player, options.seed)
    return play_episodes(agent, "ansi" if options.gif is None else "rgb_array", options)


def play_episodes(agent: Agent, mode: str, options: PlayOptions) -> Iterator[Frame]:
    """The frames of whole episodes, one after another."""
    from briskrl.core.rng import derive_seed
    from briskrl.core.types import StepBuffers

    env = _open(agent, mode)
    env.cell_px = options.cell_px
    buffers = StepBuffers.allocate(env.env_spec, 1)
    try:
        for episode in range(options.episodes):
            env.start(derive_seed(options.seed, f"play {episode}"), buffers)
            env.drain_stats()
            yield from _one_episode(agent, env, buffers)
    finally:
        env.close()


def _open(agent: Agent, mode: str) -> Any:
    """The environment with the render mode; without it if text mode is not supported."""
    from briskrl.envs.make import make_env

    if mode == "ansi":
        probe: Any = make_env(agent.env, 1, config=agent.env_config, hold_ended=True)
        if mode not in getattr(probe, "metadata", {}).get("render_modes", []):
            return probe
        probe.close()
    return make_env(agent.env, 1, config=agent.env_config, hold_ended=True, render_mode=mode)


def _one_episode(agent: Agent, env: Any, buffers: Any) -> Iterator[Frame]:
    board = not agent.env.startswith("gym:")
    if restart := agent.policy.restart:
        restart(buffers.terminated | True)
    yield Frame(_picture(env, buffers, None), None, board)
    while True:
        action = agent.policy.act(buffers.obs, buffers.mask)
        env.step_into(action, buffers)
        picture = _picture(env, buffers, action[0])
        stats = env.drain_stats()
        if stats.count:
            how = "won" if stats.won[0] else "over"
            score, steps, returns = stats.score[0], stats.steps[0], stats.returns[0]
            outcome = f"{how}: score {score:g} in {steps} steps, return {returns:.2f}"
            yield Frame(picture, outcome, board)
            return
        yield Frame(picture, None, board)


def _picture(env: Any, buffers: Any, action: Any) -> Any:
    """The rendered frame, or the numbers of the last step if there is no render mode."""
    if env.render_mode is not None:
        return env.render()[0]
    import numpy as np

    seen = np.array2string(buffers.obs[0], precision=3, threshold=16, max_line_width=200)
    if action is None:
        return f"obs {seen}"
    return f"action {action}  reward {buffers.reward[0]:g}  obs {seen}"


def show(frames: Iterator[Frame], fps: float) -> None:
    """Animate the frames on a terminal; elsewhere print one after another."""
    terminal, screen = sys.stdout.isatty(), drawing(sys.stdout)
    if terminal:
        print("\x1b[2J", end="", file=screen)
    for frame in frames:
        if terminal:
            picture = color_board(frame.picture) if frame.board else _colored(frame.picture)
            print(f"{HOME}{picture}{CLEAR_BELOW}", file=screen, flush=True)
            time.sleep(1 / fps)
        else:
            print(_colored(frame.picture), file=screen)
        if frame.ended is not None:
            print(frame.ended, flush=True)
            time.sleep(1.0 if terminal else 0.0)
        if is_lost(screen):
            return


def _colored(picture: Any) -> str:
    return escape_all_but_colors(str(picture))


def color_board(board: str) -> str:
    """A text board with colored cells, each two columns wide so that the board looks square."""
    lines = []
    for line in board.splitlines():
        if line.startswith("|"):
            cells = "".join(f"{COLORS.get(cell, '')}{cell} \x1b[0m" for cell in line[1:-1])
            lines.append(f"|{cells}|")
        elif line.startswith("+"):
            lines.append("+" + "--" * (len(line) - 2) + "+")
        else:
            lines.append(line)
    return "\n".join(lines)


def write_gif(frames: Iterator[Frame], path: Path, fps: float) -> None:
    """Save the episodes as one looping GIF; the last frame of each stays for a second.

    Raises:
        BriskError: The file cannot be written.
    """
    from PIL import Image

    images, durations, outcomes = [], [], []
    for frame in frames:
        images.append(Image.fromarray(frame.picture).quantize(64))
        durations.append(1000 if frame.ended else max(20, round(1000 / fps)))
        outcomes += [frame.ended] if frame.ended else []
        if len(images) == MAX_FRAMES:
            outcomes.append(f"stopped after {MAX_FRAMES} frames")
            break
    try:
        images[0].save(
            path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0
        )
    except OSError as error:
        raise BriskError(f"Cannot write {path}: {error.strerror or error}.") from error
    print("\n".join(outcomes))
    print(f"wrote {path}: {len(images)} frames")


def _check_gif(path: Path) -> None:
    """Check that the file can be written, before the episode is played.

    Raises:
        ConfigError: It cannot.
    """
    if path.suffix.lower() != ".gif":
        raise ConfigError(f"--gif {path}: the name must end in .gif.")
    if not path.parent.is_dir():
        raise ConfigError(f"--gif {path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise ConfigError(f"--gif {path} is a folder.")
