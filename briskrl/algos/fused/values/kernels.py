"""Compiled acting and learning of value networks.

Shapes: K updates of B transitions each, A actions, Z atoms of a return distribution (1: its mean
alone), N environments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from briskrl.algos.fused.value_heads.kernels import (
    best_action,
    join_heads,
    outputs_at,
    part_slopes,
    project,
    softmax,
)
from briskrl.algos.kernels import mix_random_actions
from briskrl.fused.intrinsics import flush_denormals, restore_denormals
from briskrl.fused.kernels import (
    TILE_ROWS,
    apply_gradient,
    backward,
    collect_gradient,
    copy_numbers,
    forward,
    pack,
    take_rows,
)
from briskrl.intrinsics import cycles, exchange_if, look, offer_core, opened, publish
from briskrl.jit import helper, inlined, kernel, sched_yield, usleep
from briskrl.nets.kernels import within


class Transitions(NamedTuple):
    """A Batch as kernels see it."""

    obs: Any
    """(K, B, F)"""
    action: Any
    """(K, B)"""
    reward: Any
    next_obs: Any
    discount: Any
    weight: Any
    next_mask: Any
    """(K, B, A), or (1, 0, 0) if every action is legal."""


class Actor(NamedTuple):
    """Who acts."""

    net: Any
    heads: Any
    reading: Any
    work: Any


@kernel
def act_greedily(actor, obs, mask, draws, epsilon, greedy, out):
    """Write actions (N,): greedy ones for observations (N, F), random ones for a share epsilon."""
    net, heads, reading, work = opened(actor)
    control = flush_denormals()
    for first in range(0, obs.shape[0], TILE_ROWS):
        rows = min(TILE_ROWS, obs.shape[0] - first)
        take_rows(reading, obs, first, rows, work)
        forward(net, net.layers, work, rows)
        join_heads(heads, work.out, rows)
        for r in range(rows):
            greedy[first + r] = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
    mix_random_actions(greedy, draws, epsilon, heads.actions, mask, out)
    restore_denormals(control)


class Lesson(NamedTuple):
    """Everything that updates of a value network are about."""

    online: Any
    """The Net that learns."""
    target: Any
    """The Net that targets come from."""
    heads: Any
    reading: Any
    optimiser: Any
    batch: Any
    """Transitions; the first K of them are learnt from."""
    noise: Any
    """(K, 2, M) noise of online and target net; M is 0 without noisy layers."""
    rules: Any
    """(RULES,) int64"""
    ahead: Any
    """(K, B, A * Z) what the target net says of the next observations."""
    goals: Any
    """(K, B, Z) what transitions teach."""
    errors: Any
    """(K, B) size of each transition's error, written."""
    totals: Any
    """(2,) float64 sum of losses and their number, added to."""
    whole: Any
    """The gradient of a batch that is computed in one part, the first Work's."""
    parts: Any
    """Those of the parts of a batch that is split, the other Works'; two sides take turns."""
    board: Any
    """Where two threads meet, see `learn_together`."""


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


UPDATES, DONE, PERIOD, DOUBLE, WHOLE, FORETOLD, ANNOUNCED, BEGUN, RULES = range(9)
"""Rules: K, updates done before, updates between refreshes of the target (0: none here), whether
the online net chooses the target's action, from which update on batches are split; and what holds
for the next round of updates alone: for how many of them `foretell` did its part, the number under
which they were announced, or 0, and the number under which they were begun."""

(
    ROUND,
    UPDATE,
    ALONE,
    NEXT_ALONE,
    STEPS,
    IN_STEP,
    MINE,
    OWN_DONE,
    PARTNER,
    PARTNER_DONE,
    LEAVE,
    COST_ALONE,
    COST_TOGETHER,
    APART,
    NEXT_APART,
    BOARD_SIZE,
) = (0, 1, 2, 3, 4, 5, 8, 16, 24, 32, 40, 48, 49, 50, 51, 56)
"""Places on the board, those that are written by one thread and watched by another a cache line
apart; see `learn_together`. The partner's copy is in step after IN_STEP of the network's STEPS. The
last ones are about what a partner costs, see `weigh_partner`."""

ABSENT, READY, ENGAGED = range(3)
"""What the partner is."""

LOST = 2_000_000
"""Cycles of waiting after which a partner seems to have lost its core."""
SHORTEST_ALONE, LONGEST_ALONE = 64, 8192
"""Updates that are then done without it: more if that comes again and again."""
SHORTEST_APART, LONGEST_APART = 64, 1024
"""Batches that are not shared while that would take longer than to do without a partner."""
LOOK_AROUND = 512
"""Updates between two that are done alone to see what that costs."""
LOOKS_AWAKE, NAP_US = 2000, 50
"""Looks in vain before naps, and how long those are."""


@helper
def ask_target(lesson, work, k, first, rows):
    """Write what the target net says of rows first..first+rows-1 of update k."""
    target, heads = lesson.target, lesson.heads
    take_rows(lesson.reading, lesson.batch.next_obs[k], first, rows, work)
    forward(target, target.layers, work, rows)
    join_heads(heads, work.out, rows)
    width = lesson.ahead.shape[2]
    for r in range(rows):
        at = outputs_at(heads, r)
        copy_numbers(lesson.ahead[k, first + r], work.out[at : at + width])


