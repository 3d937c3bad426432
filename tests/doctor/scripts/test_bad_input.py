"""Scripts that do unusual things: they must run as without the doctor, and be reported."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from briskrl.core.errors import BriskError
from tests.cli.conftest import environment
from tests.doctor.script.watched_scripts import write
from tests.doctor.scripts.examine import examine, examine_script

PLAY = """
import os, pathlib, signal, sys, time

def play(seconds):
    world, end = World(), time.time() + seconds
    while time.time() < end:
        world.step(1)

"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_script_that_closes_all_files_runs_on(tmp_path: Path) -> None:
    script = write(tmp_path, PLAY + "play(0.8)\nos.closerange(3, 4096)\nplay(0.5)\nsys.exit(5)")
    report = examine_script(script)
    assert report.script is not None
    assert report.script.exit_code == 5
    assert report.speed is not None
    assert report.speed.steps > 0


LIMITED = """
import json
import os
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
play(0.5)
sys.exit(8)
"""


def test_a_script_runs_on_when_nothing_can_be_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    report = examine_script(write(tmp_path, PLAY + LIMITED))
    assert report.script is not None
    assert report.script.exit_code == 8
    assert capfd.readouterr().err == ""


AGAIN = """
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])
play(1.5)
sys.exit(6)
"""


@pytest.mark.parametrize("before", [None, "elsewhere"])
def test_a_script_that_starts_itself_again_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", before)
    kept = f"assert os.environ.get('PYTHONPATH') == {before!r}\n"
    report = examine_script(write(tmp_path, PLAY + kept + AGAIN))
    assert report.script is not None
    assert report.script.exit_code == 6
    assert report.speed is not None
    assert report.phases[0].name == "env"


SAVES = """
def save(number, frame):
    pathlib.Path("saved").write_text(str(number))
    sys.exit(9)

signal.signal(signal.SIGINT, save)
play(100)
"""


def test_the_doctor_ends_a_script_by_its_own_handler(tmp_path: Path) -> None:
    report = examine_script(write(tmp_path, PLAY + SAVES), budget_s=8)
    assert report.script is not None
    assert report.script.stopped
    assert report.script.exit_code == 9
    assert (tmp_path / "saved").read_text() == "2"


STUBBORN = """
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
while True:
    try:
        play(1)
    except BaseException:
        pass
"""


def test_a_script_that_refuses_to_end_is_killed(tmp_path: Path) -> None:
    report = examine_script(write(tmp_path, PLAY + STUBBORN), budget_s=8)
    assert report.script is not None
    assert report.script.stopped
    assert report.script.exit_code == -9
    assert report.speed is not None


DEEP = """
def deep(left):
    return 0 if left == 0 else 1 + deep(left - 1)

world, end = World(), time.time() + 1
while time.time() < end:
    deep(sys.getrecursionlimit() - 8)
    world.step(1)
sys.exit(4)
"""


def test_a_script_may_use_the_whole_stack(tmp_path: Path) -> None:
    report = examine_script(write(tmp_path, PLAY + DEEP))
    assert report.script is not None
    assert report.script.exit_code == 4


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("import no_such_module_here", 1, "no_such_module_here"),
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--env', required=True)\n"
         "p.parse_args()", 2, "--env"),
        ("import sys\nsys.exit('no data')", 1, "no data"),
        ("def broken(:", 1, "SyntaxError"),
    ],
)  # fmt: skip
def test_a_script_that_fails_at_once_shows_its_own_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, code: int, shown: str
) -> None:
    report = examine_script(write(tmp_path, text))
    assert report.script is not None
    assert report.script.exit_code == code
    error = capfd.readouterr().err
    assert shown in error
    assert "_brisk_watcher" not in error
    assert not report.findings
    assert any("no environment steps" in line for line in report.script.unseen)


def test_a_launcher_of_another_script_is_reported(tmp_path: Path) -> None:
    write(tmp_path, PLAY + "play(1.5)", name="train.py")
    start = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'train.py']))"
    report = examine_script(write(tmp_path, start, name="launch.py"))
    assert report.script is not None
    assert report.script.exit_code == 0
    assert any("name the training script itself" in line for line in report.script.unseen)


def test_forks_and_removed_folders_do_not_matter(tmp_path: Path) -> None:
    text = """
child = os.fork()
if child == 0:
    play(0.2)
    sys.exit(0)
os.waitpid(child, 0)
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
play(1)
sys.exit(3)
"""
    report = examine_script(write(tmp_path, PLAY + text))
    assert report.script is not None
    assert report.script.exit_code == 3
    assert report.phases[0].name == "env"


def test_names_with_spaces_and_options_of_python_are_fine(tmp_path: Path) -> None:
    script = write(tmp_path, PLAY + "assert False\nplay(1)", name="träin it.py")
    report = examine(sys.executable, "-u", "-O", script.name)
    assert report.script is not None
    assert report.script.exit_code == 0
    assert report.phases[0].name == "env"


def test_a_program_that_is_no_python_is_refused() -> None:
    program = shutil.which("true")
    assert program is not None
    with pytest.raises(BriskError, match="Name the script itself"):
        examine(program)


def _pythons() -> list[str]:
    """Other versions of Python on the PATH, or installed by pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [f"python3.{minor}" for minor in range(8, 16) if minor != sys.version_info.minor]
    found = [str(path) for name in names for path in root.glob(f"*/bin/{name}")]
    return found + [path for name in names if (path := shutil.which(name))]


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("minor", [8, 9, 10, 12, 13, 14])
def test_another_version_of_python_is_watched(tmp_path: Path, minor: int) -> None:
    usable = [path for path in _pythons() if path.endswith(f".{minor}") and _runs(path)]
    if not usable:
        pytest.skip(f"no Python 3.{minor} here")
    report = examine(usable[0], write(tmp_path, PLAY + "play(1.2)\nsys.exit(11)"))
    assert report.script is not None
    assert report.script.exit_code == 11
    assert report.script.python.startswith(f"3.{minor}.")
    assert report.phases[0].name == "env"


READY = """
play(1.5)
print("learning", flush=True)
play(100)
"""


@pytest.mark.parametrize("whole_group", [True, False])
def test_ctrl_c_reports_what_is_known(tmp_path: Path, whole_group: bool) -> None:
    script = write(tmp_path, PLAY + READY)
    command = [sys.executable, "-m", "briskrl", "doctor", "--json", "--budget", "60", "--"]
    doctor = subprocess.Popen(
        [*command, sys.executable, script.name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert doctor.stderr is not None
    # The output of the script is apart from the report.
    while "learning" not in doctor.stderr.readline():
        assert doctor.poll() is None
    if whole_group:
        os.killpg(doctor.pid, signal.SIGINT)
    else:
        doctor.send_signal(signal.SIGINT)
    output, error = doctor.communicate(timeout=60)
    report = json.loads(output)
    assert report["interrupted"]
    assert report["speed"]["steps"] > 0
    assert "_brisk_watcher" not in error


BY_VALUE = """
import cloudpickle, subprocess
play(0.5)
assert "_brisk_watcher" in sys.modules
child = "import pickle, sys; w = pickle.load(sys.stdin.buffer); print([w.step(1)[0] for _ in '12'])"
data = cloudpickle.dumps(World())
print(subprocess.run([sys.executable, "-c", child], input=data, capture_output=True, check=True))
World().step(1)
"""


def test_classes_of_the_script_can_be_sent_to_other_processes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = examine_script(write(tmp_path, PLAY + BY_VALUE))
    output = capfd.readouterr()
    assert report.script is not None
    assert report.script.exit_code == 0, output.err
    assert "[1, 2]" in output.out
