"""The doctor: measures where the time of a training loop goes and which changes make it faster.

`brisk doctor` examines a training of briskrl. For a loop of your own, time its phases with a
`PhaseTimer` and call `diagnose`.
"""

from briskrl.core.phase import PhaseTimer
from briskrl.doctor.custom_loop import diagnose

__all__ = ["PhaseTimer", "diagnose"]