@helper
def set_goals(lesson, work, k, first, rows):
    """Write what rows first..first+rows-1 of update k teach."""
    online, heads, batch = lesson.online, lesson.heads, lesson.batch
    atoms = heads.support.shape[0]
    # Without masks this is a matrix of no rows.
    mask = batch.next_mask[min(k, batch.next_mask.shape[0] - 1)]
    if k >= lesson.rules[FORETOLD]:
        ask_target(lesson, work, k, first, rows)
    double = lesson.rules[DOUBLE] != 0
    if double:
        take_rows(lesson.reading, batch.next_obs[k], first, rows, work)
        forward(online, online.layers, work, rows)
        join_heads(heads, work.out, rows)
    for r in range(rows):
        said, goals = lesson.ahead[k, first + r], lesson.goals[k, first + r]
        if double:
            chosen = best_action(heads, work.out, outputs_at(heads, r), mask, first + r)
        else:
            chosen = best_action(heads, said, 0, mask, first + r)
        logits = said[chosen * atoms : (chosen + 1) * atoms]
        reward, discount = batch.reward[k, first + r], batch.discount[k, first + r]
        if atoms == 1:
            goals[0] = reward + discount * logits[0]
        else:
            softmax(logits, logits)
            project(heads, logits, reward, discount, goals)


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
def set_slopes(lesson, work, k, first, rows):
    """Write the loss's slopes at the heads and the errors.

    The mean alone: the Huber loss, whose slope is the error clipped to +-1. A distribution: the
    cross entropy of softmax p against the goal t, whose slope is p - t.
    """
    heads, batch = lesson.heads, lesson.batch
    atoms = heads.support.shape[0]
    out, slope = work.out, work.slope
    share = 1 / batch.obs.shape[1]
    for r in range(rows):
        row = heads.advantage_at + r * heads.advantage_row
        slope[row : row + heads.actions * atoms] = 0
        at = row + batch.action[k, first + r] * atoms
        weight, goals = batch.weight[k, first + r], lesson.goals[k, first + r]
        if atoms == 1:
            error = out[at] - goals[0]
            slope[at] = within(-1.0, error, 1.0) * (weight * share)
            lesson.errors[k, first + r] = abs(error)
        else:
            logits, chances = out[at : at + atoms], slope[at : at + atoms]
            normaliser = softmax(logits, chances)
            surprise = 0.0
            for z in range(atoms):
                surprise -= goals[z] * (logits[z] - normaliser)
                chances[z] = (chances[z] - goals[z]) * (weight * share)
            lesson.errors[k, first + r] = surprise


@helper
def loss_of(lesson, k):
    """The mean loss of update k, told from its errors."""
    errors, weight = lesson.errors[k], lesson.batch.weight[k]
    loss = 0.0
    if lesson.heads.support.shape[0] == 1:
        for r in range(errors.shape[0]):
            error = errors[r]
            loss += weight[r] * (0.5 * error * error if error < 1 else error - 0.5)
    else:
        for r in range(errors.shape[0]):
            loss += weight[r] * errors[r]
    return loss / errors.shape[0]


@helper
def learn_rows(lesson, work, k, begin, end, middle):
    """Compute what rows begin..end-1 of update k add to its gradient; see `backward`."""
    if begin == end:
        work.gradient[:] = 0
        work.flat[:] = 0
    foretold = k < lesson.rules[FORETOLD] and lesson.rules[DOUBLE] == 0
    for first in range(begin, end, TILE_ROWS):
        rows = min(TILE_ROWS, end - first)
        if not foretold:
            set_goals(lesson, work, k, first, rows)
        take_rows(lesson.reading, lesson.batch.obs[k], first, rows, work)
        forward(lesson.online, lesson.online.layers, work, rows)
        join_heads(lesson.heads, work.out, rows)
        set_slopes(lesson, work, k, first, rows)
        part_slopes(lesson.heads, work.slope, rows)
        backward(lesson.online, work, rows, first == begin, middle)


