"""Frames of episodes under workflows, for `brisk play --workflow`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cli.frames import Frame
from briskrl.cli.targets import WORKFLOW_TOML
from briskrl.core.errors import ConfigError

if TYPE_CHECKING:
    from briskrl.cli.play import PlayOptions
    from briskrl.cli.targets import ParsedArgs
    from briskrl.envs.workflow.config import WorkflowEnvConfig
    from briskrl.training.workflow_players import WorkflowPlayer

ORACLE = "oracle"
"""The player that knows the true state."""
PLAYERS = (ORACLE, "random")


@dataclass(frozen=True, slots=True)
class Show:
    """One player under one workflow."""

    player: WorkflowPlayer
    env: str
    """The environment below the workflow."""
    config: WorkflowEnvConfig


def has_workflows(target: Path | str) -> bool:
    """Whether it is an environment with workflows, or the folder of a run under workflows."""
    if isinstance(target, str):
        return target.partition(":")[0] == "workflow"
    return (target / WORKFLOW_TOML).is_file()


def workflow_frames(parsed: ParsedArgs, options: PlayOptions) -> Iterator[Frame]:
    """The frames of episodes under the workflows asked for: side by side in a GIF, else in turn.

    Raises:
        ConfigError: The target has no workflows, or one of them cannot be read.
    """
    shows = [_show_of(parsed, options, workflow) for workflow in options.workflow or (None,)]
    if options.gif is None:
        return (frame for show in shows for frame in _episodes(show, options))
    return _beside([_episodes(show, options) for show in shows], options.cell_px)


def _show_of(parsed: ParsedArgs, options: PlayOptions, workflow: str | None) -> Show:
    from briskrl.envs.workflow.config import WorkflowEnvConfig
    from briskrl.training.workflow_players import OraclePlayer, PolicyPlayer, RandomPlayer

    player: WorkflowPlayer
    if isinstance(parsed.target, str):
        env, config = parsed.target, parsed.env_config
        wanted = ORACLE if options.player == "auto" else options.player
        if wanted not in PLAYERS:
            raise ConfigError(f"--player {wanted}: with a workflow, {' or '.join(PLAYERS)} plays.")
        player = OraclePlayer() if wanted == ORACLE else RandomPlayer()
    else:
        agent, workflow = _trained(parsed, parsed.target, options, workflow)
        env, config = agent.env, agent.env_config
        player = PolicyPlayer(agent.policy, stochastic=False)
    if not isinstance(config, WorkflowEnvConfig):
        raise ConfigError(f"--workflow: {parsed.target} has no workflows.")
    chosen = config.workflow if workflow is None else workflow
    config = replace(config, workflow=chosen, alignment_mode="none")
    return Show(player, env.partition(":")[2], config)


def _trained(
    parsed: ParsedArgs, folder: Path, options: PlayOptions, workflow: str | None
) -> tuple[Any, str | None]:
    """The agent of a run, and its workflow: the best one of a search unless one is given."""
    from briskrl.training.evaluate import load_policy
    from briskrl.workflows.run.policies import find_policy
    from briskrl.workflows.run.run import read_outcome

    if options.player != "auto":
        raise ConfigError(f"--player {options.player}: {folder} has its own policy.")
    if (folder / WORKFLOW_TOML).is_file():
        found = find_policy(read_outcome(folder), workflow)
        folder, workflow = found.folder, str(found.workflow)
    return load_policy(folder, trust=parsed.args.trust), workflow


def _episodes(show: Show, options: PlayOptions) -> Iterator[Frame]:
    import numpy as np

    from briskrl.core.rng import derive_seed
    from briskrl.core.types import StepBuffers
    from briskrl.envs.workflow.build import build

    image = options.gif is not None
    mode = "rgb_array" if image else "ansi"
    env = build(show.env, 1, show.config, hold_ended=True, render_mode=mode)
    with closing(env):
        env.cell_px = options.cell_px
        buffers = StepBuffers.allocate(env.env_spec, 1)
        for episode in range(options.episodes):
            seed = derive_seed(options.seed, f"play {episode}")
            env.start(seed, buffers)
            env.drain_stats()
            show.player.begin(env, np.random.default_rng(seed))
            yield Frame(_picture(env, image=image, line_px=options.cell_px), None, board=False)
            ended = None
            while ended is None:
                env.step_into(show.player.act(buffers), buffers)
                ended = _outcome(env)
                picture = _picture(env, image=image, line_px=options.cell_px)
                yield Frame(picture, ended, board=False)


def _outcome(env: Any) -> str | None:
    stats = env.drain_stats()
    if not stats.count:
        return None
    caption = env.caption(0)
    return (
        f"{'>'.join(caption.names)}: {caption.fixes}, return {stats.returns[0]:.2f} in "
        f"{stats.steps[0]} steps"
    )


def _picture(env: Any, *, image: bool, line_px: int) -> Any:
    caption, drawn = env.caption(0), env.render()[0]
    return caption.above(drawn, line_px) if image else f"{caption.as_text()}\n\n{drawn}"


def _beside(shows: Sequence[Iterator[Frame]], cell_px: int) -> Iterator[Frame]:
    """Frames of several shows beside each other; one that ends earlier waits for the others."""
    from briskrl.envs.workflow.render import side_by_side

    last: list[Frame | None] = [None] * len(shows)
    for frames in zip_longest(*shows):
        last = [frame or before for frame, before in zip(frames, last, strict=True)]
        ended = [frame.ended for frame in frames if frame is not None and frame.ended]
        pictures = [frame.picture for frame in last if frame is not None]
        yield Frame(side_by_side(pictures, max(2, cell_px // 4)), "\n".join(ended) or None)
