"""Which runs are repetitions of each other, and what groups are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from briskrl.cluster.group_names import hidden_differences, name_groups
from briskrl.cluster.groups import RunGroup, find_groups
from briskrl.cluster.run_settings import differing, identity, read_settings
from briskrl.core.errors import RunFolderError
from tests.cluster.run_folders import make_run


def groups_of(*runs: Path) -> list[RunGroup]:
    return name_groups(find_groups(runs))


def names_of(*runs: Path) -> list[str]:
    return [group.name for group in groups_of(*runs)]


def test_runs_that_differ_only_in_seeds_and_records_are_one_group(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", [1.0], seed=3, log_seconds=1.0)
    second = make_run(tmp_path / "b", [1.0], seed=4, checkpoint_steps=50, warmup=False)
    (group,) = groups_of(first, second)
    assert (group.name, group.env, group.algo) == ("dqn", "snake", "dqn")
    assert group.folders == (first, second)
    assert group.seeds == (3, 4)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"steps": 5000}, "steps=5000"),
        ({"num_envs": 8}, "num_envs=8"),
        ({"threads": 2}, "threads=2"),
        ({"engine": "torch"}, "engine=torch"),
        ({"algo_config": {"lr": 0.00012345}}, "lr=0.0001234"),
        ({"algo_config": {"net": (8, 16), "double": True}}, "double=on, net=8,16"),
        ({"env_config": {"width": 7}}, "width=7"),
        ({"curriculum": ({"env": {"width": 5}, "value": 1.0},)}, "curriculum=1 tables"),
    ],
)
def test_settings_that_change_results_separate_groups_and_name_them(
    tmp_path: Path, settings: dict[str, object], name: str
) -> None:
    plain, changed = make_run(tmp_path / "a", [1.0]), make_run(tmp_path / "b", [1.0], **settings)
    first, second = names_of(plain, changed)
    assert second == name
    assert first.partition("=")[0] == name.partition("=")[0]


def test_algorithms_are_named_without_the_settings_that_belong_to_them(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", [1.0], algo="dqn"),
        make_run(tmp_path / "b", [1.0], algo="ppo", num_envs=32),
        make_run(tmp_path / "c", [1.0], algo="ppo", num_envs=32, algo_config={"lr": 0.01}),
    ]
    groups = groups_of(*runs)
    default = groups[1].settings["algo_config.lr"]
    names = [group.name for group in groups]
    assert names == ["dqn", f"ppo, lr={default:.4g}", "ppo, lr=0.01"]
    # What a reader of the names would not know.
    assert hidden_differences(groups) == ["num_envs"]
    assert hidden_differences(groups[1:]) == []


def test_environments_are_named_if_they_differ(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a", [1.0]), make_run(tmp_path / "b", [1.0], env="cartpole")]
    assert names_of(*runs) == ["snake", "cartpole"]
    runs.append(make_run(tmp_path / "c", [1.0], algo="ppo"))
    assert names_of(*runs) == ["dqn on snake", "dqn on cartpole", "ppo on snake"]


def test_a_folder_counts_once_however_it_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", [1.0])
    (group,) = groups_of(run, run.parent / "." / "a", run)
    assert group.folders == (run,)


def test_long_names_are_numbered_so_that_cut_ones_differ(tmp_path: Path) -> None:
    settings = [{"train_steps_ratio": ratio, "target_every": 10 * ratio} for ratio in (1, 2)]
    runs = [make_run(tmp_path / str(i), [1.0], algo_config=s) for i, s in enumerate(settings)]
    names = names_of(*runs)
    assert [name[:3] for name in names] == ["1: ", "2: "]


def test_labels_replace_names(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a", [1.0]), make_run(tmp_path / "b", [1.0], num_envs=8)]
    named = name_groups(find_groups(runs), ["old", "new"])
    assert [group.name for group in named] == ["old", "new"]


def test_a_setting_that_an_older_version_did_not_have_has_its_default(tmp_path: Path) -> None:
    new, old = make_run(tmp_path / "a", [1.0]), make_run(tmp_path / "b", [1.0])
    lines = (old / "config.toml").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("overlap", "double"))]
    assert len(kept) < len(lines)
    (old / "config.toml").write_text("\n".join(kept))
    assert identity(read_settings(new)) == identity(read_settings(old))


def test_settings_of_classes_that_are_not_registered_are_compared_as_they_are(
    tmp_path: Path,
) -> None:
    runs = []
    for number, power in enumerate((1, 2, 2)):
        run = make_run(tmp_path / str(number), [1.0], seed=number)
        text = (run / "config.toml").read_text().replace('algo = "dqn"', 'algo = "mine"')
        (run / "config.toml").write_text(f"{text}\npower = {power}\n")
        runs.append(run)
    settings = [read_settings(run) for run in runs]
    assert len(differing(settings)) == 1
    first, second = groups_of(*runs)
    assert (first.name, second.name) == ("power=1", "power=2")
    assert second.seeds == (1, 2)


@pytest.mark.parametrize("text", ["", "env = 3", "env = [", 'env = "snake"\nalgo = "x"\nseed = []'])
def test_configs_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    run = make_run(tmp_path / "a", [1.0])
    (run / "config.toml").write_text(text)
    with pytest.raises(RunFolderError, match=r"config\.toml cannot be read"):
        find_groups([run])


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a run folder"):
        find_groups([tmp_path])
