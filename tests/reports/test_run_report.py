"""The page of a run holds everything that its files say, and nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
from io import BytesIO
from xml.etree import ElementTree

import pytest
from PIL import Image

from briskrl.cli.main import main
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.reports.run_report import run_report
from briskrl.reports.sweep_report import page_parts, sweep_report
from briskrl.training.evaluate import load_policy, play_games
from briskrl.training.game_video import game_frames, game_gif
from briskrl.training.loop import train
from tests.cluster.sweep_folders import SweepFolder
from tests.training.runs import small_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(small_config(folder, "ppo", env="snake", eval_every=1000, eval_episodes=4))
    return folder


@pytest.fixture(scope="module")
def page(run):
    return run_report(run, episodes=12)


def body_of(page):
    """The page as XML, which every page is."""
    return ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def headings(page):
    return [heading.text for heading in body_of(page).iter("h2")]


def test_every_part_is_there(page):
    assert headings(page) == [
        *("Settings", "Curves", "Evaluation", "Games", "Where the time went", "How to repeat it"),
    ]
    text = "".join(body_of(page).itertext())
    assert "over 12 fresh episodes" in text
    assert "algo_config.update_steps" in text
    assert "brisk train snake --algo ppo" in text
    assert "Score of evaluations" in text
    # Differences from the defaults come before all settings.
    first_table = next(body_of(page).iter("table"))
    names = [row[0].text for row in first_table.iter("tr")]
    assert "algo_config.net" in names
    assert "env_config.height" not in names


def test_the_page_loads_and_runs_nothing(page):
    assert "<script" not in page
    assert set(re.findall(r'src="(\w+:)', page)) == {"data:"}
    assert not re.findall(r'(?:href|url)\s*[=(]\s*["\']?http', page)
    assert page.isascii()
    assert "@media print" in page


def test_games_are_those_of_the_evaluation(run):
    agent = load_policy(run)
    games = play_games(agent, episodes=3, seed=0)
    for episode in range(3):
        # One frame before the first step, and one after each.
        frames = game_frames(agent, seed=0, episode=episode)
        assert len(frames) == games.steps[episode] + 1
    image = Image.open(BytesIO(game_gif(agent, seed=0, episode=0)))
    assert image.is_animated
    assert image.n_frames <= 300


def test_names_from_elsewhere_are_text(run, tmp_path):
    hostile = tmp_path / "<script>alert(1)</script>"
    shutil.copytree(run, hostile)
    (hostile / "doctor").mkdir()
    finding = {"title": "<img src=x onerror=alert(1)>"}
    (hostile / "doctor" / "report.json").write_text(json.dumps({"findings": [finding]}))
    page = run_report(hostile, episodes=0)
    assert "<script" not in page
    assert "<img" not in page
    assert "Doctor" in headings(page)
    assert "Games" not in headings(page)


def test_a_run_without_episodes_has_a_page(tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "config.toml").write_text('env = "snake"\nalgo = "dqn"\n')
    assert headings(run_report(folder)) == ["Settings", "How to repeat it"]


def test_the_command_writes_beside_the_run_or_elsewhere(run, tmp_path, capsys):
    assert main(["report", str(run), "--episodes", "2"]) == 0
    assert "report.html" in capsys.readouterr().out
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    output = str(tmp_path / "mine.html")
    assert main(["report", str(run), "-o", output, "--episodes", "2", "--best"]) == 0
    assert main(["report", str(run), "-o", str(tmp_path / "mine.pdf")]) == 2
    assert ".html" in capsys.readouterr().err
    assert main(["report", str(run), "-o", str(tmp_path / "no" / "mine.html")]) == 2
    assert main(["report", "nothing"]) == 2


def test_reports_of_sweeps_become_markup(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "x.svg").write_text("<svg/>")
    text = (
        "## Trials\n\n| a | b |\n| --- | --- |\n| 1 &lt; 2 | x\\|y |\n\n- one\n- `two<`\n\n"
        "![curves](figures/x.svg)\n\n![far](../secret.svg)\n\n```sh\nbrisk & co\n\nmore\n```"
        "\n\nEnd <b>"
    )
    page = "<p>" + "".join(page_parts(text, tmp_path)) + "</p>"
    tree = ElementTree.fromstring(page)
    assert [cell.text for cell in tree.iter("td")] == ["1 < 2", "x|y"]
    assert [code.text for code in tree.iter("code")] == ["two<"]
    assert tree.find("pre").text == "brisk & co\n\nmore"
    assert len(list(tree.iter("img"))) == 1
    assert tree.findall("p")[-1].text == "End <b>"


def test_the_page_of_a_sweep_shows_its_trials_and_figures(tmp_path):
    sweep = SweepFolder(tmp_path / "grid", SweepConfig(grid={"lr": "1e-4,1e-3"}, seeds=2))
    sweep.add(0, [5.0, 6.0])
    sweep.add(1, [10.0, 11.0])
    page = sweep_report(sweep.info.folder)
    assert body_of(page).find("body/main/h1").text == "Sweep grid"
    assert {"Best trial", "How to repeat it"} & set(headings(page))
    assert "data:image/svg+xml" in page
