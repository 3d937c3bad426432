"""Settings of the Snake environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

Side = Annotated[int, Meta(ge=4, le=64)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class SnakeConfig:
    """Board, rules, rewards and observation of a Snake game."""

    height: Side = 10
    """Rows of the board, 4 to 64."""
    width: Side = 10
    """Columns of the board, 4 to 64."""
    obs: Literal["features", "flood", "extended", "grid"] = "features"
    """Observation: features (11), flood (14: plus reachable space), extended (24), or grid."""
    actions: Literal["relative", "absolute"] = "relative"
    """Relative: straight, right, left. Absolute: up, right, down, left."""
    start: Literal["center", "random", "cycle"] = "center"
    """How a game starts: short in the center, short anywhere, or long on a cycle (late game)."""
    start_fill: tuple[Fraction, Fraction] = (0.3, 0.9)
    """Smallest and largest fraction of the board that the snake covers at a cycle start."""
    start_mix: Fraction = 1.0
    """Fraction of games that start on the cycle if start is cycle; others start in the center."""
    tail_rule: Literal["vacates", "solid"] = "vacates"
    """Whether the head may move onto the cell that the tail is just leaving."""
    hunger_limit: Annotated[int, Meta(ge=0)] | None = None
    """Moves without food after which a game is truncated; unset means 2*height*width, 0 never."""
    max_steps: Annotated[int, Meta(ge=0)] = 0
    """Moves after which a game is truncated; 0 means never."""
    reward_death: float = -10.0
    """Reward of a collision."""
    reward_food: float = 10.0
    """Reward of eating food."""
    reward_win: float = 0.0
    """Added to the reward of the food that fills the board."""
    reward_step: float = -0.01
    """Reward of any other move."""
    reward_starved: float = 0.0
    """Added when hunger_limit truncates a game."""
    shaping: float = 0.0
    """Reward for a move toward the food, and penalty for a move away from it."""
    grid_dtype: Literal["float32", "uint8"] = "uint8"
    """Dtype of the planes; uint8 (255 stands for 1) takes a quarter of the memory of float32."""
    grid_frame: Literal["board", "ego"] = "board"
    """Planes in board orientation, or rotated so that the snake heads up (square boards)."""
    grid_center: Literal["board", "head"] = "board"
    """Planes of the board, or twice as large with the head in the center."""
    grid_reachable: bool = False
    """Add a plane of the free cells that the head can reach."""
    mirror: bool = False
    """Mirror half of the games, as data augmentation (relative actions)."""
    masks: bool = False
    """Mask moves that collide at once, so that the agent never takes them."""

    def check(self) -> list[str]:
        """Invalid combinations of settings, one sentence each."""
        wrong = []
        for name in ("height", "width"):
            side = getattr(self, name)
            if not 4 <= side <= 64:
                wrong.append(f"{name} must be 4 to 64, not {side}.")
        if self.start == "cycle":
            wrong += self._check_cycle()
        if self.obs == "grid" and self.grid_frame == "ego" and self.height != self.width:
            wrong.append(
                f'grid_frame "ego" needs a square board, not {self.height}x{self.width}: '
                "rotated planes must keep their shape."
            )
        if self.mirror and self.actions != "relative":
            wrong.append('mirror needs actions "relative": a flip swaps right and left turns.')
        for name in ("hunger_limit", "max_steps"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                wrong.append(f"{name} must be 0 (off) or more, not {limit}.")
        return wrong

    def _check_cycle(self) -> list[str]:
        wrong = []
        low, high = self.start_fill
        if self.height % 2 and self.width % 2:
            wrong.append(
                f'start "cycle" needs an even side, not {self.height}x{self.width}: '
                "an odd board has no cycle through all cells."
            )
        if not 0 <= low <= high <= 1:
            wrong.append(f"start_fill must be two increasing numbers in 0..1, not {low}, {high}.")
        elif self.cycle_lengths[0] > self.cycle_lengths[1]:
            wrong.append(
                f"start_fill {low}, {high} leaves no length between 3 and "
                f"{self.height * self.width - 1} cells."
            )
        if not 0 <= self.start_mix <= 1:
            wrong.append(f"start_mix must be 0 to 1, not {self.start_mix}.")
        return wrong

    @property
    def cells(self) -> int:
        """Number of cells of the board."""
        return self.height * self.width

    @property
    def hunger(self) -> int:
        """The hunger limit as a number; 0 is off."""
        return 2 * self.cells if self.hunger_limit is None else self.hunger_limit

    @property
    def cycle_lengths(self) -> tuple[int, int]:
        """Smallest and largest length at a cycle start."""
        low, high = self.start_fill
        return max(3, int(low * self.cells)), min(self.cells - 1, int(high * self.cells))
