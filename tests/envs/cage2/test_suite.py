"""The official evaluation, through the command and through Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from briskrl.cli.main import main
from briskrl.core.errors import ConfigError
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.suite import PUBLISHED, Cage2Report, score
from briskrl.envs.evaluation_suites import Games, Mean, mean_of, sum_of
from briskrl.envs.registry import ENVS
from briskrl.training.evaluate import Agent, run_suite

CELLS = [f"{red}-{length}" for red in ("bline", "meander", "sleep") for length in (30, 50, 100)]


def command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["eval", "cage2", "--suite", "cage2", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("edition", ["current", "competition"])
def test_sleep_scores_what_was_published(capsys: pytest.CaptureFixture[str], edition: str) -> None:
    """Both editions are the same for an idle defender, and the total is on the leaderboard."""
    output = command(capsys, "--player", "sleep", "--edition", edition, "--json")
    figures = json.loads(output)
    assert figures["edition"] == edition
    assert list(figures["cells"]) == CELLS
    low, high = figures["total_ci"]
    published = dict(PUBLISHED["competition"])["sleep"]
    assert low < figures["total"] < high
    assert abs(figures["total"] - published) < 1.5 * (high - low)
    assert figures["cells"]["sleep-100"] == {"mean": 0.0, "ci": [0.0, 0.0]}


def test_random_play_scores_what_was_published(capsys: pytest.CaptureFixture[str]) -> None:
    output = command(capsys, "--player", "random", "--edition", "competition", "--json")
    figures = json.loads(output)
    low, high = figures["total_ci"]
    published = dict(PUBLISHED["competition"])["random"]
    assert abs(figures["total"] - published) < 1.5 * (high - low)


def test_the_leaderboard_includes_the_agent(capsys: pytest.CaptureFixture[str]) -> None:
    output = command(capsys, "--edition", "competition", "--episodes", "40", "--seed", "3")
    lines = output.splitlines()
    assert lines[0] == "heuristic on cage2: suite cage2, seed 3"
    assert "edition competition, 40 episodes per cell" in output
    names = [line.strip() for line in lines[lines.index("") + 2 :]]
    ranks = [float(line.split()[0]) for line in names]
    assert ranks == sorted(ranks, reverse=True)
    assert sum("-> this agent" in line for line in names) == 1


def test_cells_play_the_official_settings_with_separate_seeds() -> None:
    asked: list[tuple[Cage2Config, int, int]] = []

    def play(config: Any, *, episodes: int, seed: int, player: str | None = None) -> Games:
        asked.append((config, episodes, seed))
        numbers = np.arange(episodes, dtype=np.float64)
        return Games(numbers, numbers, numbers, numbers)

    config = Cage2Config(edition="competition", green=True, frames=2, red="mixed", length=70)
    report = score(play, config, episodes=5, seed=1)
    assert [f"{cell.red}-{cell.length}" for cell, _, _ in asked] == CELLS
    assert all(cell.frames == 2 and not cell.green for cell, _, _ in asked)
    assert len({seed for _, _, seed in asked}) == 9
    assert report.total.mean == pytest.approx(9 * 2.0)
    score(play, config, episodes=None, seed=1)
    assert asked[-1][1] == 1000


def test_intervals_follow_from_the_spread() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    mean = mean_of(values)
    assert mean.mean == 2.5
    assert mean.half_width == pytest.approx(1.96 * values.std(ddof=1) / 2, rel=1e-4)
    total = sum_of([Mean(1.0, 3.0), Mean(2.0, 4.0)])
    assert total == Mean(3.0, 5.0)
    assert total.interval == (-2.0, 8.0)


def test_reports_of_both_editions_can_be_printed() -> None:
    for edition in PUBLISHED:
        report = Cage2Report(edition, 1, dict.fromkeys(CELLS, Mean(-1.0, 0.5)))
        assert "-9.00 ±1.50  -> this agent" in report.as_text()


def test_an_unknown_suite_is_refused_with_the_known_ones() -> None:
    agent = Agent(ENVS.get("cage2").players["sleep"].policy(), "cage2", Cage2Config())
    with pytest.raises(ConfigError, match="Did you mean 'cage2'"):
        run_suite(agent, "cage")
    with pytest.raises(ConfigError, match="has no suite"):
        run_suite(Agent(agent.policy, "snake", None), "cage2")


def test_a_suite_can_play_another_player_on_the_same_games() -> None:
    played: dict[str | None, np.ndarray] = {}

    def compare(play: Any, config: Any, *, episodes: int | None, seed: int) -> Cage2Report:
        for player in (None, "heuristic"):
            played[player] = play(config, episodes=20, seed=seed, player=player).returns
        return Cage2Report("current", 20, {})

    sleeper = Agent(
        ENVS.get("cage2").players["sleep"].policy(), "cage2", Cage2Config(red="bline", length=50)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("briskrl.training.evaluate.find_suite", lambda env, name: compare)
        run_suite(sleeper, "any")
    assert (played["heuristic"] > played[None]).all()
