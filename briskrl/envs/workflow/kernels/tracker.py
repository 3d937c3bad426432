"""Judge the steps of a batch: counters, bonus, records, and the orders of new episodes.

Judging follows the step itself. The open categories that a step is judged by were read after the
step before, which is the state that its action was chosen in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.compiler.packed_args import unpack
from briskrl.envs.kernels.rng import draw_real, draw_word
from briskrl.envs.workflow.kernels.layout import (
    CONTESTED,
    CONTESTED_OK,
    ENDED,
    F_ETA,
    F_FOCUS_SHARE,
    F_LAMBDA,
    F_NO_FIX,
    F_THRESHOLD,
    F_VIOLATION,
    FEWEST_JUDGED,
    I_ADAPT_STEPS,
    I_BATCH_JUDGED,
    I_BATCH_OK,
    I_CATEGORIES,
    I_DRAW,
    I_ENCODING,
    I_FOCUSED,
    I_HOLD,
    I_IDLE,
    I_MODE,
    I_TICKS,
    I_WRITTEN,
    IDLE,
    IDLE_COMPLIANT,
    IDLE_IGNORE,
    JUDGED,
    LAMBDA_HIGH,
    LAMBDA_LOW,
    MODE_ADAPTIVE,
    MODE_NONE,
    MODE_RATE,
    OK,
    OPEN,
    OPEN_ANY,
    ORDER,
    ORDER_ID,
    OWN_JUDGED,
    OWN_LAMBDA,
    OWN_OK,
    PENDING,
    REC_BONUS,
    REC_ENV,
    REC_ORDER_ID,
    REC_RETURN,
    REC_STEPS,
    RNG,
    SLOT_SCALARS,
    STEP_FRACTION,
    STEPS,
    SUM_BONUS,
    SUM_RETURN,
    WANTED,
)
from briskrl.envs.workflow.kernels.orders import (
    order_id,
    required_category,
    write_encoding,
)

_HIGH_WORD = np.uint64(32)


class Tracking(NamedTuple):
    """The arrays of a batch that stay the same from step to step."""

    ints: np.ndarray
    """(NUM_INTS,) int64"""
    floats: np.ndarray
    """(NUM_FLOATS,) float64"""
    slots: np.ndarray
    """(N, ...) int64; see `layout.py`."""
    random: np.ndarray
    """The same memory, flat and as uint64."""
    sums: np.ndarray
    """(N, 2) float64"""
    space: np.ndarray
    """(S,) int64: packed orders to draw from; empty if there are too many to list."""
    focus: np.ndarray
    """(F,) int64: packed orders that are drawn more often."""
    lambdas: np.ndarray
    """(m!, 3) float64: lambda of each order, see `layout.py`; empty if all have the same."""
    encodings: np.ndarray
    """(N, W) float32: encoding of each env's order."""
    records: np.ndarray
    """(R, ...) float64: ring of finished episodes."""


@inline_helper
def verdict(order, m, open_mask, addressed, idle_rule):
    """How a step counts: 1 compliant, 0 violation, -1 not judged."""
    if addressed < 0:
        return -1
    if open_mask == 0:
        if idle_rule == IDLE_IGNORE:
            return -1
        return 1 if idle_rule == IDLE_COMPLIANT else 0
    return 1 if required_category(order, m, open_mask) == addressed else 0


@helper
def count_fix(row, m, open_mask, addressed, judgement):
    """Add a step with an addressed category to the counters of an episode."""
    if open_mask == 0:
        row[IDLE] += 1
    if judgement < 0:
        return
    row[JUDGED] += 1
    row[OK] += judgement
    if open_mask & (open_mask - 1) == 0:
        return
    row[CONTESTED] += 1
    row[CONTESTED_OK] += judgement
    at = SLOT_SCALARS
    for first in range(m):
        for second in range(first + 1, m):
            row[at] += (open_mask >> first) & (open_mask >> second) & 1
            at += 1


@inline_helper
def count_open_step(row, m):
    """Count the categories that are open before a step."""
    at = SLOT_SCALARS + m * (m - 1) // 2
    row[OPEN_ANY] += 1
    for category in range(m):
        row[at + category] += (row[OPEN] >> category) & 1


@inline_helper
def note_open(row, m, opened, begun):
    """Note the categories that are open now, of which some have just become so."""
    row[OPEN] = opened
    if begun:
        at = SLOT_SCALARS + m * (m - 1) // 2 + m
        for category in range(m):
            row[at + category] += (begun >> category) & 1


