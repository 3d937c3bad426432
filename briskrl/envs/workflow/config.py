"""Settings of an environment with a workflow; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from briskrl.core.config import Setting, Settings

Encoding = Literal["position", "pairwise", "rank"]
AlignmentMode = Literal["rate", "step", "adaptive", "none"]
IdleFix = Literal["ignore", "compliant", "violation"]


@dataclass(frozen=True, slots=True)
class WorkflowEnvConfig:
    """The workflow to obey, how the policy sees it, and the bonus for obeying it."""

    workflow: str | None = None
    """Workflow of all environments: category names joined by >, a well-known name, or an id. By
    default every episode has its own, drawn at random."""
    require: tuple[str, ...] = ()
    """Constraints on workflows, such as op_server>user: the first comes before the second."""
    encoding: Encoding | Literal["none"] = "position"
    """How the workflow is appended to observations: position (a one-hot row per place), pairwise
    (a sign per pair of categories), rank (a number per category), none (not at all)."""
    alignment_mode: AlignmentMode = "rate"
    """Bonus for compliance, added to the reward: rate (lambda times the compliant share of fixes,
    as it changes), step (lambda / 10 per compliant fix, and its negative per violation), adaptive
    (as step, with lambda adapted towards the compliance threshold), none."""
    alignment_lambda: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    """Weight of the bonus (lambda); by default 30 for CAGE-2 and 1 elsewhere."""
    lambda_scope: Literal["shared", "workflow"] = "shared"
    """Whether the mode adaptive has one lambda for all workflows, or one for each, so that those
    that are hard to obey get a larger bonus and the others keep their returns."""
    violation_weight: Annotated[float, Meta(ge=0, le=1000)] = 1.0
    """Weight of violations relative to compliant fixes, in the modes step and adaptive."""
    no_fix_penalty: Annotated[float, Meta(ge=0, le=1000)] = 0.2
    """Fraction of lambda that an episode loses if nothing was fixed although something was open."""
    idle_fix: IdleFix = "ignore"
    """How a fix counts while nothing is open."""
    compliance_threshold: Annotated[float, Meta(gt=0, le=1)] = 0.95
    """Compliance that lambda is adapted to."""
    adapt_rate: Annotated[float, Meta(ge=0, le=100)] = 0.5
    """Step size of the logarithm of lambda, in the mode adaptive."""
    adapt_steps: Annotated[int, Meta(ge=1)] = 50
    """Steps of each environment between two changes of lambda; set it to update_steps."""
    task: str | None = None
    """Address module:name or file.py:name of a function or class that makes the WorkflowTask, for
    environments without a built-in one."""
    task_config: dict[str, Any] = field(default_factory=dict)
    """Settings of the environment itself: comma-separated key=value pairs, or JSON."""
    debug: bool = False
    """Check everything that the task returns in every step."""

    @classmethod
    def resolve_flags(cls, given: Settings) -> Settings:
        """What flags mean in the current folder: the file of a task becomes an absolute path."""
        task = given.get("task")
        if task is None or not isinstance(task.value, str):
            return given
        file, _, name = task.value.rpartition(":")
        if not file.endswith(".py"):
            return given
        return {**given, "task": Setting(f"{Path(file).expanduser().absolute()}:{name}", "--task")}

    def modules(self, env: str) -> tuple[str, ...]:
        """The modules that are imported for the environment `env`, as in workflow:gym:Id."""
        from briskrl.envs.registry import ENVS

        inner = env.partition(":")[2]
        found = tuple(filter(None, [(self.task or "").rpartition(":")[0]]))
        if inner not in ENVS:
            return found
        config = ENVS.get(inner).load_config()(**self.task_config)
        return (*found, *(config.modules(inner) if hasattr(config, "modules") else ()))

    def check(self) -> list[str]:
        """Problems with combinations of settings, one sentence each."""
        wrong = []
        if self.task is not None and not all(self.task.rpartition(":")[::2]):
            wrong.append(f"task {self.task!r} must be like package.module:name.")
        hidden = self.encoding == "none" and self.workflow is None
        if hidden and self.alignment_mode != "none":
            wrong.append(
                "encoding none hides the workflow of an episode from the policy; give one workflow "
                "for all, or alignment_mode none."
            )
        # Evaluations and plain PPO have no bonus, whatever training has.
        if self.lambda_scope == "workflow" and self.alignment_mode in ("rate", "step"):
            wrong.append(
                "lambda_scope = workflow is for alignment_mode = adaptive, not "
                f"{self.alignment_mode}."
            )
        return wrong
