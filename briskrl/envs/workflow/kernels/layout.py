"""Columns of the arrays that track workflows, and numbers of the settings.

`slots` (N, SLOT_SCALARS + pairs + 2 m) int64 holds one row per environment: scalars, then the
counters of the pairs i < j in the order of `numpy.triu_indices`, then per category the steps at
which it was open and the number of its open spells. `sums` (N, 2) float64 holds the sums of an
episode. Records of finished episodes are rows of float64 in the same order, see `records.py`.

An order of categories is packed into one number, four bits per place; the first place is the
lowest. Sets of open categories are masks.
"""

from __future__ import annotations

(
    RNG,
    ORDER,
    ORDER_ID,
    PENDING,
    WANTED,
    ENDED,
    OPEN,
    STEPS,
    OK,
    JUDGED,
    IDLE,
    CONTESTED,
    CONTESTED_OK,
    OPEN_ANY,
) = range(14)
"""Random state; order and its id; the order of the next episode or 0; position in the space of an
order that the kernel could not look up, plus 1; whether the episode has ended without a new one;
open categories before the next action; then counters of the episode."""
SLOT_SCALARS = 14
SUM_RETURN, SUM_BONUS = range(2)

(
    REC_ENV,
    REC_ORDER_ID,
    REC_RETURN,
    REC_BONUS,
    REC_STEPS,
    REC_OK,
    REC_JUDGED,
    REC_IDLE,
    REC_CONTESTED,
    REC_CONTESTED_OK,
    REC_OPEN_ANY,
) = range(11)
REC_SCALARS = 11

# Settings that are whole numbers.
(
    I_CATEGORIES,
    I_MODE,
    I_IDLE,
    I_ENCODING,
    I_WIDTH,
    I_ADAPT_STEPS,
    I_HOLD,
    I_DRAW,
    I_FOCUSED,
    I_TICKS,
    I_BATCH_OK,
    I_BATCH_JUDGED,
    I_WRITTEN,
) = range(13)
"""Categories; alignment mode; idle fixes; encoding and its width; steps between changes of lambda;
whether ended episodes stay; size of the space to draw from, 0 to keep orders; number of orders in
focus; then counters: steps and fixes since the last change of lambda, and records written."""
NUM_INTS = 13
F_LAMBDA, F_VIOLATION, F_NO_FIX, F_ETA, F_THRESHOLD, F_FOCUS_SHARE = range(6)
NUM_FLOATS = 6

OWN_LAMBDA, OWN_OK, OWN_JUDGED = range(3)
"""Columns of the table with a row per order: its lambda, and its fixes since the last change."""
FEWEST_JUDGED = 20
"""Fixes under an order before its own lambda changes: fewer give too noisy a share."""

MODE_NONE, MODE_RATE, MODE_STEP, MODE_ADAPTIVE = range(4)
IDLE_IGNORE, IDLE_COMPLIANT, IDLE_VIOLATION = range(3)
POSITION, PAIRWISE, RANK, NO_ENCODING = range(4)
LAMBDA_LOW, LAMBDA_HIGH = 0.1, 300.0
STEP_FRACTION = 0.1
"""Bonus of one fix as a fraction of lambda, in the modes step and adaptive."""
