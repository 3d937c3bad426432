"""All Q-network updates that are due, in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.dqn.kernels.paired_threads import (
    ROUND,
    STEPS,
    engage,
    learn_together,
    weigh_partner,
    work_of,
)
from briskrl.algos.dqn.kernels.td_update import (
    ANNOUNCED,
    BEGUN,
    DONE,
    DOUBLE,
    FORETOLD,
    PERIOD,
    UPDATES,
    WHOLE,
    apply_parts,
    ask_target,
    learn_half,
    learn_rows,
    loss_of,
    set_goals,
    use_noise,
)
from briskrl.compiler.atomics import cycles, opened
from briskrl.compiler.denormals import flush_denormals, restore_denormals
from briskrl.compiler.jit import helper, kernel
from briskrl.fused.kernels.packing import copy_numbers, pack
from briskrl.fused.kernels.structs import TILE_ROWS


class Task(NamedTuple):
    """Updates and everything that doing them needs."""

    lesson: Any
    replica: Any
    """The lesson with the partner's network and optimiser."""
    works: Any
    """Where to compute: a Work for whole batches, and where some are split, what `work_of` and
    `partners_work` tell."""
    spare: Any
    """A Work for who does something else meanwhile."""


@kernel
def foretell(task, updates):
    """Do what needs the target net alone, beforehand, for so many updates of a lesson.

    Args:
        task: Held; nobody may be at its lesson, nor change the target net.
        updates: How many of its updates are to come before the target net is refreshed.
    """
    lesson, _, _, work = opened(task)
    control = flush_denormals()
    size = lesson.batch.obs.shape[1]
    for k in range(updates):
        for first in range(0, size, TILE_ROWS):
            rows = min(TILE_ROWS, size - first)
            if lesson.rules[DOUBLE] != 0:
                ask_target(lesson, work, k, first, rows)
            else:
                set_goals(lesson, work, k, first, rows)
    lesson.rules[FORETOLD] = updates
    restore_denormals(control)


@helper
def learn(held, k):
    """Compute update k's gradient, as a whole or in two halves, with a partner if there is one.

    Who computes the halves makes no difference to the result.

    Returns:
        Where its parts are, in which set of them, and whether a partner took part.
    """
    lesson, replica, works, _ = opened(held)
    board, size = lesson.board, lesson.batch.obs.shape[1]
    splits = len(works) > 1 and k >= lesson.rules[WHOLE]
    if splits and engage(lesson, replica):
        return lesson.parts, learn_together(lesson, works, k), True
    if size <= TILE_ROWS or not splits:
        learn_rows(lesson, works[0], k, 0, size, size // 2 if splits else 0)
        return lesson.whole, 0, False
    side = (board[ROUND] + 1) % 2
    for half in range(2):
        learn_half(lesson, works[work_of(side, half)], k, half)
    return lesson.parts, side, False


@helper
def do_update(held, k):
    """Do update k of a task, which is held: taken apart, it would fill the registers and more."""
    lesson = opened(held).lesson
    begin = cycles()
    use_noise(lesson.online, lesson.noise[k, 0])
    use_noise(lesson.target, lesson.noise[k, 1])
    parts, which, together = learn(held, k)
    take_step(lesson, parts, which, k)
    weigh_partner(lesson.board, together, cycles() - begin)


@helper
def take_step(lesson, parts, which, k):
    """Do what is left of update k once its gradient is known."""
    online, target = lesson.online, lesson.target
    done, period = lesson.rules[DONE], lesson.rules[PERIOD]
    apply_parts(lesson, parts, which)
    lesson.board[STEPS] += 1
    lesson.totals[0] += loss_of(lesson, k)
    lesson.totals[1] += 1
    if period > 0 and (done + k + 1) % period == 0:
        copy_numbers(target.values, online.values)
        pack(target)


@kernel
def update_values(held, number):
    """Do the K updates of a task, which is held, in order.

    With a number other than 0 only begin with them: compute the first gradient, which is used if
    they were announced under that number when they are done. Nothing else changes until then.
    """
    lesson = opened(held).lesson
    rules = lesson.rules
    control = flush_denormals()
    if number > 0:
        learn(held, 0)
        rules[BEGUN] = number
    else:
        begun = 0 < rules[ANNOUNCED] == rules[BEGUN]
        for k in range(rules[UPDATES]):
            if k == 0 and begun:
                take_step(lesson, lesson.whole, 0, k)
            else:
                do_update(held, k)
    restore_denormals(control)