@inlined
def learn_half(lesson, work, k, half):
    """Compute one half of update k's gradient."""
    size = lesson.batch.obs.shape[1]
    learn_rows(lesson, work, k, size * half // 2, size * (half + 1) // 2, 0)


@helper
def use_noise(net, noise):
    """Mix new noise into a network's weights."""
    if noise.shape[0] > 0:
        copy_numbers(net.noise, noise)
        pack(net)


@helper
def apply_parts(lesson, parts, side):
    """Take the step that the parts of a gradient make together."""
    gradients = lesson.optimiser.gradients
    collect_gradient(lesson.online, parts.padded[side], parts.flat[side], gradients)
    apply_gradient(lesson.optimiser)
    pack(lesson.online)


@helper
def bring_in_step(lesson, replica):
    """Make the partner's copy of network and optimiser equal to our own."""
    ours, theirs = lesson.optimiser, replica.optimiser
    copy_numbers(theirs.values, ours.values)
    copy_numbers(theirs.mean, ours.mean)
    copy_numbers(theirs.variance, ours.variance)
    copy_numbers(theirs.count, ours.count)
    copy_numbers(replica.online.packed, lesson.online.packed)


@helper
def go_alone(board):
    """Leave the partner out for a while, for longer if that comes again and again."""
    rounds = max(SHORTEST_ALONE, board[NEXT_ALONE])
    board[ALONE] = rounds
    board[NEXT_ALONE] = min(2 * rounds, LONGEST_ALONE)


@helper
def engage(lesson, replica):
    """Whether the partner takes part in the next update; if so, it is in step with us."""
    board = lesson.board
    if board[APART] > 0 or board[STEPS] % LOOK_AROUND == 0:
        board[APART] = max(0, board[APART] - 1)
        return False
    begin = cycles()
    while board[ALONE] == 0 and look(board, PARTNER) == ENGAGED:
        # It is still busy with the end of the last update.
        if cycles() - begin > LOST:
            go_alone(board)
        sched_yield()
    if board[ALONE] > 0 or not exchange_if(board, PARTNER, READY, ENGAGED):
        board[ALONE] = max(0, board[ALONE] - 1)
        return False
    if board[IN_STEP] != board[STEPS]:
        bring_in_step(lesson, replica)
    board[IN_STEP] = board[STEPS] + 1
    return True


@helper
def weigh_partner(board, together, took):
    """Remember how long updates take, and leave a partner out that costs more than it saves.

    What threads exchange travels from core to core. Virtual cores may be near to each other at one
    time and far apart at another, for seconds each, and then it takes several times as long.
    """
    at = COST_TOGETHER if together else COST_ALONE
    usual = board[at]
    if usual == 0:
        # A partner has a few updates to show what it costs.
        usual = 3 * board[COST_ALONE] // 4 if together else took
    # Who loses its core in between is no measure of anything.
    board[at] = usual + (min(took, 2 * usual) - usual) // 8
    if together:
        board[NEXT_APART] = max(SHORTEST_APART, board[NEXT_APART] - 1)
        if board[COST_TOGETHER] > board[COST_ALONE]:
            board[APART] = board[NEXT_APART]
            board[NEXT_APART] = min(2 * board[NEXT_APART], LONGEST_APART)
            board[COST_TOGETHER] = 0


@inlined
def work_of(side, part):
    """Where a part is computed, unless by the partner."""
    return 1 + 2 * side + part


@inlined
def partners_work(side):
    """Where the partner computes the second part."""
    return 5 + side


@helper
def learn_together(lesson, works, k):
    """Compute half of update k's gradient while an engaged partner computes the other half.

    The partner computes with a copy of the network and of the optimiser, which stays in step
    because both threads apply the same gradients: so only gradients travel between the cores. A
    partner that has lost its core is waited for, and then left out for some time: on a machine that
    has no core to spare it would delay more than it helps.

    Returns:
        Which of two places for gradients was used: the partner may still be reading the other.
    """
    board = lesson.board
    number = board[ROUND] + 1
    side = number % 2
    board[ROUND], board[UPDATE] = number, k
    publish(board, MINE, number)
    learn_half(lesson, works[work_of(side, 0)], k, 0)
    publish(board, OWN_DONE, number)
    begin = cycles()
    while look(board, PARTNER_DONE) < number:
        sched_yield()
    if cycles() - begin > LOST:
        go_alone(board)
    else:
        board[NEXT_ALONE] -= 1
    return side


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


@kernel
def assist(task, signs, at, end, patience):
    """Be the partner of a thread that is in `update_values`.

    Whoever looks in vain for something to do offers its core to others, and naps when that does not
    help.

    Args:
        task: What that thread does, held.
        signs: Numbers that other threads raise.
        at: Which of them tells when to return.
        end: When it has reached this.
        patience: Looks in vain before returning anyway.
    """
    _, replica, works, _ = opened(task)
    control = flush_denormals()
    board = replica.board
    last = look(board, MINE)
    looks = 0
    publish(board, PARTNER, READY)
    while True:
        number = look(board, MINE)
        if number > last:
            last, looks = number, 0
            k, side = board[UPDATE], number % 2
            use_noise(replica.online, replica.noise[k, 0])
            learn_half(replica, works[partners_work(side)], k, 1)
            publish(board, PARTNER_DONE, number)
            while look(board, OWN_DONE) < number:
                sched_yield()
            apply_parts(replica, replica.parts, side)
            publish(board, PARTNER, READY)
        elif looks >= patience or look(signs, at) >= end:
            # Whoever has just been engaged cannot leave.
            if exchange_if(board, PARTNER, READY, ABSENT):
                break
        else:
            looks += 1
            if looks >= LOOKS_AWAKE or board[ALONE] > 0:
                usleep(NAP_US)
            elif offer_core():
                looks = max(looks, LOOKS_AWAKE)
    restore_denormals(control)