@inline_helper
def share(ok, judged):
    """Compliant share of the judged fixes; 0 before the first one."""
    return ok / judged if judged > 0 else 0.0


@inline_helper
def lambda_of(t, row):
    """Weight of the bonus under the order that an env follows."""
    if len(t.lambdas) > 0:
        return t.lambdas[row[ORDER_ID], OWN_LAMBDA]
    return t.floats[F_LAMBDA]


@inline_helper
def bonus_of(t, row, judgement):
    """The bonus of a step that has just been counted."""
    mode = t.ints[I_MODE]
    if judgement < 0 or mode == MODE_NONE:
        return 0.0
    weight = lambda_of(t, row)
    if mode == MODE_RATE:
        ok, judged = row[OK], row[JUDGED]
        return weight * (share(ok, judged) - share(ok - judgement, judged - 1))
    size = STEP_FRACTION * weight
    return size if judgement == 1 else -t.floats[F_VIOLATION] * size


@inline_helper
def closing_bonus(t, row):
    """The penalty of an episode without a judged fix although something was open."""
    if t.ints[I_MODE] == MODE_NONE or row[JUDGED] > 0 or row[OPEN_ANY] == 0:
        return 0.0
    return -lambda_of(t, row) * t.floats[F_NO_FIX]


@helper
def write_record(ints, records, row, sums, i):
    """Append a finished episode to the ring of records."""
    record = records[ints[I_WRITTEN] % len(records)]
    ints[I_WRITTEN] += 1
    record[REC_ENV] = i
    record[REC_ORDER_ID] = row[ORDER_ID]
    record[REC_RETURN] = sums[SUM_RETURN]
    record[REC_BONUS] = sums[SUM_BONUS]
    # From the steps on, records have the columns of slots.
    for column in range(len(record) - REC_STEPS):
        record[REC_STEPS + column] = row[STEPS + column]


@helper
def draw_order(t, i):
    """Draw an order for a new episode; 0 if it has to be looked up, with its position noted."""
    ints, row = t.ints, t.slots[i]
    at = i * t.slots.shape[1] + RNG
    if ints[I_FOCUSED] > 0 and draw_real(t.random, at) < t.floats[F_FOCUS_SHARE]:
        number = (draw_word(t.random, at) >> _HIGH_WORD) * np.uint64(ints[I_FOCUSED])
        return t.focus[np.int64(number >> _HIGH_WORD)]
    number = (draw_word(t.random, at) >> _HIGH_WORD) * np.uint64(ints[I_DRAW])
    position = np.int64(number >> _HIGH_WORD)
    if len(t.space) == 0:
        row[WANTED] = position + 1
        return np.int64(0)
    return t.space[position]


@helper
def begin_slot(t, i):
    """Begin an episode: empty counters, and the pending order or a new one."""
    ints, row = t.ints, t.slots[i]
    m = ints[I_CATEGORIES]
    row[WANTED] = 0
    row[ENDED] = 0
    row[STEPS:] = 0
    t.sums[i, :] = 0.0
    order = row[PENDING]
    row[PENDING] = 0
    if order == 0 and ints[I_DRAW] > 0:
        order = draw_order(t, i)
    if order != 0:
        set_order(t, i, m, order)


@helper
def set_order(t, i, m, order):
    """Let an env follow an order from now on."""
    t.slots[i, ORDER] = order
    t.slots[i, ORDER_ID] = order_id(order, m)
    write_encoding(order, m, t.ints[I_ENCODING], t.encodings[i])


@inline_helper
def mask_of(opened, i, m):
    """The open categories of an env as a mask."""
    mask = 0
    for category in range(m):
        mask |= np.int64(opened[i, category]) << category
    return mask


@inline_helper
def join(obs, encoding, out, i):
    """Write an observation and an encoding side by side."""
    width = obs.shape[1]
    for k in range(width):
        out[i, k] = obs[i, k]
    for k in range(len(encoding)):
        out[i, width + k] = encoding[k]


@kernel
def begin_slots(packed, opened, which):
    """Begin episodes in the envs `which` (N,), whose open categories are `opened` (N, m)."""
    t = unpack(packed)
    for i in range(len(which)):
        if which[i]:
            begin_slot(t, i)
            mask = mask_of(opened, i, t.ints[I_CATEGORIES])
            note_open(t.slots[i], t.ints[I_CATEGORIES], mask, mask)


@kernel
def set_orders(packed, envs, orders):
    """Let envs (M,) follow packed orders (M,) from now on."""
    t = unpack(packed)
    for k in range(len(envs)):
        t.slots[envs[k], WANTED] = 0
        set_order(t, envs[k], t.ints[I_CATEGORIES], orders[k])


