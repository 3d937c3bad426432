"""The folder that a job works in: names, log, output of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from briskrl.cluster.job_folder import check_name, open_job_folder
from briskrl.cluster.storage import FolderStore
from briskrl.core.errors import BriskError, RunFolderError

PRINTS = """
import os, sys
from pathlib import Path
from briskrl.cluster.job_folder import open_job_folder
with open_job_folder(Path(sys.argv[1]), "job", None):
    print("printed")
    os.write(2, b"written\\xff\\n")
    os.system("echo by a child")
print("after the job")
"""


@pytest.mark.parametrize("name", ["a", "a/b", "runs/003-seed1", "über", "a b"])
def test_paths_are_names(name: str):
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/..", "/a", "a/", "a//b", "./a", "a\0b", "a\nb"])
def test_other_texts_are_no_names(name: str):
    with pytest.raises(BriskError, match="cannot be the name of a job"):
        check_name(name)


def test_output_of_the_process_and_its_children_goes_to_the_log(tmp_path: Path):
    command = [sys.executable, "-c", PRINTS, str(tmp_path / "job")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "after the job\n"
    assert result.stderr == ""
    log = (tmp_path / "job" / "job.log").read_bytes().splitlines()
    assert sorted(log) == [b"by a child", b"printed", b"written\xff"]


def test_output_on_a_full_disk_is_lost_without_losing_the_job(tmp_path: Path):
    # A full device, which unlike a full disk needs no permission.
    program = PRINTS.replace(
        "with open", "os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nwith open"
    )
    program = program.replace('print("after the job")', 'sys.stderr.write("done")')
    program = program.replace("import os, sys", "import os, sys\nprint('x')")
    command = [sys.executable, "-c", program, str(tmp_path / "job")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "done" in result.stderr


def test_descriptors_are_given_back(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    for number in range(20):
        with (
            pytest.raises(RuntimeError),
            open_job_folder(tmp_path / str(number), "job", FolderStore(tmp_path / "store")),
        ):
            raise RuntimeError
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_log_that_is_a_link_is_refused(tmp_path: Path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job.log").symlink_to(tmp_path / "outside")
    with pytest.raises(RunFolderError, match="link"), open_job_folder(tmp_path / "job", "j", None):
        pass
    assert not (tmp_path / "outside").exists()


def test_the_log_of_an_attempt_that_fails_is_copied_to_the_store(tmp_path: Path):
    store = FolderStore(tmp_path / "store")

    def fail() -> None:
        with open_job_folder(tmp_path / "job", "a/b", store) as folder:
            (folder.path / "file").write_text("not published")
            os.write(1, b"last words\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "store" / "a" / "b" / "job.log").read_bytes() == b"last words\n"
    assert store.list("a/b") == ["job.log"]
