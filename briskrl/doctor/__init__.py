"""The doctor: where the time of a training loop goes, what would help, and the proof.

`brisk doctor` examines our own training. For a loop of your own, put a `PhaseTimer` around its
parts and call `diagnose`.
"""

from briskrl.core.phase import PhaseTimer
from briskrl.doctor.custom_loop import diagnose

__all__ = ["PhaseTimer", "diagnose"]
