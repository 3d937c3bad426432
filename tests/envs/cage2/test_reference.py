"""The compiled network against the reference, step by step."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.ground_truth import Truth
from briskrl.envs.cage2.replay import Choices, replay_step, set_red
from tests.envs.cage2.reference import EXPLOIT, SLEEP, Chance, ReferenceNetwork, mask

AGENTS = ("bline", "meander", "sleep")
WILD = 3
"""A fourth attacker: does anything to any host, to reach what scripted ones never do."""
HABITS = (
    # Fractions of blue's actions: idle, analyse, remove, decoys, restore.
    (1, 1, 1, 1, 1),
    (8, 1, 1, 1, 0),
    (1, 1, 4, 4, 0),
    (2, 0, 2, 8, 1),
    (1, 2, 6, 0, 3),
)


@dataclass
class Pair:
    """One network as a reference, and where its random choices come from."""

    reference: ReferenceNetwork
    rng: random.Random
    habit: tuple[int, ...]
    wild: bool

    def blue(self) -> int:
        kind = self.rng.choices(range(5), self.habit)[0]
        host = self.rng.randrange(13)
        if kind == 0:
            return self.rng.randrange(2)
        first = (2, 15, 28 + 13 * self.rng.randrange(8), 132)[kind - 1]
        return first + host

    def chance(self, green: bool) -> tuple[Chance, tuple[int, int]]:
        """What happens, and red's kind of action and mask of targets in the reference's model."""
        kind, targets = self.reference.think()
        allowed = (kind, mask(set(targets)))
        if self.wild:
            kind = self.rng.choice((1, 2, 2, 3, 3, 3, 4, 5))
            targets = [7] if kind == 5 else list(range(3 if kind == 1 else 13))
        target = self.rng.choice(targets) if kind != SLEEP else -1
        self.reference.commit(kind, target)
        chance = Chance(kind, target, detected=int(self.rng.random() < 0.7))
        options = self.reference.options(target) if kind == EXPLOIT else []
        if options:
            chance.exploit = self.rng.choice(options)
        if green and self.rng.random() < 0.5:
            chance.green = self.rng.choice((8, 9, 10, 11, 12, 1, 2, 3))
        return chance, allowed

    def settle(self, blue: int, chance: Chance) -> None:
        """Decide which session is escalated, among those that are left after blue's action."""
        state = self.reference.hosts[chance.red_target]
        removable = 0 if blue == 15 + chance.red_target else state.removable
        total = removable + state.sticky
        if total:
            chance.esc_pick = int(self.rng.randrange(total) < removable)


def run(edition: str, view: str, *, green: bool, num: int, steps: int, seed: int) -> int:
    """Play `num` networks beside their references; returns how many steps were compared."""
    rng = random.Random(seed)
    agents = [k % 4 for k in range(num)]
    env = Cage2VecEnv(num, edition=edition, view=view, length=steps + 1, scan_memory=True)
    out = StepBuffers.allocate(env.env_spec, num)
    env.start(seed, out)
    set_red(env, [2 if agent == WILD else agent for agent in agents])
    pairs = [
        Pair(
            ReferenceNetwork(
                AGENTS[min(agent, 2)],
                competition=edition == "competition",
                wrapper2=view == "wrapper2",
            ),
            random.Random(rng.random()),
            HABITS[k // 4 % len(HABITS)],
            agent == WILD,
        )
        for k, agent in enumerate(agents)
    ]
    for _ in range(steps):
        blue = [pair.blue() for pair in pairs]
        drawn = [pair.chance(green) for pair in pairs]
        for pair, action, (chance, _) in zip(pairs, blue, drawn, strict=True):
            pair.settle(action, chance)
        chances = [chance for chance, _ in drawn]
        choices = Choices(
            red_action=[c.red_action for c in chances],
            red_target=[c.red_target for c in chances],
            red_exploit=[c.exploit for c in chances],
            detected=[c.detected for c in chances],
            esc_pick=[c.esc_pick for c in chances],
            green_target=[c.green for c in chances],
        )
        allowed = replay_step(env, np.array(blue), choices, out)
        wanted = np.array([model for _, model in drawn])
        np.testing.assert_array_equal(allowed.action, wanted[:, 0])
        np.testing.assert_array_equal(allowed.targets, wanted[:, 1])
        options = [
            mask(set(p.reference.options(c.red_target))) if c.red_action == EXPLOIT else 0
            for p, c in zip(pairs, chances, strict=True)
        ]
        np.testing.assert_array_equal(allowed.exploits, options)
        tenths = [p.reference.step(b, c) for p, b, c in zip(pairs, blue, chances, strict=True)]
        np.testing.assert_array_equal(out.reward, (np.array(tenths) / 10).astype(np.float32))
        np.testing.assert_array_equal(out.obs, [observed(p.reference) for p in pairs])
        compare(env.truth(), [p.reference for p in pairs])
    return num * steps


def observed(reference: ReferenceNetwork) -> list[float]:
    return [*reference.observation(), *reference.scan_memory()]


def compare(truth: Truth, references: list[ReferenceNetwork]) -> None:
    hosts = [reference.hosts for reference in references]
    for name, wanted in {
        "sess_user_removable": [[h.removable for h in row] for row in hosts],
        "sess_user_sticky": [[h.sticky for h in row] for row in hosts],
        "sess_root": [[h.root for h in row] for row in hosts],
        "decoys": [[h.decoys for h in row] for row in hosts],
        "files": [[h.files for h in row] for row in hosts],
        "compromise": [[h.comp for h in row] for row in hosts],
        "red_ports": [[reference.remembered(h) for h in range(13)] for reference in references],
        "ot_running": [reference.ot_running for reference in references],
        "ot_active": [reference.ot_active for reference in references],
        "ot_armed": [reference.ot_armed for reference in references],
        "ot_known": [reference.ot_known for reference in references],
        "known_ip": [mask(reference.known_ip) for reference in references],
        "known_host": [mask(reference.known_host) for reference in references],
        "known_subnet": [mask(reference.known_subnet) for reference in references],
        "meander_scanned": [mask(reference.scanned) for reference in references],
        "meander_exploited": [mask(reference.exploited) for reference in references],
        "meander_escalated": [mask(reference.escalated) for reference in references],
        "meander_mapped": [mask(reference.mapped) for reference in references],
        "bline_stage": [
            reference.stage if reference.agent == "bline" else -1 for reference in references
        ],
        "blue_success": [reference.blue_success for reference in references],
        "red_success": [reference.result for reference in references],
    }.items():
        np.testing.assert_array_equal(getattr(truth, name), wanted, err_msg=name)


CASES = [
    ("current", "table", False),
    ("competition", "table", False),
    ("current", "wrapper2", False),
    ("current", "table", True),
    ("competition", "wrapper2", True),
]


@pytest.mark.parametrize(("edition", "view", "green"), CASES)
def test_kernel_and_reference_agree_in_everything(edition: str, view: str, green: bool) -> None:
    assert run(edition, view, green=green, num=60, steps=100, seed=5) == 6000


@pytest.mark.slow
@pytest.mark.parametrize(("edition", "view", "green"), CASES)
def test_kernel_and_reference_agree_over_a_million_steps(
    edition: str, view: str, green: bool
) -> None:
    compared = sum(
        run(edition, view, green=green, num=400, steps=100, seed=seed) for seed in range(5)
    )
    assert compared == 200_000
