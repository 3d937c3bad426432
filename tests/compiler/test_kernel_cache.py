"""The cache of compiled kernels: damage only costs time, and only our own files are loaded."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

from briskrl.compiler import jit, kernel_cache

NOBODY = 12_345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def cache(tmp_path, monkeypatch, caplog):
    """An empty cache of compiled code in a process that has logged nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_reported", set())
    jit.cache_folder.cache_clear()
    caplog.set_level(logging.WARNING)
    yield tmp_path / "cache"
    jit.cache_folder.cache_clear()


def double(values):
    for i in range(values.shape[0]):
        values[i] *= 2


def use_kernel():
    """Compile or load a kernel as a new process would, and use it; returns the hits."""
    jit.cache_folder.cache_clear()
    kernel = jit.kernel(double)
    values = np.arange(3.0)
    kernel(values)
    assert values.tolist() == [0, 2, 4]
    return sum(kernel.stats.cache_hits.values())


def files_of(cache: Path, suffix: str = "") -> list[Path]:
    return sorted(path for path in cache.rglob(f"*{suffix}") if path.is_file())


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


def overwrite(path):
    path.write_bytes(os.urandom(5000))


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 16
    path.write_bytes(content)


def signed(data: bytes) -> bytes:
    return blake2b(data, digest_size=32).digest() + data


def replace_by_another_pickle(path):
    path.write_bytes(signed(pickle.dumps(["something", "else"])))


def replace_by_a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_text("in the way")


def replace_by_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def link_to_itself(path):
    path.unlink()
    path.symlink_to(path.name)


DAMAGE = [
    truncate,
    empty,
    overwrite,
    flip_a_bit,
    replace_by_another_pickle,
    replace_by_a_folder,
    replace_by_a_pipe,
    link_to_itself,
    Path.unlink,
]


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"], ids=["index", "code"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_compiled_once_again_and_logged(cache, caplog, damage, suffix):
    assert use_kernel() == 0
    assert use_kernel() == 1
    (path,) = files_of(cache, suffix)
    damage(path)
    assert use_kernel() == 0
    # A file that is gone is no damage: somebody has cleaned up.
    expected = 0 if damage is Path.unlink else 1
    assert len(caplog.records) == expected
    assert all("compiled again" in record.message for record in caplog.records)
    assert use_kernel() == 1


def test_a_cache_that_is_deleted_meanwhile_is_made_again(cache):
    kernel = jit.kernel(double)
    kernel(np.zeros(1))
    shutil.rmtree(cache)
    kernel(np.zeros(1, np.float32))
    assert use_kernel() == 0
    shutil.rmtree(cache)
    assert use_kernel() == 0
    assert use_kernel() == 1


LIMITED = """
import logging, resource, sys
logging.basicConfig(format="LOG %(message)s")
import numpy as np
from briskrl.compiler import jit
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))

@jit.kernel
def double(values):
    for i in range(values.shape[0]):
        values[i] *= 2

for dtype in (np.float64, np.float32, np.int64):
    values = np.arange(3, dtype=dtype)
    double(values)
    assert values.tolist() == [0, 2, 4]
print(sum(double.stats.cache_hits.values()))
"""


