"""Where the counters of guarded optimizer steps are."""

from __future__ import annotations

RUN, LONGEST, SKIPPED, DONE, NORMS, COUNTERS = range(6)
"""An optimizer's counters: updates in a row that were not finite, the most of them, how many in
all; updates done, the sum of their norms."""