@kernel
def encode_slots(packed):
    """Recompute what is derived from the slots: the encodings."""
    t = unpack(packed)
    for i in range(len(t.slots)):
        write_encoding(t.slots[i, ORDER], t.ints[I_CATEGORIES], t.ints[I_ENCODING], t.encodings[i])


@kernel
def join_obs(packed, obs, out):
    """Write observations (N, n) and encodings side by side to `out` (N, n + W)."""
    t = unpack(packed)
    for i in range(len(obs)):
        join(obs, t.encodings[i], out, i)


@inline_helper
def adapted(floats, weight, ok, judged):
    """Lambda after a batch: larger if too few of the fixes were compliant."""
    missing = floats[F_THRESHOLD] - ok / judged
    changed = weight * np.exp(floats[F_ETA] * missing)
    return min(max(changed, LAMBDA_LOW), LAMBDA_HIGH)


@helper
def adapt_lambda(t):
    """Count a step of the batch, and change lambda when it is time."""
    ints, floats = t.ints, t.floats
    ints[I_TICKS] += 1
    if ints[I_TICKS] < ints[I_ADAPT_STEPS]:
        return
    ok, judged = ints[I_BATCH_OK], ints[I_BATCH_JUDGED]
    if judged > 0:
        floats[F_LAMBDA] = adapted(floats, floats[F_LAMBDA], ok, judged)
    for own in t.lambdas:
        if own[OWN_JUDGED] >= FEWEST_JUDGED:
            own[OWN_LAMBDA] = adapted(floats, own[OWN_LAMBDA], own[OWN_OK], own[OWN_JUDGED])
            own[OWN_OK] = own[OWN_JUDGED] = 0.0
    ints[I_TICKS] = 0
    ints[I_BATCH_OK] = 0
    ints[I_BATCH_JUDGED] = 0


@inline_helper
def count_for_lambda(t, row, judgement):
    """Count a judged fix for the next change of lambda."""
    if judgement < 0:
        return
    t.ints[I_BATCH_JUDGED] += 1
    t.ints[I_BATCH_OK] += judgement
    if len(t.lambdas) > 0:
        t.lambdas[row[ORDER_ID], OWN_JUDGED] += 1
        t.lambdas[row[ORDER_ID], OWN_OK] += judgement


@inline_helper
def judge_env(t, i, addressed, reward, ended):
    """Count and judge the step of one env; adds the bonus to its reward."""
    ints, row = t.ints, t.slots[i]
    m, before = ints[I_CATEGORIES], row[OPEN]
    t.sums[i, SUM_RETURN] += np.float64(reward[i])
    row[STEPS] += 1
    bonus = 0.0
    if addressed[i] >= 0:
        judgement = verdict(row[ORDER], m, before, addressed[i], ints[I_IDLE])
        count_fix(row, m, before, addressed[i], judgement)
        bonus = bonus_of(t, row, judgement)
        count_for_lambda(t, row, judgement)
    if ended:
        bonus += closing_bonus(t, row)
    if bonus != 0.0:
        t.sums[i, SUM_BONUS] += bonus
        reward[i] += np.float32(bonus)


@kernel
def judge(packed, opened, addressed, obs, final_obs, reward, terminated, truncated, out, final_out):
    """Judge one step of all envs and write their observations with encodings.

    `opened` (N, m) are the open categories after the step, of the new episode where one ended;
    `addressed` (N,) int8 the category that the step worked on, or -1. Observations (N, n) are
    copied to `out` and `final_out` (N, n + W). Returns how many envs wait for `set_orders`.
    """
    t = unpack(packed)
    ints, slots = t.ints, t.slots
    m, wanted = ints[I_CATEGORIES], 0
    for i in range(len(slots)):
        row = slots[i]
        if row[ENDED]:
            continue
        ended = terminated[i] or truncated[i]
        if row[OPEN]:
            count_open_step(row, m)
        judge_env(t, i, addressed, reward, ended)
        if ended:
            join(final_obs, t.encodings[i], final_out, i)
            write_record(ints, t.records, row, t.sums[i], i)
            if ints[I_HOLD]:
                row[ENDED] = 1
            else:
                begin_slot(t, i)
                wanted += row[WANTED] != 0
        after = mask_of(opened, i, m)
        note_open(row, m, after, after if ended else after & ~row[OPEN])
        join(obs, t.encodings[i], out, i)
    if ints[I_MODE] == MODE_ADAPTIVE:
        adapt_lambda(t)
    return wanted