def test_files_that_cannot_be_written_whole_are_left_out(cache, tmp_path):
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    for limit in (0, 3000):
        run = subprocess.run(
            [sys.executable, script, str(limit)], capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout == "0\n"
        logged = [line for line in run.stderr.splitlines() if line.startswith("LOG")]
        assert len(logged) == 1
        assert "cannot be saved" in logged[0]
        assert "File too large" in logged[0]
        assert not [path for path in files_of(cache) if path.suffix != ".nbi"]


def test_without_a_place_for_the_cache_kernels_are_compiled(tmp_path, monkeypatch, cache, caplog):
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    assert use_kernel() == use_kernel() == 0
    assert {record.levelname for record in caplog.records} == {"WARNING"}


class Payload:
    """A pickle of this makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def plant(cache: Path, marker: Path) -> list[Path]:
    """Replace all files of the cache by pickles that leave a mark when they are loaded."""
    found = files_of(cache)
    assert len(found) == 2
    data = pickle.dumps(Payload(marker))
    for path in found:
        path.write_bytes(signed(data) if path.suffix == ".nbc" else data)
    return found


def give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def kernels_of(cache: Path) -> Path:
    (folder,) = (cache / "briskrl").iterdir()
    return folder


@as_root
@pytest.mark.parametrize("level", ["briskrl", "kernels", "source"])
def test_a_folder_of_another_user_is_not_used(cache, tmp_path, caplog, level):
    use_kernel()
    plant(cache, tmp_path / "executed")
    kernels = kernels_of(cache)
    (source,) = kernels.iterdir()
    give_away({"briskrl": kernels.parent, "kernels": kernels, "source": source}[level])
    before = {path: path.read_bytes() for path in files_of(cache)}
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()
    assert "belongs to another user" in caplog.text
    assert {path: path.read_bytes() for path in files_of(cache)} == before


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702], ids=oct)
@pytest.mark.parametrize("level", ["briskrl", "kernels"])
def test_a_folder_that_others_can_write_to_is_not_used(cache, tmp_path, caplog, level, mode):
    use_kernel()
    plant(cache, tmp_path / "executed")
    kernels = kernels_of(cache)
    folder = kernels.parent if level == "briskrl" else kernels
    folder.chmod(mode)
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()
    assert f"chmod go-w {folder}" in caplog.text
    assert len(caplog.records) == 1


@as_root
def test_a_link_that_another_user_has_made_is_not_followed(cache, tmp_path):
    use_kernel()
    plant(cache, tmp_path / "executed")
    kernels = kernels_of(cache)
    kernels.rename(tmp_path / "elsewhere")
    kernels.symlink_to(tmp_path / "elsewhere")
    os.lchown(kernels, NOBODY, NOBODY)
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()


def test_our_own_link_to_our_own_folder_is_followed(cache, tmp_path):
    use_kernel()
    kernels = kernels_of(cache)
    kernels.rename(tmp_path / "elsewhere")
    kernels.symlink_to(tmp_path / "elsewhere")
    assert use_kernel() == 1


@as_root
def test_our_own_link_to_a_folder_of_another_user_is_not_used(cache, tmp_path):
    use_kernel()
    plant(cache, tmp_path / "executed")
    kernels = kernels_of(cache)
    kernels.rename(tmp_path / "elsewhere")
    kernels.symlink_to(tmp_path / "elsewhere")
    give_away(tmp_path / "elsewhere")
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()


@as_root
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"], ids=["index", "code"])
def test_a_file_of_another_user_is_not_loaded_but_replaced(cache, tmp_path, suffix):
    use_kernel()
    (path,) = files_of(cache, suffix)
    path.write_bytes(signed(pickle.dumps(Payload(tmp_path / "executed"))))
    give_away(path)
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()
    assert use_kernel() == 1
    assert path.stat().st_uid == os.geteuid() or not path.exists()


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"], ids=["index", "code"])
def test_a_file_that_others_can_write_to_is_not_loaded(cache, tmp_path, suffix):
    use_kernel()
    (path,) = files_of(cache, suffix)
    path.write_bytes(signed(pickle.dumps(Payload(tmp_path / "executed"))))
    path.chmod(0o666)
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()


def test_a_link_to_a_file_is_not_loaded(cache, tmp_path):
    use_kernel()
    (index,) = files_of(cache, ".nbi")
    target = tmp_path / "target"
    target.write_bytes(signed(pickle.dumps(Payload(tmp_path / "executed"))))
    index.unlink()
    index.symlink_to(target)
    assert use_kernel() == 0
    assert not (tmp_path / "executed").exists()
    assert target.stat().st_size > 0


def test_folders_and_files_are_made_for_their_owner_only(tmp_path, monkeypatch, cache):
    base = tmp_path / "some" / "where"
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    before = os.umask(0)
    try:
        use_kernel()
    finally:
        os.umask(before)
    made = [tmp_path / "some", *(tmp_path / "some").rglob("*")]
    assert len(made) == 7
    modes = {path.name: path.stat().st_mode & 0o777 for path in made}
    assert set(modes.values()) == {0o700, 0o600}
    assert [path for path in made if path.is_file() and path.stat().st_mode & 0o177] == []
