"""Indices of the counters of SafeAdam, which kernels update as well."""

from __future__ import annotations

RUN, LONGEST, SKIPPED, DONE, NORMS, COUNTERS = range(6)
"""Non-finite updates in a row, the most in a row, and in all; updates done, the sum of the norms of
their gradients; and the number of counters."""
