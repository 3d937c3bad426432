"""Sessions: who may start them, how they fail, and that they end."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

from briskrl.training.storage.checkpoint import step_of
from briskrl.training.storage.stored_policies import list_policies
from tests.web.play.page_client import Server, Watcher, described, watching

MODULE = "brisk_planted_module"


def players(server: Server) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(server.process.pid).children()
        if child.status() != psutil.STATUS_ZOMBIE
    ]


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=60)[1]


@pytest.fixture(autouse=True)
def no_players(server: Server) -> None:
    """Players of earlier tests have ended."""
    assert gone(players(server))


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def failure(server: Server, run: str) -> dict:
    page = Watcher(server, run)
    try:
        return page.event_or_failure()
    finally:
        page.hang_up()


def test_a_player_is_nice_single_threaded_and_ends_when_its_viewer_leaves(server):
    page = Watcher(server, "cartpole")
    page.event("states")
    (player,) = players(server)
    assert player.nice() >= 10
    assert player.environ()["OMP_NUM_THREADS"] == "1"
    page.hang_up()
    assert gone([player])
    assert page.ask("want", epoch=1, shown=0, upto=5)[0] == 404


def test_a_player_ends_when_the_page_says_that_it_leaves(server):
    page = Watcher(server, "cartpole")
    page.event("states")
    (player,) = players(server)
    assert page.ask("leave")[0] == 200
    assert gone([player])
    assert page.ended()


def test_a_player_that_nobody_watches_makes_room(server):
    watched = [Watcher(server, "cartpole") for _ in range(4)]
    run = server.run_id("cartpole")
    status, body = server.get("/api/play/start", run=run, seed=0, episode=0)
    assert (status, body["code"]) == (503, "busy")
    watched[0].ask("leave")
    page = Watcher(server, "cartpole")
    page.event("game")
    for one in (*watched[1:], page):
        one.ask("leave")
        one.hang_up()
    assert gone(players(server))


def test_a_killed_player_is_an_error_that_the_page_gets(server):
    page = Watcher(server, "cartpole")
    page.event("states")
    (player,) = players(server)
    player.kill()
    found = page.event_or_failure("failed")
    assert found == {"code": "died", "text": "The player was killed by SIGKILL."}
    assert page.ended()
    assert page.ask("want", epoch=1, shown=0, upto=9)[0] == 404


def test_players_end_with_the_server(runs):
    server = Server(runs)
    page = Watcher(server, "cartpole")
    page.event("states")
    left = players(server)
    assert left
    server.process.kill()
    server.close()
    assert gone(left)


def test_watching_changes_nothing_on_the_disk(server, runs):
    before = files_of(runs)
    with watching(server, "snake") as page:
        page.states(5)
    assert files_of(runs) == before


def test_head_starts_nothing(server):
    assert gone(players(server))
    status, _ = server.get("/api/play/start", "HEAD", run=server.run_id("snake"), seed=0, episode=0)
    assert status == 200
    assert not players(server)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": "-1"},
        {"seed": "1.5"},
        {"seed": "x"},
        {"seed": ""},
        {"seed": "99999999999999999"},
        {"episode": "1000001"},
        {"policy": "../../policy"},
        {"policy": ""},
    ],
)
def test_bad_games_are_refused_before_a_process_starts(server, wrong):
    assert gone(players(server))
    asked = {"run": server.run_id("snake"), "seed": 0, "episode": 0} | wrong
    status, body = server.get("/api/play/start", **asked)
    assert (status, body["code"]) == (400, "bad-request")
    assert next(iter(wrong)) in body["error"]
    assert not players(server)


@pytest.mark.parametrize("run", ["", "nothing", "../snake", "/etc"])
def test_unknown_runs_are_not_found(server, run):
    assert server.get("/api/play/start", run=run, seed=0, episode=0)[0] == 404
    assert server.get("/api/play/policies", run=run)[0] == 404


@pytest.mark.parametrize("session", ["none", "..", "%2e%2e", "a" * 500])
def test_unknown_sessions_are_not_found(server, session):
    for request in ("events", "want", "begin", "leave"):
        assert server.get(f"/api/play/{session}/{request}", seed=0, episode=0)[0] == 404


def test_requests_of_another_kind_of_game_are_refused(server):
    with watching(server, "cartpole") as page:
        page.event("states")
        assert page.ask("open")[0] == 404
        assert page.ask("nonsense")[0] == 404
        for request, numbers in (("duel", {}), ("treat", {"cell": 0}), ("fire", {"fire": 0})):
            status, body = page.ask(request, **numbers)
            assert (status, body["code"]) == (400, "unsupported")
        assert page.ask("want", epoch=1, shown=0)[0] == 400
        page.answer("want", epoch=1, shown=0, upto=10**9)
        # States are computed at most so far ahead of what is shown.
        ahead = 0
        while ahead < 600 and "end" not in (batch := page.event("states"))["states"][-1]:
            ahead = batch["from"] + len(batch["states"]) - 1
        assert ahead <= 600


def test_checkpoints_can_be_chosen(server, runs):
    names = {policy.name: policy.step for policy in list_policies(runs / "snake")}
    status, body = server.get("/api/play/policies", run=server.run_id("snake"))
    assert status == 200
    assert [row["name"] for row in body["policies"]] == list(names)
    oldest = min((name for name in names if names[name]), key=lambda name: names[name])
    with watching(server, "snake", policy=oldest) as page:
        assert page.event("game")["policy"] == {
            "name": oldest,
            "step": names[oldest],
            "algo": "dqn",
        }
        page.answer("begin", seed=0, episode=0, policy="newest")
        assert page.event("game")["policy"]["step"] > names[oldest]
        status, body = page.ask("begin", seed=0, episode=0, policy="best")
        assert (status, body["code"]) == (409, "run")


def test_a_newer_policy_plays_the_next_game(own_server, runs, tmp_path):
    folder = tmp_path / "runs" / "copy"
    shutil.copytree(runs / "snake", folder)
    shutil.rmtree(folder / "policy")
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    shutil.move(newest, tmp_path / "kept")
    (folder / "checkpoints" / "LATEST").unlink(missing_ok=True)
    with watching(own_server, "copy") as page:
        assert page.event("game")["policy"]["step"] < step_of(newest.name)
        shutil.move(tmp_path / "kept", newest)
        page.answer("begin", seed=0, episode=1)
        assert page.event("game")["policy"]["step"] == step_of(newest.name)


def test_a_run_without_a_policy_says_so(own_server, runs, tmp_path):
    folder = tmp_path / "runs" / "fresh"
    shutil.copytree(runs / "cartpole", folder)
    shutil.rmtree(folder / "policy")
    shutil.rmtree(folder / "checkpoints")
    run = own_server.run_id("fresh")
    assert own_server.get("/api/play/policies", run=run) == (200, {"policies": []})
    status, body = own_server.get("/api/play/start", run=run, seed=0, episode=0)
    assert (status, body["code"]) == (409, "no-policy")


def test_an_environment_that_is_not_installed_is_an_error(own_server, runs, tmp_path):
    folder = tmp_path / "runs" / "gone"
    shutil.copytree(runs / "lake", folder)
    described(folder, env="gym:NoSuchGame-v0")
    found = failure(own_server, "gone")
    assert found["code"] == "environment"
    assert "NoSuchGame-v0" in found["text"]


def test_a_damaged_policy_is_an_error(own_server, runs, tmp_path):
    folder = tmp_path / "runs" / "damaged"
    shutil.copytree(runs / "cartpole", folder)
    described(folder, algo_config={"net": [7]})
    assert failure(own_server, "damaged")["code"] in ("run", "environment")


def test_a_foreign_run_imports_nothing_without_trust(runs, tmp_path, monkeypatch):
    marker = tmp_path / "imported"
    (tmp_path / f"{MODULE}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "runs" / "foreign"
    shutil.copytree(runs / "lake", folder)
    described(folder, env=f"gym:{MODULE}:X-v0")
    folder.chmod(0o777)
    for options, code in (((), "untrusted"), (("--trust",), "environment")):
        server = Server(tmp_path / "runs", *options)
        found = failure(server, "foreign")
        server.close()
        assert found["code"] == code, found
        assert marker.exists() is (code == "environment")
