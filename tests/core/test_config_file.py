from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from briskrl.core.config import Setting
from briskrl.core.config_file import PARSERS, Layer, read_file
from briskrl.core.errors import ConfigError

FILES = {
    "a.toml": 'seed = 3\n\n[algo_config]  # the algorithm\n"lr" = 1e-3\nnet = [\n  8,\n]\nx = 1\n',
    "a.json": '{"seed": 3,\n\n\n "algo_config": {"lr": 1e-3,\n "net": [\n8], "z": 0,\n "x": 1}}',
    "a.yaml": "seed: 3\n\nalgo_config:\n  lr: 1e-3\n  net: [8]\n\n\n  x: 1\n",
}
LINES = {
    "a.toml": (1, 4, 5, 8),
    "a.json": (1, 4, 5, 7),
    "a.yaml": (1, 4, 5, 8),
}


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_values_with_their_lines(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, FILES[name])
    layer = read_file(path)
    seed, lr, net, x = (f"{path}, line {line}" for line in LINES[name])
    assert layer.values == {"seed": Setting(3, seed)}
    table = layer.table("algo_config")
    assert (table["lr"], table["net"]) == (Setting(1e-3, lr), Setting([8], net))
    assert table["x"] == Setting(1, x)


def test_dotted_keys_and_inline_tables_are_tables(tmp_path: Path) -> None:
    path = write(tmp_path, "a.toml", "algo_config.lr = 1.0\nenv_config = {obs = 'grid'}\n")
    layer = read_file(path)
    assert layer.table("algo_config") == {"lr": Setting(1.0, f"{path}, line 1")}
    assert layer.table("env_config") == {"obs": Setting("grid", str(path))}


def test_json_that_is_not_yaml_is_read_without_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '{\n\t"seed":\t3\n}')
    assert read_file(path).values == {"seed": Setting(3, str(path))}


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.toml"])
def test_an_empty_file_sets_nothing(tmp_path: Path, name: str) -> None:
    assert read_file(write(tmp_path, name, "")) == Layer()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "seed = 1\nlr = \n", "line 2"),
        ("a.toml", "seed = 1\nseed = 2\n", "line 2"),
        ("a.json", '{"seed": 1,\n "x" 2}', "line 2"),
        ("a.json", '{"seed": 1, "seed": 2}', "'seed' appears twice"),
        ("a.json", "[1, 2]", "not a list"),
        ("a.json", "[" * 100_000, "not well-formed"),
        ("a.json", '{"seed": ' + "9" * 5000 + "}", "not well-formed"),
        ("a.yaml", "seed: 1\nlr: [1,\n", "line 3"),
        ("a.yaml", "seed: 1\nseed: 2\n", "line 2 repeats the key 'seed'"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "not well-formed"),
        ("a.yaml", "just words", "not a str"),
        ("a.yaml", "!!python/object/apply:os.system [touch pwned]", "not well-formed"),
        ("a.yaml", "a: 2024-13-45", "not well-formed"),
        ("a.toml", b"\xff\xfe", "not well-formed"),
        ("a.ini", "x = 1", "must end in .toml, .json, .yaml, .yml"),
    ],
)
def test_malformed_files_raise_with_name_and_line(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(ConfigError) as caught:
        read_file(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_or_a_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_file(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        read_file(tmp_path / "folder.toml")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(suffix=st.sampled_from(sorted(PARSERS)), text=st.text(max_size=60) | st.binary(max_size=60))
def test_any_content_reads_or_is_a_config_error(
    tmp_path: Path, suffix: str, text: str | bytes
) -> None:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    path = write(tmp_path, f"fuzz{suffix}", raw)
    try:
        layer = read_file(path)
    except ConfigError:
        return
    assert all(isinstance(setting, Setting) for setting in layer.values.values())


scalars = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
keys = st.text(st.sampled_from("abcxyz_-. '\""), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.dictionaries(keys, scalars | st.lists(scalars, max_size=3)))
def test_json_and_yaml_agree_with_their_reference_readers(tmp_path: Path, data: dict) -> None:
    for suffix, text in ((".json", json.dumps(data)), (".yaml", yaml.safe_dump(data))):
        layer = read_file(write(tmp_path, f"data{suffix}", text))
        assert {name: setting.value for name, setting in layer.values.items()} == data
