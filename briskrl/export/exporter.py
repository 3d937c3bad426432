"""Export the policy of a run to a file or folder, and verify what was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from briskrl.core.spec import BoxSpec
from briskrl.core.types import JSON
from briskrl.export import bundle
from briskrl.export.card import card_text
from briskrl.export.onnx_file import OPSET, check_installed, write_onnx
from briskrl.export.runtime import memory_of
from briskrl.export.torchscript import write_torchscript
from briskrl.export.trained_network import TrainedNetwork, network_of
from briskrl.export.verify import (
    OBSERVATIONS,
    Observations,
    bundle_runner,
    collect_observations,
    max_difference,
    onnx_runner,
    torchscript_runner,
)
from briskrl.training.changed_settings import read_config
from briskrl.training.evaluate import EvalResult, TrainedAgent, evaluate_agent, load_trained

Target = Literal["onnx", "torchscript", "bundle"]
NAMES: dict[Target, str] = {"onnx": "policy.onnx", "torchscript": "policy.pt", "bundle": "bundle"}
"""Default name of each kind of export, in the folder export/ of the run."""


@dataclass(frozen=True, slots=True)
class Export:
    """What was written and how it was verified."""

    to: Target
    files: tuple[str, ...]
    observations: int
    origin: str
    """Where the observations come from."""
    max_difference: float
    """Of any output, relative to the largest of its row if that is above 1."""
    evaluation: EvalResult | None

    def as_json(self) -> dict[str, JSON]:
        """The record as a JSON object."""
        return {
            "to": self.to,
            "files": list(self.files),
            "observations": self.observations,
            "origin": self.origin,
            "max_difference": self.max_difference,
            "opset": None if self.to == "torchscript" else OPSET,
            "evaluation": None if self.evaluation is None else self.evaluation.as_json(),
        }


def export_policy(
    run_dir: str | Path,
    *,
    to: Target = "onnx",
    output: str | Path | None = None,
    observations: int = OBSERVATIONS,
    episodes: int = 100,
    seed: int = 0,
    best: bool = False,
    trust: bool = False,
) -> Export:
    """Export the policy of a run.

    Args:
        run_dir: The run folder.
        to: A single ONNX or TorchScript file, or a bundle.
        output: The file or folder; by default in the folder export/ of the run.
        observations: How many observations the export is verified on.
        episodes: Fresh episodes for the scores in a bundle's README; 0 leaves them out.
        seed: Of the observations and the episodes.
        best: Export the policy with the best evaluation during training instead of the newest.
        trust: See `load_policy`.

    Raises:
        ConfigError: A package is missing, or the policy cannot be exported.
        ExportError: The export differs from the policy.
    """
    if to != "torchscript":
        check_installed()
    path = Path(run_dir) / "export" / NAMES[to] if output is None else Path(output)
    if to == "bundle":
        bundle.check_folder(path)
    trained = load_trained(run_dir, best=best, trust=trust)
    network = network_of(trained.agent.policy)
    seen = collect_observations(trained.agent, trained.obs, count=observations, seed=seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    evaluation = None
    if to == "bundle":
        if episodes and trained.agent.env != "given":
            evaluation = evaluate_agent(trained.agent, episodes=episodes, seed=seed)
        has_mask = _has_mask(trained, seen)
        memory = memory_of(str(trained.about["env"]), trained.about["env_config"])
        config = read_config(run_dir)
        card = card_text(trained, config, evaluation, has_mask=has_mask, memory=memory)
        difference = _write_bundle(path, trained, network, seen, card)
        files = tuple(str(path / name) for name in bundle.FILES)
    else:
        difference = _write_file(path, to, trained, network, seen)
        files = (str(path),)
    return Export(to, files, len(seen.obs), seen.origin, difference, evaluation)


def _write_file(
    path: Path, to: Target, trained: TrainedAgent, network: TrainedNetwork, seen: Observations
) -> float:
    has_mask = _has_mask(trained, seen)
    if to == "onnx":
        _write_onnx(path, trained, network, has_mask=has_mask)
        return max_difference(onnx_runner(path), trained, network, seen)
    write_torchscript(path, network, trained.obs, trained.action, has_mask=has_mask)
    return max_difference(torchscript_runner(path), trained, network, seen)


def _write_bundle(
    path: Path,
    trained: TrainedAgent,
    network: TrainedNetwork,
    seen: Observations,
    card: str,
) -> float:
    has_mask = _has_mask(trained, seen)
    draft = bundle.begin_bundle(path)
    bundle.write_policy(draft, trained, network.lower(), network.kind, has_mask=has_mask)
    _write_onnx(draft / bundle.ONNX_FILE, trained, network, has_mask=has_mask)
    (draft / bundle.CARD_FILE).write_text(card, encoding="utf-8")
    runners = bundle_runner(draft), onnx_runner(draft / bundle.ONNX_FILE)
    difference = max(max_difference(run, trained, network, seen) for run in runners)
    bundle.finish_bundle(draft, path)
    return difference


def _write_onnx(
    path: Path, trained: TrainedAgent, network: TrainedNetwork, *, has_mask: bool
) -> None:
    about = trained.about
    notes = {name: str(about[name]) for name in ("env", "algo", "env_steps", "seed")}
    lowered = network.lower()
    write_onnx(
        path,
        lowered,
        trained.obs,
        trained.action,
        network.kind,
        has_mask=has_mask,
        notes=notes,
    )


def _has_mask(trained: TrainedAgent, seen: Observations) -> bool:
    return seen.mask is not None and not isinstance(trained.action, BoxSpec)
