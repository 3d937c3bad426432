"""Settings of the wildfire environments, as data; imports nothing heavy."""

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
"""Planes that can be chosen besides."""
MINIMAL = ("treated", "fuel")
SPLITS = {"train": (0, 10_000), "validation": (10_000, 100), "test": (20_000, 100)}
"""First seed of made-up landscapes, and how many there are."""


@dataclass(frozen=True, slots=True)
class WildfireConfig:
    """Landscapes, weather, fires, budget, rewards and observation of fuel-break placement."""

    height: Side = 20
    """Rows of the landscape; a landscape file brings its own."""
    width: Side = 20
    """Columns of the landscape; likewise."""
    source: Literal["synthetic", "landfire"] = "synthetic"
    """Where landscapes come from: made up from seeds, or cut out of a real tile (30 m cells)."""
    landscape: str | None = None
    """File of a landscape of your own: .npz, .asc (a folder of them) or .tif."""
    split: Literal["train", "validation", "test"] = "train"
    """Which landscapes: those for training, for tuning or for the final measurement."""
    landscapes: Count = 64
    """How many landscapes of the split are prepared; each episode plays one of them at random."""
    first_landscape: Annotated[int, Meta(ge=0)] = 0
    """Number of the first of them within the split; with landscapes 1, the only one."""
    cell_m: Annotated[float, Meta(gt=0, le=10_000)] = 100.0
    """Side of a cell in metres; LANDFIRE's are 30 whatever this says."""
    relief_m: Annotated[float, Meta(ge=0, le=5000)] = 200.0
    """Height of the highest cell over the lowest."""
    relief_scale: Annotated[int, Meta(ge=0, le=64)] = 0
    """Half-width of the blur that makes hills; 0 takes 3 cells, or 4 on large grids."""
    fuels: Annotated[tuple[int, ...], Meta(min_length=1)] = (102, 122, 145, 165, 183)
    """Fuel models of made-up landscapes, Anderson's 1-13 or Scott and Burgan's 101-204."""
    fuel_weights: tuple[Annotated[float, Meta(gt=0)], ...] = ()
    """How common each fuel is; unset means equally."""
    patch_scale: Annotated[int, Meta(ge=0, le=64)] = 2
    """Half-width of the blur that makes patches of fuel."""
    nb_frac: Annotated[float, Meta(ge=0, le=0.9)] = 0.03
    """Share of cells in lakes."""
    n_lines: Annotated[int, Meta(ge=0, le=100)] = 0
    """Straight roads, one cell wide."""
    n_settlements: Annotated[int, Meta(ge=0, le=100)] = 0
    """Villages, worth up to 10 a cell."""
    road_ignitions: NotNegative = 1.0
    """How much likelier fires begin beside a road than elsewhere."""
    protect_above: NotNegative = 0.0
    """Cells worth more than this must not be treated; 0 protects none."""
    n_weather: Annotated[int, Meta(ge=1, le=256)] = 8
    """Weather scenarios per landscape."""
    wind_kmh: Annotated[float, Meta(ge=0, le=60)] = 20.0
    """Mean wind at 10 m."""
    wind_sd_kmh: Annotated[float, Meta(ge=0, le=60)] = 7.0
    """Standard deviation of the wind."""
    wind_kappa: NotNegative = 2.0
    """How closely winds keep to the landscape's prevailing direction; 0 for any direction."""
    duration_min: Annotated[float, Meta(gt=0, le=100_000)] = 720.0
    """How long a fire burns, in minutes."""
    wind_limit: bool = False
    """Cap the effective wind by the reaction intensity."""
    directions: Literal[8, 16, 32] = 16
    """Directions in which fire goes from a cell."""
    leaky_diagonals: bool = False
    """Let fire slip between two breaks that touch at a corner."""
    ignition_radius: Annotated[int, Meta(ge=0)] | None = None
    """Begin all fires within so many cells of the centre; unset means anywhere."""
    budget_frac: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """Share of all cells that may be treated."""
    cells_per_step: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Cells treated in one step; more than one makes an action a list of cells."""
    reward: Literal["delta", "relative", "terminal"] = "delta"
    """Percent points of burned area avoided by each step; the same over the untreated area; or
    minus the burned percentage when all is done."""
    fires: Literal["episode", "round", "fixed", "fresh", "test"] = "episode"
    """Which fires count: drawn per episode; drawn per round, the same for all environments in their
    n-th episode on a landscape; one set per landscape; drawn per step; or the held-out set that
    suites measure with."""
    n_fires: Count = 32
    """Fires in a sample."""
    illegal: Literal["noop", "raise"] = "noop"
    """What treating an illegal cell does: spend the budget for nothing, or raise an error."""
    illegal_penalty: float = 0.0
    """Added to the reward for each illegal cell; negative to discourage."""
    obs: Literal["full", "minimal"] = "full"
    """What the agent sees: 15 planes, or treated cells and fuel alone."""
    obs_channels: tuple[str, ...] = ()
    """Names of the planes to see, instead of what obs says."""
    obs_fires: Count = 64
    """Fires behind the planes of burn probabilities and downstream values."""
    plan: Plan = "none"
    """Which baseline fills the plane `plan`: the cell it would treat first is brightest."""
    plan_fires: Count = 512
    """Training fires that baselines plan with."""
    teacher_plans: Annotated[int, Meta(ge=1, le=4096)] = 1
    """Plans per landscape that a baseline makes as a teacher, each with other training fires."""
    teacher_keep: Annotated[int, Meta(ge=0, le=4096)] = 0
    """How many of them it demonstrates: those with which 1,024 more training fires burn least; 0
    demonstrates all."""
    teacher_fires: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Training fires that a teacher makes each plan with; 0 takes plan_fires."""

    def check(self) -> list[str]:
        """Combinations that cannot work, one sentence each."""
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
        """Landscapes that training never saw, if it saw more than one; else other fires."""
        if self.landscape is not None or self.landscapes == 1 or self.split != "train":
            return self
        return replace(self, split="validation", landscapes=SPLITS["validation"][1])

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the planes of an observation."""
        if self.obs_channels:
            return self.obs_channels
        return CHANNELS if self.obs == "full" else MINIMAL
