from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Meta

from briskrl.algos.registry import ALGOS
from briskrl.cli.flags import Parser, add_flags, clashes, flag_layer, flag_name
from briskrl.cli.main import main
from briskrl.cli.train import RESERVED, parse_args
from briskrl.core.config import Setting, field_hints, to_dict
from briskrl.core.errors import BriskError
from briskrl.core.text_values import Assignments, parse_value, show
from briskrl.envs.registry import ENVS
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import algo_config_class, env_config_class
from tests.core.config_strategies import train_configs


@pytest.mark.parametrize("algo", list(ALGOS))
@pytest.mark.parametrize("env", list(ENVS))
def test_no_flag_has_two_meanings(env: str, algo: str) -> None:
    classes = [TrainConfig, env_config_class(env), algo_config_class(algo)]
    assert clashes(classes, RESERVED) == []


def test_clashes_are_found_among_fields_negations_and_own_flags() -> None:
    @dataclass
    class One:
        double: bool = False
        json: int = 0

    @dataclass
    class Two:
        no_double: int = 0
        other: int = 0

    assert clashes([One, Two], RESERVED) == ["--json", "--no-double"]


def test_boolean_flags_are_boolean_in_every_environment_and_algorithm() -> None:
    """The first pass over the arguments does not know whose flag it sees."""
    kinds: dict[str, set[bool]] = {}
    for cls in {*map(env_config_class, ENVS), *map(algo_config_class, ALGOS), TrainConfig}:
        for name, hint in field_hints(cls).items():
            kinds.setdefault(name, set()).add(hint is bool)
    assert {name for name, kind in kinds.items() if len(kind) > 1} == set()


@pytest.mark.parametrize(
    ("word", "hint", "value"),
    [
        ("3", int, 3),
        ("1e6", int, 1_000_000),
        ("4_000", int, 4000),
        ("1.5", int, 1.5),
        ("inf", int, float("inf")),
        ("x", int, "x"),
        ("1e-3", float, 1e-3),
        ("quality", float | Literal["quality"], "quality"),
        ("0.5", float | Literal["quality"], 0.5),
        ("16", Literal[8, 16], 16),
        ("12", Literal[8, 16], "12"),
        ("qualty", float | Literal["quality"], "qualty"),
        ("256, 64", tuple[int, ...], [256, 64]),
        ("256", tuple[int, ...], [256]),
        ("", tuple[int, ...], []),
        ("none", Annotated[int, Meta(ge=1)] | None, None),
        ("5", Annotated[int, Meta(ge=1)] | None, 5),
        ("5", str | None, "5"),
        ("none", str, "none"),
    ],
)
def test_arguments_are_converted_to_values(word: str, hint: Any, value: object) -> None:
    read = parse_value(word, hint)
    assert read == value
    assert type(read) is type(value)


def test_only_given_flags_become_settings_and_each_is_its_source() -> None:
    parser = Parser("brisk x", "")
    add_flags(parser, TrainConfig)
    args = parser.parse(["--num-envs", "8", "--no-warmup", "--tensorboard"])
    assert flag_layer(args, {"": TrainConfig}).values == {
        "num_envs": Setting(8, "--num-envs"),
        "warmup": Setting(False, "--no-warmup"),
        "tensorboard": Setting(True, "--tensorboard"),
    }


def test_the_environment_may_be_anywhere_among_the_arguments() -> None:
    for words in (
        ["snake", "--lr", "1e-3", "--double"],
        ["--lr", "1e-3", "--double", "snake"],
        ["--double", "snake", "--lr=1e-3"],
        ["--lr", "1e-3", "--double", "--env", "snake"],
    ):
        config, _ = parse_args(words)
        assert (config.env, config.algo_config.lr, config.algo_config.double) == (
            "snake",
            1e-3,
            True,
        )


