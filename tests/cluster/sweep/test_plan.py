"""The plan of a sweep: every mistake is found before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep.folder import SWEEP_TOML, SweepInfo, read_sweep, sweep_toml
from briskrl.cluster.sweep.plan import Plan, make_plan, sweep_info, trial_config
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.cluster.sweep.space import Choice, Range
from briskrl.core.config import Setting
from briskrl.core.config_file import Layer
from briskrl.core.errors import ConfigError
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import resolve
from tests.cluster.sweep.small_sweeps import tiny_config


def plan_of(config: TrainConfig | None = None, **options: Any) -> tuple[SweepInfo, Plan]:
    info = sweep_info(config or tiny_config(), SweepConfig(**options), ExecutorConfig())
    return info, make_plan(info)


def test_a_grid_has_every_combination_in_order():
    _, plan = plan_of(grid={"lr": "1e-4,1e-3", "batch_size": "16,32"})
    assert list(plan.trials) == [
        {"lr": 1e-4, "batch_size": 16},
        {"lr": 1e-4, "batch_size": 32},
        {"lr": 1e-3, "batch_size": 16},
        {"lr": 1e-3, "batch_size": 32},
    ]


@given(
    st.lists(st.floats(1e-6, 1e-1), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(1, 512), min_size=1, max_size=4, unique=True),
)
def test_every_combination_is_the_config_of_its_trial(rates, sizes):
    text = ",".join(map(repr, rates))
    info, plan = plan_of(grid={"learning_rate": text, "batch_size": sizes})
    found = []
    for values in plan.trials:
        algo = trial_config(info, values).algo_config
        found.append((algo.lr, algo.batch_size))
    assert found == [(rate, size) for rate in rates for size in sizes]


def test_lists_are_separated_by_bars_and_may_be_single():
    info, plan = plan_of(grid={"net": "64,64|128"})
    assert [trial_config(info, values).algo_config.net for values in plan.trials] == [
        (64, 64),
        (128,),
    ]
    assert [values["net"] for values in plan_of(grid={"net": [[8], [8, 8]]})[1].trials] == [
        [8],
        [8, 8],
    ]


def test_keys_can_belong_to_the_run_the_environment_and_the_algorithm():
    config = TrainConfig(env="snake", steps=1000)
    info, plan = plan_of(config, grid={"num_envs": "8", "height": "8,9", "double": "true"})
    first, second = (trial_config(info, values) for values in plan.trials)
    assert (first.num_envs, first.env_config.height, first.algo_config.double) == (8, 8, True)
    assert second.env_config.height == 9


def test_an_alias_sets_the_fields_that_it_stands_for():
    _, plan = plan_of(grid={"total_timesteps": "1000,2000"})
    assert [dict(values) for values in plan.trials] == [{"steps": 1000}, {"steps": 2000}]


def test_algorithms_can_be_compared_each_with_its_own_preset():
    info, plan = plan_of(TrainConfig(env="cartpole", steps=10_000_000), grid={"algo": "dqn,ppo"})
    dqn, ppo = (trial_config(info, values) for values in plan.trials)
    assert (dqn.algo, ppo.algo) == ("dqn", "ppo")
    alone = resolve([Layer({"env": Setting("cartpole"), "algo": Setting("ppo")})])
    assert ppo == replace(alone, steps=10_000_000)
    assert dqn.num_envs != ppo.num_envs


def test_a_sweep_over_seeds_has_one_trial_without_values():
    info, plan = plan_of(tiny_config(seed=7), seeds=3)
    assert list(plan.trials) == [{}]
    assert info.seeds == (7, 8, 9)
    assert plan_of(seeds=(3, 11))[0].seeds == (3, 11)


def test_spaces_have_ranges_and_choices():
    _, plan = plan_of(
        search="tpe",
        range={"lr": "1e-4..1e-2:log", "batch_size": "16..64", "gamma": [0.9, 0.99]},
        choice={"net": "64,64|128", "double": "true,false"},
    )
    assert plan.space["lr"] == Range(1e-4, 1e-2, log=True)
    assert plan.space["batch_size"] == Range(16, 64, whole=True)
    assert plan.space["gamma"] == Range(0.9, 0.99)
    assert plan.space["net"] == Choice({"64,64": (64, 64), "128": (128,)})
    point = {"lr": 1e-3, "batch_size": 32, "gamma": 0.9, "net": (64, 64), "double": True}
    assert plan.values(point)["net"] == [64, 64]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": {"lrr": "1"}}, r"--grid names an unknown setting 'lrr'. Did you mean 'lr'"),
        ({"grid": {"lr": ""}}, "--grid lr has no values"),
        ({"grid": {"lr": []}}, "--grid lr has no values"),
        ({"grid": {"lr": "fast"}}, "lr = 'fast' .--grid. must be a number"),
        ({"grid": {"lr": "1,-1"}}, "must be a number above 0"),
        ({"grid": {"lr": "0.1,1e-1"}}, "names the value 0.1 twice"),
        ({"grid": {"lr": "0.1", "learning_rate": "0.2"}}, "the same setting, lr"),
        ({"grid": {"seed": "1,2"}}, "Use --seeds"),
        ({"grid": {"run_dir": "x"}}, "--sweep-dir"),
        ({"grid": {"batch_size": "16,4096"}}, "larger than buffer_size.*batch_size=4096"),
        ({"grid": {"steps": list(range(1, 10_002))}}, "10,001 combinations, more than 10,000"),
        ({"grid": {"lr": "1"}, "search": "tpe"}, "grid and search exclude each other"),
        ({"range": {"lr": "1..2"}}, "range is for a search"),
        ({"trials": 3}, "trials is for a search"),
        ({"search": "tpe"}, "has nothing to search"),
        ({"prune": "median"}, "prune median is for a search"),
        ({"confirm_seeds": 2}, "needs trials to choose from"),
        ({"seeds": (1, 1)}, "names a seed twice"),
        ({"seeds": ()}, "seeds is empty"),
        ({"search": "tpe", "range": {"lr": "1e-3"}}, "must have the form LOW..HIGH"),
        ({"search": "tpe", "range": {"lr": "1e-3..1e-2:logg"}}, "must have the form LOW..HIGH"),
        ({"search": "tpe", "range": {"lr": [1e-3]}}, "must have the form LOW..HIGH"),
        ({"search": "tpe", "range": {"lr": "1e-2..1e-3"}}, "0.01 is not below 0.001"),
        ({"search": "tpe", "range": {"lr": "0..1"}}, "must be a number above 0"),
        ({"search": "tpe", "range": {"epsilon_end": "0..1:log"}}, "must begin above 0"),
        ({"search": "tpe", "range": {"batch_size": "1.5..8"}}, "1.5 is not an integer"),
        ({"search": "tpe", "range": {"net": "1..2"}}, "not a number. Use --choice"),
        ({"search": "tpe", "choice": {"net": "64"}}, "has only the value 64"),
        ({"search": "tpe", "range": {"lr": "1..2"}, "choice": {"lr": "1,2"}}, "both name 'lr'"),
        ({"search": "tpe", "choice": {"double": "true,false"}}, "more than the 2 combinations"),
        (
            {"search": "tpe", "range": {"lr": "1..2"}, "prune": "median", "metric": "wall_s"},
            "needs a metric that runs report",
        ),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        plan_of(**options)


def test_samplers_say_what_they_cannot_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("briskrl.cluster.sweep.plan.check_installed", lambda search: None)
    with pytest.raises(ConfigError, match="net is a choice: use --search tpe"):
        plan_of(search="cmaes", range={"lr": "1..2"}, choice={"net": "1|2"})
    with pytest.raises(ConfigError, match="needs two ranges"):
        plan_of(search="cmaes", range={"lr": "1..2"})


def test_times_and_lengths_are_better_when_small():
    assert plan_of(metric="cpu_s")[0].goal == "min"
    assert plan_of(metric="score")[0].goal == "max"
    assert plan_of(metric="score", goal="min")[0].goal == "min"


@pytest.mark.parametrize(
    "options",
    [
        {"grid": {"lr": "1e-4,1e-3", "net": [[8], [8, 8]]}, "seeds": (3, 4), "confirm_seeds": 2},
        {"search": "tpe", "range": {"lr": [1e-4, 1e-2, "log"]}, "choice": {"net": "8|8,8"}},
        {"grid": {"algo": "dqn,rainbow"}},
    ],
)
def test_the_file_of_a_sweep_gives_the_same_plan(tmp_path: Path, options: dict[str, Any]):
    info, plan = plan_of(TrainConfig(env="cartpole", steps=5000, threads=1), **options)
    (tmp_path / SWEEP_TOML).write_text(sweep_toml(info))
    again = read_sweep(tmp_path)
    assert make_plan(again) == plan
    assert again.settings == info.settings
    assert again.seeds == info.seeds
    for values in plan.trials:
        assert trial_config(again, values) == trial_config(info, values)


def test_the_storage_of_a_sweep_does_not_depend_on_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    info = sweep_info(
        tiny_config(), SweepConfig(sweep_dir="one"), ExecutorConfig(storage="elsewhere")
    )
    assert info.runs == tmp_path / "elsewhere" / "one"
