from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from briskrl.training.loop import train
from tests.training.runs import small_config
from tests.web.play.page_client import PATIENCE_S, Server


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small trained runs of every kind that the play view draws."""
    folder = tmp_path_factory.mktemp("runs")
    train(small_config(folder / "snake", "dqn", env="snake", checkpoint_steps=1000))
    train(small_config(folder / "cage2", "ppo", env="cage2"))
    # Against an attacker that does something in every game.
    order = {"alignment_lambda": 5.0, "task_config": {"red": "bline"}}
    train(small_config(folder / "ordered", "ppo", env="workflow:cage2", env_config=order))
    train(small_config(folder / "cartpole", "dqn", env="cartpole"))
    land = {"height": 8, "width": 8, "landscapes": 1, "n_fires": 4, "obs_fires": 8}
    train(small_config(folder / "wildfire", "ppo", env="wildfire", env_config=land))
    train(small_config(folder / "lake", "dqn", env="gym:FrozenLake-v1"))
    return folder


@pytest.fixture(scope="session")
def server(runs: Path) -> Iterator[Server]:
    """A dashboard over the runs."""
    made = Server(runs)
    yield made
    made.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A dashboard of this test's own runs, in `tmp_path / "runs"`."""
    folder = tmp_path / "runs"
    folder.mkdir()
    made = Server(folder)
    yield made
    made.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """A real Chromium without a screen."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    options = ChromeOptions()
    # Root cannot have the sandbox, and containers often have a tiny /dev/shm.
    for flag in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{flag}")
    options.add_argument("--window-size=1280,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = Chrome(options=options, service=Service(programs[1]))
    made.set_script_timeout(PATIENCE_S)
    yield made
    made.quit()
