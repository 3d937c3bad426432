"""The workflow and the counters of every environment of a batch, and how they are saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from briskrl.compiler.packed_args import PackedArgs
from briskrl.core.errors import ConfigError, InvalidStateError
from briskrl.core.state_checks import check_finite, check_range, loaded
from briskrl.core.types import Array, Bools, Floats, Ints
from briskrl.envs.seeding import first_states
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.envs.workflow.kernels import layout as k
from briskrl.envs.workflow.kernels import tracker
from briskrl.envs.workflow.kernels.orders import order_ids, required_categories
from briskrl.envs.workflow.records import ComplianceRecords, new_ring, records_of
from briskrl.envs.workflow.render import Caption
from briskrl.orders import order_arrays
from briskrl.orders.encoding import encoding_width
from briskrl.orders.space import MOST_ENUMERATED, WorkflowSpace

MOST_FOCUSED = 512
"""Orders that can be in focus: a tenth of the largest space that is listed."""
_STREAM = np.uint64(0x5851F42D4C957F2D)
"""Makes the streams of orders differ from those of the environments with the same seeds."""
_MODES = {
    "none": k.MODE_NONE,
    "rate": k.MODE_RATE,
    "step": k.MODE_STEP,
    "adaptive": k.MODE_ADAPTIVE,
}
_IDLE = {
    "ignore": k.IDLE_IGNORE,
    "compliant": k.IDLE_COMPLIANT,
    "violation": k.IDLE_VIOLATION,
}
_ENCODINGS = {
    "position": k.POSITION,
    "pairwise": k.PAIRWISE,
    "rank": k.RANK,
    "none": k.NO_ENCODING,
}
_COUNTER_PLACES = [k.I_TICKS, k.I_BATCH_OK, k.I_BATCH_JUDGED]


class WorkflowSlots:
    """Orders, counters, sums and records of N environments, in arrays that kernels work on.

    Args:
        num_envs: N.
        space: The orders that may be assigned and drawn.
        config: Settings.
        alignment_lambda: Weight of the bonus.
        hold_ended: Keep the counters of ended episodes until the next start.
    """

    def __init__(
        self,
        num_envs: int,
        space: WorkflowSpace,
        config: WorkflowEnvConfig,
        *,
        alignment_lambda: float,
        hold_ended: bool,
    ) -> None:
        m = space.m
        self.space, self.m, self.num_envs = space, m, num_envs
        self.width = 0 if config.encoding == "none" else encoding_width(m, config.encoding)
        self._slots = np.zeros((num_envs, k.SLOT_SCALARS + m * (m - 1) // 2 + 2 * m), np.int64)
        self._sums = np.zeros((num_envs, 2))
        self._ints = np.zeros(k.NUM_INTS, np.int64)
        self._floats = np.zeros(k.NUM_FLOATS)
        self._focus = np.zeros(MOST_FOCUSED, np.int64)
        self.encodings: Floats = np.zeros((num_envs, self.width), np.float32)
        """(N, W): encoding of the order of each environment."""
        self._records = new_ring(num_envs, m)
        own = config.lambda_scope == "workflow"
        self._lambdas = np.zeros((_orders_with_lambda(space) if own else 0, 3))
        self._ids = order_arrays.order_ids(space.orders) if own else None
        self._configure(config, alignment_lambda, hold_ended)
        listed = space.orders if space.is_enumerable else np.zeros((0, m), np.int64)
        self._seeds = np.arange(num_envs, dtype=np.uint64)
        self._drained = 0
        self.packed = PackedArgs(
            tracker.Tracking(
                ints=self._ints,
                floats=self._floats,
                slots=self._slots,
                random=self._slots.reshape(-1).view(np.uint64),
                sums=self._sums,
                space=pack_orders(listed),
                focus=self._focus,
                lambdas=self._lambdas,
                encodings=self.encodings,
                records=self._records,
            )
        )
        """What kernels get."""

    def _configure(
        self, config: WorkflowEnvConfig, alignment_lambda: float, hold_ended: bool
    ) -> None:
        fixed = config.workflow is not None
        for at, number in {
            k.I_CATEGORIES: self.m,
            k.I_MODE: _MODES[config.alignment_mode],
            k.I_IDLE: _IDLE[config.idle_fix],
            k.I_ENCODING: _ENCODINGS[config.encoding],
            k.I_WIDTH: self.width,
            k.I_ADAPT_STEPS: config.adapt_steps,
            k.I_HOLD: hold_ended,
            k.I_DRAW: 0 if fixed else self.space.size,
        }.items():
            self._ints[at] = number
        self._initial_lambda = alignment_lambda
        self._lambdas[:, k.OWN_LAMBDA] = alignment_lambda
        for at, real in {
            k.F_LAMBDA: alignment_lambda,
            k.F_VIOLATION: config.violation_weight,
            k.F_NO_FIX: config.no_fix_penalty,
            k.F_ETA: config.adapt_rate,
            k.F_THRESHOLD: config.compliance_threshold,
        }.items():
            self._floats[at] = real
        if config.workflow is not None:
            order = self.space.parse(config.workflow).order
            self._slots[:, k.ORDER] = pack_orders(np.array([order]))
            order_ids(self._slots[:, k.ORDER].copy(), self.m, self._slots[:, k.ORDER_ID])

    @property
    def alignment_lambda(self) -> float:
        """The present weight of the bonus, or its mean over the orders of the space.

        Changes in the mode adaptive only.
        """
        if self._ids is not None:
            return float(self._lambdas[self._ids, k.OWN_LAMBDA].mean())
        return float(self._floats[k.F_LAMBDA])

    @property
    def current(self) -> Ints:
        """Ids (N,) of the orders that the environments follow now; a copy."""
        return self._slots[:, k.ORDER_ID].copy()

    @property
    def required(self) -> Ints:
        """(N,): the category that must be handled next, -1 if none is open."""
        found = np.empty(self.num_envs, np.int64)
        orders, opened = self._slots[:, k.ORDER].copy(), self._slots[:, k.OPEN].copy()
        required_categories(orders, self.m, opened, found)
        return found

    def caption(self, env: int) -> Caption:
        """What is drawn of an environment."""
        row = self._slots[env]
        order = unpack_orders(row[k.ORDER, None], self.m)[0].tolist()
        return Caption(
            names=tuple(self.space.categories[category] for category in order),
            opened=tuple(bool(row[k.OPEN] >> category & 1) for category in order),
            ok=int(row[k.OK]),
            judged=int(row[k.JUDGED]),
        )

    def assign(self, slots: ArrayLike, ids: ArrayLike) -> None:
        """Let environments follow other orders from their next episode on."""
        slots = np.asarray(slots, np.int64).reshape(-1)
        wanted = np.broadcast_to(np.asarray(ids, np.int64), slots.shape)
        kinds, places = np.unique(wanted, return_inverse=True)
        orders = np.array([self.space.from_id(int(number)).order for number in kinds])
        self._slots[slots, k.PENDING] = pack_orders(orders.reshape(-1, self.m))[places]

    def draw_from(self, focus: Sequence[int], share: float = 0.5) -> None:
        """Draw the order of each new episode, with probability `share` one of these ids.

        Raises:
            ValueError: There are more than MOST_FOCUSED ids.
        """
        if len(focus) > MOST_FOCUSED:
            raise ValueError(f"at most {MOST_FOCUSED} workflows can be in focus, not {len(focus)}")
        orders = np.array([self.space.from_id(int(number)).order for number in focus], np.int64)
        self._focus[: len(focus)] = pack_orders(orders.reshape(-1, self.m))
        self._ints[k.I_FOCUSED], self._floats[k.F_FOCUS_SHARE] = len(focus), share
        self._ints[k.I_DRAW] = self.space.size

    def start(self, seed: int, opened: Array) -> None:
        """Begin episodes everywhere, env i with the random stream of seed + i."""
        seeds = self._seeds + np.uint64(seed % 2**64)
        self._slots[:, k.RNG] = first_states(seeds ^ _STREAM).view(np.int64)
        self._ints[_COUNTER_PLACES] = 0
        self._ints[k.I_WRITTEN] = self._drained = 0
        self._floats[k.F_LAMBDA] = self._initial_lambda
        self._lambdas[:] = (self._initial_lambda, 0, 0)
        tracker.begin_slots(self.packed, opened, np.ones(self.num_envs, np.bool_))
        if not self.space.is_enumerable:
            self.look_up()
        tracker.encode_slots(self.packed)

    def look_up(self) -> None:
        """Give an order to the environments whose draw the kernel could not look up."""
        envs = np.flatnonzero(self._slots[:, k.WANTED])
        if len(envs):
            orders = self.space.orders_at(self._slots[envs, k.WANTED] - 1)
            tracker.set_orders(self.packed, envs, pack_orders(orders))

    def drain(self) -> ComplianceRecords:
        """Episodes finished since the last call; the oldest are lost beyond the ring's size."""
        written, size = int(self._ints[k.I_WRITTEN]), len(self._records)
        first = max(self._drained, written - size)
        rows = self._records[np.arange(first, written) % size]
        self._drained = written
        return records_of(rows, self.m)

    def state(self) -> dict[str, Array]:
        """Everything that decides the future; copies."""
        return {
            "slots": self._slots.copy(),
            "sums": self._sums.copy(),
            "counters": self._ints[_COUNTER_PLACES],
            "lambda": self._floats[[k.F_LAMBDA, k.F_FOCUS_SHARE]],
            "focus": self._focus.copy(),
            **({"lambdas": self._lambdas.copy()} if len(self._lambdas) else {}),
            "draw": self._ints[[k.I_DRAW, k.I_FOCUSED]],
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Continue from what `state` returned.

        Raises:
            InvalidStateError: It is a state of other settings or impossible; nothing has changed.
        """
        like = self.state()
        found = {name: loaded(state, name, array) for name, array in like.items()}
        self._check(found)
        self._slots[...], self._sums[...] = found["slots"], found["sums"]
        self._ints[_COUNTER_PLACES] = found["counters"]
        self._floats[[k.F_LAMBDA, k.F_FOCUS_SHARE]] = found["lambda"]
        self._focus[...] = found["focus"]
        if len(self._lambdas):
            self._lambdas[...] = found["lambdas"]
        self._ints[[k.I_DRAW, k.I_FOCUSED]] = found["draw"]
        self._ints[k.I_WRITTEN] = self._drained = 0
        tracker.encode_slots(self.packed)

    def _check(self, found: Mapping[str, Array]) -> None:
        slots, focus, draw = found["slots"], found["focus"], found["draw"]
        check_range("workflow: counters", slots[:, k.WANTED :], 0, 2**53)
        check_range("workflow: ended", slots[:, k.ENDED], 0, 1)
        check_range("workflow: id", slots[:, k.ORDER_ID], 0, factorial(self.m) - 1)
        check_range("workflow: open", slots[:, k.OPEN], 0, (1 << self.m) - 1)
        check_range("workflow: batch counters", found["counters"], 0, 2**53)
        check_finite("workflow: sums", found["sums"])
        check_range("workflow: lambda", found["lambda"], 0, 1e6)
        if len(self._lambdas):
            check_range("workflow: lambdas", found["lambdas"], 0, 2**53)
        check_range("workflow: draw", draw[:1], 0, self.space.size)
        check_range("workflow: focus", draw[1:], 0, MOST_FOCUSED)
        check_orders("workflow: order", slots[:, k.ORDER], self.m)
        pending = slots[:, k.PENDING]
        check_orders("workflow: pending order", pending[pending != 0], self.m)
        check_orders("workflow: order in focus", focus[: int(draw[1])], self.m)


def _orders_with_lambda(space: WorkflowSpace) -> int:
    """How many orders get a lambda of their own.

    Raises:
        ConfigError: They are too many.
    """
    count = factorial(space.m)
    if count > MOST_ENUMERATED:
        raise ConfigError(
            f"lambda_scope = workflow is for at most {MOST_ENUMERATED} orders, and {space.m} "
            f"categories have {count}. Use lambda_scope = shared."
        )
    return count


def pack_orders(orders: Ints) -> Ints:
    """Orders (n, m) as packed numbers (n,)."""
    shifts = 4 * np.arange(orders.shape[1])
    packed: Ints = (orders.astype(np.int64) << shifts).sum(axis=1)
    return packed


def unpack_orders(packed: Ints, m: int) -> Ints:
    """Packed numbers (n,) as orders (n, m)."""
    orders: Ints = packed[:, None] >> 4 * np.arange(m) & 15
    return orders


def check_orders(name: str, packed: Ints, m: int) -> None:
    """Check packed numbers from a file.

    Raises:
        InvalidStateError: One is not an order of m categories.
    """
    orders = unpack_orders(packed, m)
    wrong: Bools = (np.sort(orders, axis=1) != np.arange(m)).any(axis=1)
    wrong |= packed >> 4 * m != 0
    if wrong.any():
        raise InvalidStateError(f"{name}: {packed[wrong][0]} is not an order of {m} categories")
