"""The best workflow that a search finds, against plain PPO with as many episodes, on CAGE-2.

The question: does it pay to fix the order of repairs and to search for the best one, or does plain
PPO find as good a policy by itself? For every attacker, response probability and seed, one run
searches for the best workflow and trains plain PPO with the same learner and the same number of
episodes. Both are scored on the same closing episodes, which neither the search nor training has
seen. The unit of the intervals is the run: the 95 % bootstrap interval of the mean over seeds.

Scales: `notes` has 2,500 episodes and 25 environments, `full` 100,000 episodes and 200
environments. Cells that are measured already are skipped, and one that was stopped goes on where it
was, so the study can be stopped at any time.

    python benchmarks/workflow_study.py --scale notes --folder study
    python benchmarks/workflow_study.py --folder study --table
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from briskrl.cluster.statistics import aggregate, mean
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.api import search
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.run import resume_run
from briskrl.workflows.run.stop_config import StopConfig

ATTACKERS = ("bline", "meander", "mixed")
PROBABILITIES = (1.0, 0.5, 0.25)
SEEDS = 5
RESULTS = "results.jsonl"
# Fixed here, so that the study does not depend on defaults.
SCALES: dict[str, dict[str, Any]] = {
    "notes": {
        "num_envs": 25,
        "total_episodes": 2_500,
        "max_episodes": 20,
        "eval_episodes": 50,
        "final_eval_episodes": 500,
        "stop": StopConfig(gate_min_episodes=50),
    },
    "full": {
        "num_envs": 200,
        "total_episodes": 100_000,
        "max_episodes": 50,
        "eval_episodes": 200,
        "final_eval_episodes": 1_000,
        "stop": StopConfig(),
    },
}


@dataclass(frozen=True)
class Cell:
    """One run of the study."""

    scale: str
    red: str
    response_prob: float
    seed: int

    @property
    def name(self) -> str:
        """Name of its run folder."""
        return f"{self.scale}-{self.red}-{self.response_prob:g}-{self.seed}"

    def config(self, folder: Path) -> WorkflowConfig:
        """Its settings."""
        return WorkflowConfig(
            seed=self.seed,
            plain_ppo="yes",
            run_dir=str(folder / self.name),
            env_config=WorkflowEnvConfig(
                task_config={"red": self.red, "response_prob": self.response_prob}
            ),
            algo_config={"update_steps": 50, "lr": 1e-3, "lr_schedule": "constant"},
            searcher=SearcherConfig(),
            **SCALES[self.scale],
        )


def main() -> None:
    """Measure what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", choices=SCALES, default="notes")
    parser.add_argument("--folder", type=Path, default=Path("workflow-study"))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--table", action="store_true", help="only print what is measured")
    args = parser.parse_args()
    if not args.table:
        args.folder.mkdir(parents=True, exist_ok=True)
        # Seeds outermost: a study that is stopped early has few seeds of every cell.
        for seed, red, prob in product(range(args.seeds), ATTACKERS, PROBABILITIES):
            measure(Cell(args.scale, red, prob, seed), args.folder)
    print(table(args.folder))


def measure(cell: Cell, folder: Path) -> None:
    """Run a cell, unless its result is there."""
    if any(row["name"] == cell.name for row in rows_of(folder)):
        return
    run = folder / cell.name
    outcome = resume_run(run) if run.exists() else search(cell.config(folder))
    content = outcome.as_json()
    row = {
        "name": cell.name,
        "scale": cell.scale,
        "red": cell.red,
        "response_prob": cell.response_prob,
        "seed": cell.seed,
        "best": content["best"],
        "plain_ppo": content["plain_ppo"],
        "difference": content["best_minus_plain_ppo"],
        "order_matters": content["order_matters"],
        "runner_up_differs": outcome.runner_up_differs,
        "evaluated": content["evaluated"],
        "episodes": content["episodes"],
        "cpu_s": content["cpu_s"],
    }
    with (folder / RESULTS).open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(f"{cell.name}: {row['difference']}", file=sys.stderr, flush=True)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The results so far."""
    path = folder / RESULTS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(folder: Path) -> str:
    """What is measured, as Markdown."""
    head = (
        "| scale | attacker | response probability | seeds | best workflow | plain PPO | "
        "difference | obeyed | contested share | order matters |"
    )
    return "\n".join([head, "|" + " --- |" * 10, *_lines(rows_of(folder))])


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    for scale, red, prob in product(SCALES, ATTACKERS, PROBABILITIES):
        key = (scale, red, prob)
        cell = [r for r in rows if (r["scale"], r["red"], r["response_prob"]) == key]
        if not cell:
            continue
        obeyed = sum(row["best"]["feasible"] for row in cell)
        matters = sum(row["order_matters"] is True for row in cell)
        shares = [row["best"]["contested_share"] or 0.0 for row in cell]
        yield (
            f"| {scale} | {red} | {prob:g} | {len(cell)} | "
            f"{_mean([row['best']['score'] for row in cell])} | "
            f"{_mean([row['plain_ppo']['score'] for row in cell])} | "
            f"{_mean([row['difference']['score'] for row in cell])} | "
            f"{obeyed} of {len(cell)} | {sum(shares) / len(shares):.2f} | "
            f"{matters} of {len(cell)} |"
        )


def _mean(values: list[float]) -> str:
    found = aggregate(values, mean)
    if found.low is None or found.high is None:
        return f"{found.value:.1f}"
    return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"


if __name__ == "__main__":
    main()
