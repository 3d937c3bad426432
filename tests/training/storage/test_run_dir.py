from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from briskrl import __version__
from briskrl.core.errors import RunFolderError
from briskrl.core.types import State
from briskrl.training.storage import lock
from briskrl.training.storage.run_dir import RunDir

REPO = Path(__file__).resolve().parents[3]
HOLDER = """
import sys, time
from pathlib import Path
from briskrl.training.storage.run_dir import RunDir
RunDir.open(Path(sys.argv[1])).lock()
print("held", flush=True)
time.sleep(60)
"""


def create(path: Path | None, **options: object) -> RunDir:
    wanted = {"env": "snake", "algo": "dqn", "seed": 3, "config_toml": 'env = "snake"\n'}
    return RunDir.create(path, **{**wanted, **options})  # type: ignore[arg-type]


def hold_lock(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    holder = subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_new_folder_contains_the_config_and_can_be_opened(tmp_path):
    create(tmp_path / "deep" / "run").close()
    run = RunDir.open(tmp_path / "deep" / "run")
    assert run.config_path.read_text() == 'env = "snake"\n'


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_existing_path_raises_with_both_alternatives(tmp_path, kind):
    path = tmp_path / "taken"
    path.mkdir() if kind == "folder" else path.write_text("mine")
    with pytest.raises(RunFolderError, match=r"already exists.*--run-dir.*brisk resume"):
        create(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_created_raises(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"Not a directory.*--run-dir"):
        create(tmp_path / "file" / "run")


def test_unnamed_runs_get_distinct_descriptive_names(tmp_path):
    runs = [create(None, env="gym:Cart/Pole", root=tmp_path / "runs") for _ in range(3)]
    names = [run.path.name for run in runs]
    assert len(set(names)) == 3
    for name in names:
        assert re.fullmatch(r"gym-Cart-Pole-dqn-3-\d{8}-\d{6}(-\d)?", name)
    assert {run.path.parent for run in runs} == {tmp_path / "runs"}


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_opening_a_folder_without_a_run_raises(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"run folder.*brisk runs"):
        RunDir.open(tmp_path / name)


def test_a_second_writer_raises_until_the_first_releases_the_lock(tmp_path):
    first = create(tmp_path / "run")
    owner = json.loads((first.path / "lock").read_text())
    assert owner["pid"] == os.getpid()
    second = RunDir.open(tmp_path / "run")
    with pytest.raises(RunFolderError, match=f"process {os.getpid()} on "):
        second.lock()
    first.close()
    first.close()
    with second.lock(), pytest.raises(RunFolderError):
        first.lock()
    first.lock().close()


def test_another_process_cannot_lock_until_the_owner_dies(tmp_path):
    create(tmp_path / "run").close()
    holder = hold_lock(tmp_path / "run")
    try:
        with pytest.raises(RunFolderError, match=f"process {holder.pid} on "):
            RunDir.open(tmp_path / "run").lock()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert json.loads((tmp_path / "run" / "lock").read_text())["pid"] == holder.pid
    with RunDir.open(tmp_path / "run").lock():
        assert json.loads((tmp_path / "run" / "lock").read_text())["pid"] == os.getpid()


def test_without_kernel_locks_the_owner_in_the_file_decides(tmp_path, monkeypatch):
    def no_locks(*_: object) -> None:
        raise OSError(lock._NO_LOCKS[0], "No locks available")

    create(tmp_path / "run").close()
    file = tmp_path / "run" / "lock"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = lock.socket.gethostname()
    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    for pid, place, locked in [
        (os.getppid(), host, True),
        (dead.pid, host, False),
        (dead.pid, "elsewhere", True),
    ]:
        file.write_text(json.dumps({"pid": pid, "host": place}))
        run = RunDir.open(tmp_path / "run")
        if locked:
            with pytest.raises(RunFolderError, match=f"process {pid} on {place}"):
                run.lock()
        else:
            run.lock().close()


def test_meta_describes_the_machine_and_every_session(tmp_path):
    run = create(tmp_path / "run")
    run.begin_session(seed=3, threads=1, exactness="bit-exact", device="cpu")
    begun = run.read_meta()
    assert begun["exit_reason"] is None
    run.end_session("sigint", env_steps=500)
    stopped = run.read_meta()
    run.begin_session(seed=3, threads=2, exactness="bit-exact", device="cpu")
    run.end_session("finished")
    meta = run.read_meta()
    assert (meta["seed"], meta["threads"], meta["exactness"]) == (3, 2, "bit-exact")
    assert meta["versions"]["python"] == sys.version.split()[0]
    assert meta["versions"]["numpy"] == np.__version__
    assert meta["versions"]["briskrl"] == __version__
    assert meta["versions"]["torch"]
    assert meta["versions"]["numba"]
    assert meta["host"]
    assert meta["cpu"]
    assert meta["start"] == begun["start"]
    assert stopped["exit_reason"] == "sigint"
    assert stopped["env_steps"] == 500
    assert [session["exit_reason"] for session in meta["sessions"]] == ["sigint", "finished"]
    assert meta["end"] >= meta["start"]


def test_the_commit_of_the_source_is_recorded(tmp_path):
    if not (REPO / ".git").exists():
        pytest.skip("not a git checkout")
    run = create(tmp_path / "run")
    run.begin_session(seed=0, threads=1, exactness="bit-exact")
    assert re.fullmatch(r"[0-9a-f]{40,64}", run.read_meta()["git_commit"])


def test_status_is_replaced_atomically_and_accepts_any_number(tmp_path):
    run = create(tmp_path / "run")
    assert run.read_status() == {}
    for step in range(3):
        run.write_status({"env_steps": np.int64(step), "loss": np.float32("nan"), "rate": 0.5})
    status = run.read_status()
    assert (status["env_steps"], status["loss"], status["rate"]) == (2, None, 0.5)
    assert sorted(os.listdir(run.path)) == ["config.toml", "lock", "status.json"]


def test_a_policy_is_loaded_with_its_description(tmp_path):
    run = create(tmp_path / "run")
    for value in (1.0, 2.0):
        weights = State({"w": np.full((2, 3), value, np.float32)}, {"value": value})
        run.save_policy(weights, {"env": "snake", "value": value})
    state, description = RunDir.open(run.path).load_policy_files()
    assert (state.arrays["w"] == 2.0).all()
    assert state.arrays["w"].dtype == np.float32
    assert state.scalars == {"value": 2.0}
    assert description == {"env": "snake", "value": 2.0}
    assert sorted(os.listdir(run.policy)) == ["model.safetensors", "policy.json"]


@pytest.mark.parametrize("name", ["model.safetensors", "policy.json"])
@pytest.mark.parametrize("damage", ["delete", "truncate"])
def test_a_damaged_policy_is_an_error_that_says_what_to_do(tmp_path, name, damage):
    run = create(tmp_path / "run")
    run.save_policy(State({"w": np.ones(5)}), {})
    file = run.policy / name
    file.unlink() if damage == "delete" else os.truncate(file, file.stat().st_size - 1)
    if (name, damage) == ("policy.json", "truncate"):
        os.truncate(file, 10)
    with pytest.raises(RunFolderError, match="brisk resume"):
        run.load_policy_files()


def save_value(run: RunDir, value: int) -> None:
    run.save_policy(State({"w": np.full(3, value)}, {"value": value}), {"value": value})


def load_value(run: RunDir) -> int:
    state, description = run.load_policy_files()
    value = state.scalars["value"]
    assert (state.arrays["w"] == value).all()
    assert description == {"value": value}
    return value


def save_value_and_die(run: RunDir, value: int, operations: int) -> bool:
    """Save in a forked child that dies before its k-th file operation; returns whether it died."""
    child = os.fork()
    if child == 0:
        left = operations

        def die(event: str, args: tuple[object, ...]) -> None:
            nonlocal left
            left -= event == "open" or event.startswith("os.")
            if left < 0:
                os._exit(9)

        sys.addaudithook(die)
        save_value(run, value)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_a_policy_is_complete_whenever_its_writer_is_killed(tmp_path):
    seen = []
    died = True
    while died:
        run = create(tmp_path / str(len(seen)))
        save_value(run, 1)
        died = save_value_and_die(run, 2, operations=len(seen))
        seen.append(load_value(run))
        # The next writer handles the leftovers, also if it is killed.
        save_value_and_die(run, 3, operations=4)
        assert load_value(run) == seen[-1]
        save_value(run, 4)
        assert load_value(run) == 4
    assert seen == sorted(seen)
    # Dying between the two renames, and after them, gives the new policy.
    assert seen.count(2) >= 3