def test_abbreviated_flags_are_unknown_and_the_whole_one_is_suggested() -> None:
    with pytest.raises(BriskError, match=r"Unknown flag --num-env\. Did you mean '--num-envs'"):
        parse_args(["snake", "--num-env", "8"])


def test_two_different_environments_are_an_error() -> None:
    with pytest.raises(BriskError, match="Two environments"):
        parse_args(["snake", "--env", "other"])


def test_flags_override_files_and_later_files_override_earlier(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.yaml"
    first.write_text('env = "snake"\nalgo = "c51"\nseed = 1\nsteps = 10\n[algo_config]\nlr = 0.5\n')
    second.write_text("steps: 20\nalgo_config:\n  gamma: 0.5\n  net: [8]\n")
    words = ["--config", str(first), "--config", str(second), "--net", "4,4"]
    config, _ = parse_args(words)
    algo = config.algo_config
    assert (config.algo, config.seed, config.steps) == ("c51", 1, 20)
    assert (algo.lr, algo.gamma, algo.net, algo.atoms) == (0.5, 0.5, (4, 4), 51)


def as_arguments(config: TrainConfig) -> list[str]:
    plain = to_dict(config)
    words = []
    del plain["curriculum"]  # only a file can hold it
    for values in (plain.pop("env_config"), plain.pop("algo_config"), plain):
        for name, value in values.items():
            flag = flag_name(name)
            if value == []:
                continue  # an empty list is the default, and has no form as a flag
            if isinstance(value, bool):
                words.append(flag if value else "--no-" + flag[2:])
            else:
                words.append(f"{flag}={show(value)}")
    return words


@settings(max_examples=50)
@given(config=train_configs(curriculum=False))
def test_any_config_can_be_given_as_flags(config: TrainConfig) -> None:
    assert parse_args(as_arguments(config))[0] == config


FLAGS = ["--lr", "--obs", "--net", "--double", "--no-warmup", "--algo", "--config", "--seed"]
FLAGS += ["--huh", "-x", "--lr=1", "--net=", "--env", "--run-dir", "--json", "--", "-", "-5"]
words = st.sampled_from([*FLAGS, "snake", "rainbow", "grid", "1", "0", "nan", "x.toml", ""])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(typed=st.lists(words | st.text(max_size=5), max_size=6))
def test_any_arguments_print_a_config_or_exit_with_2_and_write_nothing(
    tmp_path: Path, typed: list[str]
) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert main(["train", "--print-config", *typed]) in (0, 2)
    except SystemExit as left:
        assert left.code == 0  # noqa: PT017  help was among the arguments
    finally:
        os.chdir(before)
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Study:
    grid: Assignments = field(default_factory=dict)
    """Values to try."""
    seeds: int = 1
    """Seeds."""


def test_own_tables_of_files_and_flags_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('env = "cartpole"\n[study]\nseeds = 3\n[study.grid]\nlr = [0.1, 0.2]\n')
    config, args = parse_args(["--config", str(path), "--seeds", "5"], own={"study": Study})
    assert config.env == "cartpole"
    assert args.own == {"study": Study({"lr": [0.1, 0.2]}, 5)}
    _, args = parse_args(["--config", str(path), "--grid", "num-envs=8,16"], own={"study": Study})
    assert args.own["study"].grid == {"num_envs": "8,16"}


@pytest.mark.parametrize("words", [["lr"], ["=3"], ["lr=1", "--grid", "lr=2"]])
def test_assignments_need_one_key_each(words: list[str]) -> None:
    with pytest.raises(BriskError, match="--grid"):
        parse_args(["snake", "--grid", *words], own={"study": Study})


def test_a_flag_of_the_command_and_of_the_run_is_an_error() -> None:
    @dataclass(frozen=True)
    class Clash:
        lr: float = 1.0
        """Learning rate."""

    with pytest.raises(BriskError, match="the command defines --lr"):
        parse_args(["snake"], own={"clash": Clash})
