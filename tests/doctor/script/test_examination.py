"""Real scripts in real processes: what is counted, and what the script must not notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doctor.script.examine_command import examine
from tests.doctor.script.watched_scripts import LOOP, write


def test_steps_are_counted_and_the_exit_code_is_the_scripts(tmp_path: Path) -> None:
    write(tmp_path, LOOP)
    report, done = examine("python", "train.py", 2, 7, cwd=tmp_path)
    assert done.returncode == 7
    assert report["script"]["exit_code"] == 7
    assert not report["script"]["stopped"]
    printed = int(done.stderr.split("steps ")[1].split()[0])
    assert report["speed"]["steps"] == pytest.approx(printed, rel=0.3)
    assert f"steps {printed}" not in done.stdout
    shares = {row["name"]: row["share"] for row in report["phases"]}
    assert shares["env"] > shares["choose()"] > 0
    assert report["coverage"] > 0.9


def test_a_script_that_outlives_the_budget_is_ended_within_it(tmp_path: Path) -> None:
    write(tmp_path, LOOP)
    report, done = examine("python", "train.py", 500, 0, cwd=tmp_path, budget=8)
    assert done.returncode == 0
    assert report["script"]["stopped"]
    assert report["took_s"] < 1.2 * 8
    assert "Traceback" not in done.stderr


NOTICED = """
import json, os, signal, subprocess, sys
seen = {
    "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(), "name": __name__,
    "variables": [name for name in os.environ if "BRISK_W" in name],
    "pythonpath": os.environ.get("PYTHONPATH"),
    "own": [entry for entry in sys.path if "watcher" in entry],
    "main": sys.modules["__main__"].__file__,
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}
child = "import os, sys; print('_brisk_watcher' in sys.modules, os.environ.get('PYTHONPATH'))"
seen["child"] = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout
json.dump(seen, open("seen.json", "w"))
"""


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_a_script_sees_its_usual_surroundings(tmp_path: Path, before: str | None) -> None:
    write(tmp_path, NOTICED)
    variables = {} if before is None else {"PYTHONPATH": before}
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    seen = []
    for watched in (False, True):
        if watched:
            examine("python", "train.py", "--flag", cwd=tmp_path, **variables)
        else:
            subprocess.run(
                [sys.executable, "train.py", "--flag"],
                cwd=tmp_path,
                env={**plain, **variables},
                check=True,
            )
        seen.append(json.loads((tmp_path / "seen.json").read_text()))
    if before is None:  # The tests' own environment sets it.
        seen[1]["pythonpath"] = None
        seen[0]["child"] = seen[1]["child"] = seen[1]["child"].split()[0]
        assert seen[1]["child"] == "False"
    assert seen[0] == seen[1]


def test_a_script_that_ends_abruptly_is_reported(tmp_path: Path) -> None:
    write(tmp_path, LOOP.replace("sys.exit(", "import os; os._exit("))
    report, done = examine("python", "train.py", 1, 3, cwd=tmp_path)
    assert done.returncode == 3
    assert report["speed"]["steps"] > 0


def test_a_script_without_a_loop_is_reported_as_such(tmp_path: Path) -> None:
    write(tmp_path, "print(sum(range(10)))")
    report, done = examine("python", "train.py", cwd=tmp_path)
    assert done.returncode == 0
    assert report["speed"] is None
    assert "no environment steps" in " ".join(report["script"]["unseen"])


def test_an_error_of_the_script_is_its_own(tmp_path: Path) -> None:
    write(tmp_path, "import no_such_module")
    report, done = examine("python", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'no_such_module'" in done.stderr
    assert report["script"]["exit_code"] == 1


def test_a_module_is_examined_like_a_script(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    write(tmp_path / "package", LOOP)
    report, done = examine("-m", "package.train", 1, 0, cwd=tmp_path)
    assert done.returncode == 0
    assert report["speed"]["steps"] > 0


def test_a_program_on_the_path_is_examined_like_a_script(tmp_path: Path) -> None:
    program = write(tmp_path, LOOP, "train-it")
    program.write_text(f"#!{sys.executable}\n{program.read_text()}")
    program.chmod(0o755)
    report, done = examine(program, 1, 0, cwd=tmp_path)
    assert done.returncode == 0
    assert report["speed"]["steps"] > 0


HANDLERS = """
import signal, sys, time
got = []
signal.signal(signal.SIGPROF, lambda number, frame: got.append(number))
signal.raise_signal(signal.SIGPROF)
world = World()
end = time.time() + 1
while time.time() < end:
    world.step(1)
sys.exit(len(got))
"""


def test_a_script_with_a_handler_for_the_tick_signal_keeps_it(tmp_path: Path) -> None:
    write(tmp_path, HANDLERS)
    report, done = examine("python", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "SIGPROF" in " ".join(report["script"]["unseen"])


WORKERS = """
import multiprocessing, sys, time

def work(pipe):
    world = World()
    while True:
        if pipe.recv() is None:
            return
        pipe.send(world.step(1))

if __name__ == "__main__":
    start = multiprocessing.get_context(sys.argv[1])
    near, far = start.Pipe()
    worker = start.Process(target=work, args=(far,))
    worker.start()

    class Remote:
        def step(self, action):
            near.send(action)
            return near.recv()

        def reset(self):
            return 0

    remote, end = Remote(), time.time() + 1.5
    while time.time() < end:
        remote.step(1)
    near.send(None)
    worker.join()
    sys.exit(worker.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_run_unwatched(tmp_path: Path, method: str) -> None:
    write(tmp_path, WORKERS)
    report, done = examine("python", "train.py", method, cwd=tmp_path)
    assert done.returncode == 0
    assert report["speed"]["steps"] > 0
    assert {row["name"] for row in report["phases"]} >= {"env"}


PICKLED = """
import subprocess, sys, time
import cloudpickle

world, end = World(), time.time() + 1
while time.time() < end:
    world.step(1)
child = "import pickle, sys; print(pickle.load(sys.stdin.buffer).step(1))"
data = cloudpickle.dumps(world)
done = subprocess.run([sys.executable, "-c", child], input=data, capture_output=True)
sys.exit(0 if done.stdout.startswith(b"(") else 5)
"""


def test_a_class_of_the_script_is_pickled_without_the_watcher(tmp_path: Path) -> None:
    write(tmp_path, PICKLED)
    report, done = examine(sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert report["speed"]["steps"] > 0


def test_a_changed_folder_does_not_lose_the_source(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write(tmp_path, "import os\nos.chdir('other')\n" + LOOP)
    report, _ = examine("python", "train.py", 1, 0, cwd=tmp_path)
    assert "env" in {row["name"] for row in report["phases"]}


def test_a_rule_names_the_phase_of_a_function(tmp_path: Path) -> None:
    write(tmp_path, LOOP)
    rule = ("--phase", "act=train.choose")
    report, _ = examine("python", "train.py", 2, 0, cwd=tmp_path, options=rule)
    names = {row["name"] for row in report["phases"]}
    assert "act" in names
    assert "choose()" not in names


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("python", "trian.py"), "train.py"),
        (("python",), "Name the script"),
        (("python", "-m"), "needs an argument"),
        (("python", "-I", "train.py"), "-I"),
        (("python9", "train.py"), "python9"),
        (("no-such-program",), "no-such-program"),
        ((), "Add the command"),
    ],
)
def test_wrong_commands_are_refused(tmp_path: Path, command: tuple[str, ...], message: str) -> None:
    write(tmp_path, LOOP)
    _, done = examine(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
