"""Charts: learning curves, groups of runs, time per phase, experiments, ratio curves.

Every chart is a matplotlib `Figure` without pyplot state. matplotlib is imported when a chart is
drawn, not before, and the global rcParams stay as they are.
"""

from briskrl.plots.groups import ScoreRow, curves_and_scores, importance_bars, score_intervals
from briskrl.plots.learning import (
    check_plot_path,
    learning_curve,
    ratio_curves,
    write_chart,
)
from briskrl.plots.panels import Line, Panel, draw_panels
from briskrl.plots.report import Interval, PhaseBar, experiment_intervals, history_curve, phase_bars
from briskrl.plots.style import PALETTE, inline_svg, save

__all__ = [
    "PALETTE",
    "Interval",
    "Line",
    "Panel",
    "PhaseBar",
    "ScoreRow",
    "check_plot_path",
    "curves_and_scores",
    "draw_panels",
    "experiment_intervals",
    "history_curve",
    "importance_bars",
    "inline_svg",
    "learning_curve",
    "phase_bars",
    "ratio_curves",
    "save",
    "score_intervals",
    "write_chart",
]
