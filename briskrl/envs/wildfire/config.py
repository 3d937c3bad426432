"""Settings of the wildfire environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

Side = Annotated[int, Meta(ge=4, le=256)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
NotNegative = Annotated[float, Meta(ge=0)]
Plan = Literal[
    "none",
    "dpv-iterative",
    "dpv-static",
    "local-search",
    "greedy",
    "betweenness",
    "burn-prob",
    "line",
    "random",
]

CHANNELS = (
    "treated",
    "legal",
    "rate",
    "north",
    "east",
    "south",
    "west",
    "flame",
    "slope",
    "aspect_sin",
    "aspect_cos",
    "elevation",
    "burn_prob",
    "budget",
    "value",
)
"""Planes of the full observation, in order."""
EXTRA_CHANNELS = ("fuel", "plan", "downstream")
"""Further planes that can be selected."""
MINIMAL = ("treated", "fuel")
SPLITS = {"train": (0, 10_000), "validation": (10_000, 100), "test": (20_000, 100)}
"""First seed of synthetic landscapes, and how many there are."""


@dataclass(frozen=True, slots=True)
class WildfireConfig:
    """Landscapes, weather, fires, budget, rewards and observation of fuel-break placement."""

    height: Side = 20
    """Rows of the landscape; a landscape file has its own."""
    width: Side = 20
    """Columns of the landscape; a landscape file has its own."""
    source: Literal["synthetic", "landfire"] = "synthetic"
    """Source of landscapes: generated from seeds, or cropped from a real tile (30 m cells)."""
    landscape: str | None = None
    """File of your own landscape: .npz, .asc (a folder of them) or .tif."""
    split: Literal["train", "validation", "test"] = "train"
    """Which landscapes: those for training, for tuning or for the final evaluation."""
    landscapes: Count = 64
    """Number of landscapes of the split that are used; each episode plays one at random."""
    first_landscape: Annotated[int, Meta(ge=0)] = 0
    """Index of the first of them in the split."""
    cell_m: Annotated[float, Meta(gt=0, le=10_000)] = 100.0
    """Side of a cell in meters; LANDFIRE cells are always 30."""
    relief_m: Annotated[float, Meta(ge=0, le=5000)] = 200.0
    """Height difference between the highest and the lowest cell, in meters."""
    relief_scale: Annotated[int, Meta(ge=0, le=64)] = 0
    """Half-width of the blur that makes hills, in cells; 0 means 3, or 4 on large grids."""
    fuels: Annotated[tuple[int, ...], Meta(min_length=1)] = (102, 122, 145, 165, 183)
    """Fuel models of synthetic landscapes, Anderson's 1-13 or Scott and Burgan's 101-204."""
    fuel_weights: tuple[Annotated[float, Meta(gt=0)], ...] = ()
    """Relative frequency of each fuel; unset means equal."""
    patch_scale: Annotated[int, Meta(ge=0, le=64)] = 2
    """Half-width of the blur that makes patches of fuel."""
    nb_frac: Annotated[float, Meta(ge=0, le=0.9)] = 0.03
    """Fraction of cells in lakes."""
    n_lines: Annotated[int, Meta(ge=0, le=100)] = 0
    """Number of straight roads, one cell wide."""
    n_settlements: Annotated[int, Meta(ge=0, le=100)] = 0
    """Number of villages, worth up to 10 per cell."""
    road_ignitions: NotNegative = 1.0
    """How much more likely fires start beside a road than elsewhere."""
    protect_above: NotNegative = 0.0
    """Cells worth more than this must not be treated; 0 protects none."""
    n_weather: Annotated[int, Meta(ge=1, le=256)] = 8
    """Weather scenarios per landscape."""
    wind_kmh: Annotated[float, Meta(ge=0, le=60)] = 20.0
    """Mean wind at 10 m."""
    wind_sd_kmh: Annotated[float, Meta(ge=0, le=60)] = 7.0
    """Standard deviation of the wind."""
    wind_kappa: NotNegative = 2.0
    """Concentration of wind directions around the prevailing one; 0 for any direction."""
    duration_min: Annotated[float, Meta(gt=0, le=100_000)] = 720.0
    """How long a fire burns, in minutes."""
    wind_limit: bool = False
    """Cap the effective wind by the reaction intensity."""
    directions: Literal[8, 16, 32] = 16
    """Directions in which fire spreads from a cell."""
    leaky_diagonals: bool = False
    """Let fire pass between two breaks that touch at a corner."""
    ignition_radius: Annotated[int, Meta(ge=0)] | None = None
    """Start all fires within this number of cells of the center; unset means anywhere."""
    budget_frac: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """Budget: fraction of all cells that may be treated."""
    cells_per_step: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Cells treated in one step; more than one makes an action a list of cells."""
    reward: Literal["delta", "relative", "terminal"] = "delta"
    """Percentage points of burned value that each step avoids; the same relative to the value that
    burns without breaks; or minus the burned percentage at the end."""
    fires: Literal["episode", "round", "fixed", "fresh", "test"] = "episode"
    """Fires that the reward is measured with: drawn per episode; drawn per round, the same for all
    environments in their n-th episode on a landscape; one set per landscape; drawn per step; or the
    held-out set of the evaluation suites."""
    n_fires: Count = 32
    """Fires in a sample."""
    illegal: Literal["noop", "raise"] = "noop"
    """What treating an illegal cell does: spend the budget without effect, or raise an error."""
    illegal_penalty: float = 0.0
    """Added to the reward for each illegal cell; negative to discourage."""
    obs: Literal["full", "minimal"] = "full"
    """Observation: 15 planes, or only treated cells and fuel."""
    obs_channels: tuple[str, ...] = ()
    """Names of the observed planes; overrides obs."""
    obs_fires: Count = 64
    """Fires from which the planes of burn probability and downstream value are computed."""
    plan: Plan = "none"
    """Baseline that fills the plane `plan`: the cell it would treat first has the largest value."""
    plan_fires: Count = 512
    """Training fires that baselines plan with."""
    teacher_plans: Annotated[int, Meta(ge=1, le=4096)] = 1
    """Plans per landscape that a teacher makes, each with other training fires."""
    teacher_keep: Annotated[int, Meta(ge=0, le=4096)] = 0
    """How many of its plans a teacher demonstrates: those with which 1,024 further training fires
    burn least; 0 means all."""
    teacher_fires: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Training fires for each plan of a teacher; 0 means plan_fires."""

    def check(self) -> list[str]:
        """Invalid combinations of settings, one sentence each."""
        wrong = []
        _, count = SPLITS[self.split]
        if self.source == "synthetic" and self.first_landscape + self.landscapes > count:
            wrong.append(
                f"The split {self.split} has {count:,} landscapes; first_landscape "
                f"{self.first_landscape} plus landscapes {self.landscapes} is beyond."
            )
        if self.fuel_weights and len(self.fuel_weights) != len(self.fuels):
            wrong.append(
                f"fuel_weights must be as many as fuels ({len(self.fuels)}), "
                f"not {len(self.fuel_weights)}."
            )
        unknown = [name for name in self.channels if name not in (*CHANNELS, *EXTRA_CHANNELS)]
        if unknown:
            known = ", ".join((*CHANNELS, *EXTRA_CHANNELS))
            wrong.append(f"obs_channels knows no {unknown[0]!r}. Known: {known}.")
        if len(set(self.channels)) < len(self.channels):
            wrong.append("obs_channels names a plane twice.")
        if "plan" in self.channels and self.plan == "none":
            wrong.append("The plane `plan` needs a baseline: set plan, for example dpv-iterative.")
        return wrong

    def for_evaluation(self) -> WildfireConfig:
        """Settings for evaluation: other landscapes, or other fires on a single landscape."""
        if self.landscape is not None or self.landscapes == 1 or self.split != "train":
            return self
        return replace(self, split="validation", landscapes=SPLITS["validation"][1])

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the planes of an observation."""
        if self.obs_channels:
            return self.obs_channels
        return CHANNELS if self.obs == "full" else MINIMAL
