"""`brisk export`: the policy of a run as ONNX, TorchScript or a bundle for a model hub."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from briskrl.cli.flags import BEST, TRUST, Parser, add_flags, flag_layer
from briskrl.cli.output import print_json
from briskrl.cli.targets import find_run
from briskrl.core.config import build

if TYPE_CHECKING:
    from briskrl.export.exporter import Export

EXAMPLES = """\
examples:
  brisk export runs/NAME                          runs/NAME/export/policy.onnx
  brisk export runs/NAME --to bundle --output my-policy
  brisk export runs/NAME --to torchscript --json

onnx         one file with observation scaling, network and action selection. Inputs: obs, and mask
             where the environment has masks. Outputs: action, probabilities (and values for DQN),
             or mean and log_std for continuous actions.
torchscript  the same as a TorchScript module; module(obs) returns the outputs by name.
bundle       a folder: weights (safetensors), policy.json, policy.onnx and a README with scores and
             settings; `briskrl.export.runtime.load_bundle` reads it with NumPy alone.

Every export is run on observations of the environment and compared with the policy of the run; a
difference above 1e-4 is an error (exit code 1)."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of `brisk export`."""

    to: Literal["onnx", "torchscript", "bundle"] = "onnx"
    """What to write."""
    output: str | None = None
    """File or folder to write, also -o; by default in the folder export/ of the run."""
    observations: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    """Observations to verify the export on."""
    episodes: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    """Fresh episodes for the scores in the README of a bundle; 0 leaves them out."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """Seed of the observations and the episodes."""


def run(argv: list[str]) -> int:
    """Export and print what was written."""
    parser = Parser(
        "brisk export", "Export the policy of a run, and verify what was written.", EXAMPLES
    )
    parser.usage = "brisk export RUN [options]"
    parser.add_argument(
        "-o", dest=":output", metavar="PATH", default=argparse.SUPPRESS, help="short for --output"
    )
    parser.add_argument("RUN", help="run folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--best", action="store_true", help=BEST)
    parser.add_argument("--trust", action="store_true", help=TRUST)
    add_flags(parser, ExportOptions)
    args = parser.parse(argv)
    options = build(ExportOptions, flag_layer(args, {"": ExportOptions}).values)
    folder = find_run(args.RUN)
    from briskrl.export.exporter import export_policy

    done = export_policy(
        folder,
        to=options.to,
        output=options.output,
        observations=options.observations,
        episodes=options.episodes,
        seed=options.seed,
        best=args.best,
        trust=args.trust,
    )
    if args.json:
        print_json(done.as_json())
    else:
        print(_describe(done))
    return 0


def _describe(done: Export) -> str:
    lines = [f"wrote {name}" for name in done.files]
    lines.append(
        f"verified on {done.observations:,} {done.origin}: maximum difference "
        f"{done.max_difference:.2g}"
    )
    if done.evaluation is not None:
        result = done.evaluation
        lines.append(f"score {result.mean_score:.2f} over {result.episodes:,} fresh episodes")
    return "\n".join(lines)
