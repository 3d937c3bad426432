"""The Gaussian process over orders."""

from __future__ import annotations

import math

import numpy as np
import pytest

from briskrl.orders.space import WorkflowSpace
from briskrl.workflows import evidence as module
from briskrl.workflows.distances import DISTANCES, distances
from briskrl.workflows.evidence import (
    LENGTHS,
    NOISES,
    GridPoint,
    best_grid_point,
    cholesky,
    evidence_without_order,
)
from briskrl.workflows.surrogate import OrderSurrogate, SurrogateError, SurrogateParameters

THREE = WorkflowSpace("abc").orders
FIVE = WorkflowSpace("abcde").orders


def observed(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random orders, scores and numbers of episodes."""
    rng = np.random.default_rng(seed)
    orders = FIVE[np.sort(rng.permutation(120)[:n])]
    return orders, rng.standard_normal(n) * 7 - 50, rng.integers(50, 400, n).astype(np.float64)


def small_surrogate() -> OrderSurrogate:
    parameters = SurrogateParameters("kendall", 0.75, 0.1, signal=1.0, jitter=0.0)
    return OrderSurrogate(THREE[[0, 5, 2]], np.array([1.0, -1.0, 0.0]), parameters)


def test_posterior_of_three_observations() -> None:
    posterior = small_surrogate().predict(THREE)
    mean = [0.858704, 0.286099, 0.041531, -0.385869, -0.229057, -0.890753]
    std = [0.293631, 0.749175, 0.291379, 0.674434, 0.737426, 0.299039]
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-6)
    np.testing.assert_allclose(posterior.std, std, atol=1e-6)
    bounds = posterior.mean + 2 * posterior.std
    assert bounds.argmax() == 1
    assert bounds.max() == pytest.approx(1.784449, abs=1e-6)


def test_a_hallucinated_observation_shrinks_deviations_and_leaves_means() -> None:
    surrogate = small_surrogate()
    after = surrogate.hallucinate(THREE[[1]])
    std = [0.285898, 0.291337, 0.291337, 0.663107, 0.663107, 0.297347]
    np.testing.assert_allclose(after.predict(THREE).std, std, atol=1e-6)
    np.testing.assert_array_equal(after.predict(THREE).mean, surrogate.predict(THREE).mean)
    assert (after.observations, after.hallucinated) == (3, 1)
    assert surrogate.hallucinated == 0


def test_hallucinating_one_by_one_equals_hallucinating_at_once() -> None:
    orders, scores, episodes = observed(12)
    surrogate = OrderSurrogate.fit(orders, scores, episodes)
    rest = FIVE[[3, 50, 99]]
    single = surrogate
    for order in rest:
        single = single.hallucinate(order[None])
    expected = surrogate.hallucinate(rest).predict(FIVE).std
    np.testing.assert_allclose(single.predict(FIVE).std, expected, rtol=1e-9)


def plain_evidence(
    far: np.ndarray, z: np.ndarray, relative: np.ndarray, length: float, noise: float
) -> float:
    """The definition, with dense linear algebra."""
    n = len(z)
    C = np.exp(-far / length) + np.diag(noise * relative) + 1e-8 * np.eye(n)
    s2 = max(z @ np.linalg.solve(C, z) / n, 1e-3)
    half_log_determinant = np.linalg.slogdet(C)[1] / 2
    penalty = (math.log(length / 0.75) / 0.75) ** 2 + (math.log(noise / 0.1) / 1.2) ** 2
    return -n / 2 * math.log(s2) - half_log_determinant - n / 2 - penalty / 2


def test_the_grid_point_has_the_largest_evidence_by_definition() -> None:
    for seed in range(3):
        orders, scores, episodes = observed(15, seed)
        z = (scores - scores.mean()) / scores.std()
        relative = np.median(episodes) / episodes
        far = distances(orders, orders, "kendall")
        grid = [(length, noise) for length in LENGTHS for noise in NOISES]
        values = [plain_evidence(far, z, relative, *point) for point in grid]
        point = best_grid_point(far, z, relative)
        assert point is not None
        assert (point.length, point.noise) == grid[int(np.argmax(values))]
        assert point.evidence == pytest.approx(max(values), rel=1e-9)


def test_auto_takes_the_kernel_with_the_largest_evidence() -> None:
    orders, scores, episodes = observed(20)
    counts = np.triu(np.random.default_rng(0).integers(0, 90, (5, 5)).astype(float), 1)
    single = {
        kind: OrderSurrogate.fit(orders, scores, episodes, kernel=kind, pair_counts=counts)
        for kind in DISTANCES
    }
    auto = OrderSurrogate.fit(orders, scores, episodes, pair_counts=counts)
    best = max(single.values(), key=lambda surrogate: surrogate.evidence)
    assert auto.parameters == best.parameters
    without = OrderSurrogate.fit(orders, scores, episodes)
    assert without.evidence == max(single[k].evidence for k in DISTANCES if k != "weighted")


def test_the_posterior_equals_dense_linear_algebra() -> None:
    orders, scores, episodes = observed(25)
    surrogate = OrderSurrogate.fit(orders, scores, episodes, kernel="footrule")
    p = surrogate.parameters
    C = np.exp(-distances(orders, orders, "footrule") / p.length_scale)
    C += np.diag(p.noise * np.median(episodes) / episodes + p.jitter)
    k = np.exp(-distances(orders, FIVE, "footrule") / p.length_scale)
    z = (scores - scores.mean()) / scores.std()
    mean = scores.mean() + scores.std() * k.T @ np.linalg.solve(C, z)
    variance = 1 - (k * np.linalg.solve(C, k)).sum(axis=0)
    posterior = surrogate.predict(FIVE)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(
        posterior.std, scores.std() * np.sqrt(p.signal * variance), rtol=1e-7
    )


def test_draws_have_the_moments_of_the_posterior() -> None:
    orders, scores, episodes = observed(10)
    surrogate = OrderSurrogate.fit(orders, scores, episodes)
    rng = np.random.default_rng(1)
    draws = np.array([surrogate.sample(FIVE[:30], rng) for _ in range(4000)])
    posterior = surrogate.predict(FIVE[:30])
    error = posterior.std / math.sqrt(4000)
    assert (np.abs(draws.mean(axis=0) - posterior.mean) < 5 * error).all()
    np.testing.assert_allclose(draws.std(axis=0), posterior.std, rtol=0.08)


def test_more_episodes_bind_the_posterior_more() -> None:
    orders, scores, _ = observed(12)
    episodes = np.full(12, 100.0)
    episodes[4] = 10_000
    parameters = SurrogateParameters("kendall", 0.75, 0.3, signal=1.0)
    surrogate = OrderSurrogate(
        orders, scores, parameters, relative_noise=100 / episodes, center=-50, scale=7
    )
    miss = np.abs(surrogate.predict(orders).mean - scores)
    assert miss[4] < 0.1
    assert surrogate.predict(orders).std.argmin() == 4


@pytest.mark.parametrize("value", [0.0, -500.25, 1e12 + 0.1])
def test_equal_scores_give_their_value_and_finite_deviations(value: float) -> None:
    surrogate = OrderSurrogate.fit(FIVE[:6], np.full(6, value))
    posterior = surrogate.predict(FIVE)
    np.testing.assert_allclose(posterior.mean, value, rtol=1e-9)
    assert (posterior.std > 0).all()
    assert np.isfinite(posterior.std).all()
    assert surrogate.scale == 1


def test_one_observation_and_two_equal_ones_give_finite_numbers() -> None:
    for scores in ([3.0], [3.0, 3.0]):
        posterior = OrderSurrogate.fit(FIVE[: len(scores)], scores).predict(FIVE)
        np.testing.assert_allclose(posterior.mean, 3.0)
        assert np.isfinite(posterior.std).all()


def test_units_of_the_scores_make_no_difference() -> None:
    orders, scores, episodes = observed(20)
    plain = OrderSurrogate.fit(orders, scores, episodes)
    for factor, shift in ((100.0, -500.0), (1e-12, 0.0), (1e9, 1e9)):
        other = OrderSurrogate.fit(orders, scores * factor + shift, episodes)
        assert other.parameters.kernel == plain.parameters.kernel
        assert other.parameters.length_scale == plain.parameters.length_scale
        expected = plain.predict(FIVE).mean * factor + shift
        np.testing.assert_allclose(other.predict(FIVE).mean, expected, rtol=1e-6)


def test_many_observations_are_sampled_for_the_parameters_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def recorded(far: np.ndarray, z: np.ndarray, relative: np.ndarray) -> GridPoint | None:
        sizes.append(len(z))
        return best_grid_point(far, z, relative)

    monkeypatch.setattr("briskrl.workflows.surrogate.MOST_FITTED", 25)
    monkeypatch.setattr("briskrl.workflows.surrogate.best_grid_point", recorded)
    orders, scores, _ = observed(60)
    surrogate = OrderSurrogate.fit(orders, scores)
    assert set(sizes) == {20}
    assert surrogate.observations == 60
    # Orders that were left out of the fit are part of the posterior.
    others = np.arange(60) % 3 > 0
    assert np.corrcoef(surrogate.predict(orders).mean[others], scores[others])[0, 1] > 0.5


def indefinite(n: int = 20) -> np.ndarray:
    """Distances whose exponential is not positive definite at any length, even with noise."""
    rng = np.random.default_rng(0)
    far = np.where(rng.random((n, n)) < 0.5, 0.0, 50.0)
    return np.triu(far, 1) + np.triu(far, 1).T


def test_grid_points_without_a_factor_are_dropped() -> None:
    z = np.random.default_rng(1).standard_normal(20)
    assert best_grid_point(indefinite(), z, np.ones(20)) is None
    # Long lengths and much noise make this one definite.
    point = best_grid_point(indefinite() / 100, z, np.ones(20))
    assert point is not None
    far = np.exp(-indefinite() / 100 / 0.1) + 0.01 * np.eye(20)
    assert np.linalg.eigvalsh(far)[0] < -1e-4


def test_a_larger_jitter_is_used_where_needed() -> None:
    singular = np.ones((3, 3)) - 5e-7 * np.eye(3)
    found = cholesky(singular)
    assert found is not None
    assert found[1] == 1e-6
    assert cholesky(-np.eye(3)) is None


def test_a_covariance_that_cannot_be_factorized_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "briskrl.workflows.surrogate.distances", lambda a, b, *_: indefinite(max(len(a), len(b)))
    )
    orders, scores, _ = observed(20)
    with pytest.raises(SurrogateError, match="No surrogate fits"):
        OrderSurrogate.fit(orders, scores)
    with pytest.raises(SurrogateError, match="is singular"):
        OrderSurrogate(orders, scores, SurrogateParameters("kendall", 1.0, 0.01, 1.0))


def test_evidence_of_one_common_score_is_that_of_independent_noise() -> None:
    rng = np.random.default_rng(0)
    z, relative = rng.standard_normal(9), rng.uniform(0.5, 2, 9)
    residual = z - (z / relative).sum() / (1 / relative).sum()
    s2 = float((residual**2 / relative).mean())
    squares = residual**2 / (s2 * relative)
    log_density = -0.5 * (np.log(2 * math.pi * s2 * relative) + squares).sum()
    constant = -9 / 2 * math.log(2 * math.pi)
    assert evidence_without_order(z, relative) == pytest.approx(log_density - constant)


def test_smallest_signal_bounds_the_variance() -> None:
    point = best_grid_point(distances(THREE, THREE, "kendall"), np.zeros(6), np.ones(6))
    assert point is not None
    assert point.signal == module.SMALLEST_SIGNAL
