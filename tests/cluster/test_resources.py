"""Cores and GPUs are given to jobs, shared and taken back; no GPU is needed for that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.cluster.resources import Resources, visible_gpus
from briskrl.core.errors import BriskError


def test_cores_are_taken_until_none_are_free_and_can_be_given_back():
    resources = Resources(3, gpus=())
    first, second = resources.take(2, 0), resources.take(1, 0)
    assert first is not None
    assert second is not None
    assert resources.take(1, 0) is None
    resources.give_back(first)
    assert resources.take(2, 0) is not None


def test_a_job_larger_than_the_machine_takes_all_of_it():
    resources = Resources(2, gpus=())
    grant = resources.take(5, 0)
    assert grant is not None
    assert grant.cores == 2
    assert resources.take(1, 0) is None


def test_jobs_get_different_gpus_and_see_no_others():
    resources = Resources(4, gpus=("A", "B"))
    grants = [resources.take(1, 1.0), resources.take(1, 1.0), resources.take(1, 0.0)]
    seen = [grant.environment()["CUDA_VISIBLE_DEVICES"] for grant in grants if grant]
    assert seen == ["A", "B", ""]
    assert resources.take(1, 0.5) is None


def test_shares_fill_one_gpu_before_the_next():
    resources = Resources(9, gpus=("A", "B"))
    grants = [resources.take(1, 0.5) for _ in range(3)]
    assert [grant.gpus for grant in grants if grant] == [("A",), ("A",), ("B",)]
    assert resources.take(1, 1.0) is None


def test_thirds_of_a_gpu_add_up_to_a_whole_one_again_and_again():
    resources = Resources(9, gpus=("A",))
    for _ in range(1000):
        grants = [resources.take(1, 1 / 3) for _ in range(3)]
        assert resources.take(1, 1 / 3) is None
        for grant in grants:
            assert grant is not None
            resources.give_back(grant)


def test_more_than_one_gpu_means_whole_ones():
    grant = Resources(2, gpus=("A", "B", "C")).take(1, 1.5)
    assert grant is not None
    assert grant.gpus == ("A", "B")


def test_a_job_that_needs_more_gpus_than_there_are_is_refused():
    with pytest.raises(BriskError, match="needs 2 GPUs, and this machine has 1"):
        Resources(2, gpus=("A",)).check("big", 2.0)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 0.25, 0.5, 1, 2])), max_size=30),
    st.randoms(use_true_random=False),
)
def test_nothing_is_given_twice_and_everything_comes_back(wanted, rng):
    resources, held = Resources(4, gpus=("A", "B")), []
    for cores, gpus in wanted:
        grant = resources.take(cores, gpus)
        if grant is not None:
            held.append(grant)
        assert sum(grant.cores for grant in held) <= 4
        for name in ("A", "B"):
            assert sum(grant.share for grant in held if name in grant.gpus) <= 1 + 1e-6
        if held and rng.random() < 0.5:
            resources.give_back(held.pop(rng.randrange(len(held))))
    for grant in held:
        resources.give_back(grant)
    assert resources.take(4, 2) is not None


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("0,1", ("0", "1")),
        (" 2 , GPU-5ebe", ("2", "GPU-5ebe")),
        ("", ()),
        ("-1", ()),
        ("1,-1,0", ("1",)),
    ],
)
def test_visible_gpus_are_read_as_cuda_reads_them(monkeypatch, listed, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert visible_gpus() == names
