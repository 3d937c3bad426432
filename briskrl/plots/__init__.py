"""Charts: learning curves, time per phase, experiments with intervals, ratio curves.

Every chart is a matplotlib `Figure` without pyplot state. matplotlib is imported when a chart is
drawn, not before, and the global rcParams stay as they are.
"""

from briskrl.plots.learning import check_plot_path, learning_curve, ratio_curves
from briskrl.plots.panels import Line, Panel, draw_panels
from briskrl.plots.report import Interval, PhaseBar, experiment_intervals, history_curve, phase_bars
from briskrl.plots.style import PALETTE, inline_svg, save

__all__ = [
    "PALETTE",
    "Interval",
    "Line",
    "Panel",
    "PhaseBar",
    "check_plot_path",
    "draw_panels",
    "experiment_intervals",
    "history_curve",
    "inline_svg",
    "learning_curve",
    "phase_bars",
    "ratio_curves",
    "save",
]
