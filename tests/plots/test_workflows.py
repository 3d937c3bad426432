"""Charts of runs under workflows show the data that they are given."""

from __future__ import annotations

import numpy as np

from briskrl.plots.workflows import (
    Expected,
    PairCell,
    ScoredPoint,
    exposure_bars,
    pair_heat_map,
    posterior_curve,
    score_against_compliance,
    search_paths,
)


def lines(figure, gid: str):
    return [line for line in figure.axes[0].lines if line.get_gid() == gid]


def test_workflows_are_dots_by_compliance_and_score():
    points = [
        ScoredPoint("a", 0.97, -20.0, -21.0, -19.0, obeyed=True),
        ScoredPoint("b", 0.80, -10.0, -12.0, -8.0, obeyed=False),
    ]
    figure = score_against_compliance(points, threshold=0.95)
    (good,), (bad,) = lines(figure, "obeyed"), lines(figure, "not-obeyed")
    assert good.get_xydata().tolist() == [[0.97, -20.0]]
    assert bad.get_xydata().tolist() == [[0.80, -10.0]]
    assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b"]


def test_expected_scores_are_a_curve_with_the_evaluated_ones():
    figure = posterior_curve([Expected(-1.0, 0.5, None), Expected(-2.0, 0.1, -2.2)])
    (curve,) = lines(figure, "posterior")
    assert curve.get_ydata().tolist() == [-1.0, -2.0]
    assert figure.axes[0].lines[1].get_xydata().tolist() == [[2.0, -2.2]]


def test_the_heat_map_holds_shares_and_values():
    cells = [PairCell(0, 1, 0.3, 2.5), PairCell(0, 2, 0.0, None), PairCell(1, 2, 0.1, -1.0)]
    figure = pair_heat_map(["a", "b", "c"], cells)
    shares = np.asarray(figure.axes[0].images[0].get_array())
    assert shares[0, 1] == 0.3
    assert [text.get_text() for text in figure.axes[0].texts] == ["+2.5", "-1"]


def test_exposure_is_a_bar_per_category_and_workflow():
    figure = exposure_bars(["a", "b"], {"first": [0.2, 0.4], "second": [0.1, 0.0]})
    widths = [patch.get_width() for patch in figure.axes[0].patches]
    assert widths == [0.2, 0.4, 0.1, 0.0]


def test_a_search_path_is_a_line_per_way_of_searching():
    figure = search_paths({"this": [1.0, 2.0], "random": [0.5]})
    assert next(line.get_ydata() for line in figure.axes[0].lines).tolist() == [1.0, 2.0]
