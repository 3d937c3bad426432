"""Fast reinforcement-learning training on CPUs.

The names in `__all__` are the public interface. Each is imported on first use, so that
`import briskrl` is instant and imports neither torch nor numba nor gymnasium.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from briskrl.algos.dqn.config import DQNConfig as DQNConfig
    from briskrl.algos.ppo.config import PPOConfig as PPOConfig
    from briskrl.algos.pqn.config import PQNConfig as PQNConfig
    from briskrl.core.errors import BriskError as BriskError
    from briskrl.core.errors import ConfigError as ConfigError
    from briskrl.core.errors import DivergedError as DivergedError
    from briskrl.core.errors import EnvStepError as EnvStepError
    from briskrl.core.errors import EnvWorkerError as EnvWorkerError
    from briskrl.core.errors import RunFolderError as RunFolderError
    from briskrl.core.errors import StorageError as StorageError
    from briskrl.core.phase import PhaseTimer as PhaseTimer
    from briskrl.doctor import diagnose as diagnose
    from briskrl.envs.cage2.config import Cage2Config as Cage2Config
    from briskrl.envs.cartpole.config import CartPoleConfig as CartPoleConfig
    from briskrl.envs.gym.config import GymConfig as GymConfig
    from briskrl.envs.gym_ids import register_envs as register_envs
    from briskrl.envs.make import make_env as make_env
    from briskrl.envs.ordered_visit.config import OrderedVisitConfig as OrderedVisitConfig
    from briskrl.envs.snake.config import SnakeConfig as SnakeConfig
    from briskrl.envs.wildfire.config import WildfireConfig as WildfireConfig
    from briskrl.envs.workflow.config import WorkflowEnvConfig as WorkflowEnvConfig
    from briskrl.envs.workflow.env import WorkflowVecEnv as WorkflowVecEnv
    from briskrl.envs.workflow.task import ActionTableTask as ActionTableTask
    from briskrl.envs.workflow.task import EventTask as EventTask
    from briskrl.export.load import load_policy as load_policy
    from briskrl.orders.space import WorkflowSpace as WorkflowSpace
    from briskrl.orders.workflow import Workflow as Workflow
    from briskrl.training.callbacks import EvaluateEvery as EvaluateEvery
    from briskrl.training.callbacks import StopAtScore as StopAtScore
    from briskrl.training.config import Stage as Stage
    from briskrl.training.config import TrainConfig as TrainConfig
    from briskrl.training.evaluate import EvalResult as EvalResult
    from briskrl.training.evaluate import evaluate as evaluate
    from briskrl.training.loop import resume as resume
    from briskrl.training.loop import train as train
    from briskrl.training.reporter import RunResult as RunResult
    from briskrl.training.workflow_evaluation import evaluate_workflow as evaluate_workflow
    from briskrl.tuning.config import TuneConfig as TuneConfig
    from briskrl.tuning.run import tune as tune
    from briskrl.workflows.config import SearcherConfig as SearcherConfig
    from briskrl.workflows.history import OrderResult as OrderResult
    from briskrl.workflows.run.api import WorkflowTrainer as WorkflowTrainer
    from briskrl.workflows.run.api import joint as joint
    from briskrl.workflows.run.api import search as search
    from briskrl.workflows.run.config import WorkflowConfig as WorkflowConfig
    from briskrl.workflows.searcher import Searcher as Searcher
    from briskrl.workflows.surrogate import OrderSurrogate as OrderSurrogate

__version__ = "0.1.0"

_MODULES = {
    "ActionTableTask": "briskrl.envs.workflow.task",
    "BriskError": "briskrl.core.errors",
    "Cage2Config": "briskrl.envs.cage2.config",
    "CartPoleConfig": "briskrl.envs.cartpole.config",
    "ConfigError": "briskrl.core.errors",
    "DQNConfig": "briskrl.algos.dqn.config",
    "DivergedError": "briskrl.core.errors",
    "EnvStepError": "briskrl.core.errors",
    "EnvWorkerError": "briskrl.core.errors",
    "EvalResult": "briskrl.training.evaluate",
    "EventTask": "briskrl.envs.workflow.task",
    "EvaluateEvery": "briskrl.training.callbacks",
    "GymConfig": "briskrl.envs.gym.config",
    "OrderResult": "briskrl.workflows.history",
    "OrderSurrogate": "briskrl.workflows.surrogate",
    "OrderedVisitConfig": "briskrl.envs.ordered_visit.config",
    "PPOConfig": "briskrl.algos.ppo.config",
    "PQNConfig": "briskrl.algos.pqn.config",
    "PhaseTimer": "briskrl.core.phase",
    "RunFolderError": "briskrl.core.errors",
    "RunResult": "briskrl.training.reporter",
    "Searcher": "briskrl.workflows.searcher",
    "SearcherConfig": "briskrl.workflows.config",
    "SnakeConfig": "briskrl.envs.snake.config",
    "Stage": "briskrl.training.config",
    "StopAtScore": "briskrl.training.callbacks",
    "StorageError": "briskrl.core.errors",
    "TrainConfig": "briskrl.training.config",
    "TuneConfig": "briskrl.tuning.config",
    "WildfireConfig": "briskrl.envs.wildfire.config",
    "Workflow": "briskrl.orders.workflow",
    "WorkflowConfig": "briskrl.workflows.run.config",
    "WorkflowEnvConfig": "briskrl.envs.workflow.config",
    "WorkflowSpace": "briskrl.orders.space",
    "WorkflowTrainer": "briskrl.workflows.run.api",
    "WorkflowVecEnv": "briskrl.envs.workflow.env",
    "diagnose": "briskrl.doctor",
    "evaluate": "briskrl.training.evaluate",
    "evaluate_workflow": "briskrl.training.workflow_evaluation",
    "joint": "briskrl.workflows.run.api",
    "load_policy": "briskrl.export.load",
    "make_env": "briskrl.envs.make",
    "register_envs": "briskrl.envs.gym_ids",
    "resume": "briskrl.training.loop",
    "search": "briskrl.workflows.run.api",
    "train": "briskrl.training.loop",
    "tune": "briskrl.tuning.run",
}
"""Public names and the modules that define them."""

_DEPRECATED = {"OnPolicyConfig": "PPOConfig"}
"""Old public names and the current ones."""

__all__ = [
    "ActionTableTask",
    "BriskError",
    "Cage2Config",
    "CartPoleConfig",
    "ConfigError",
    "DQNConfig",
    "DivergedError",
    "EnvStepError",
    "EnvWorkerError",
    "EvalResult",
    "EvaluateEvery",
    "EventTask",
    "GymConfig",
    "OrderResult",
    "OrderSurrogate",
    "OrderedVisitConfig",
    "PPOConfig",
    "PQNConfig",
    "PhaseTimer",
    "RunFolderError",
    "RunResult",
    "Searcher",
    "SearcherConfig",
    "SnakeConfig",
    "Stage",
    "StopAtScore",
    "StorageError",
    "TrainConfig",
    "TuneConfig",
    "WildfireConfig",
    "Workflow",
    "WorkflowConfig",
    "WorkflowEnvConfig",
    "WorkflowSpace",
    "WorkflowTrainer",
    "WorkflowVecEnv",
    "__version__",
    "diagnose",
    "evaluate",
    "evaluate_workflow",
    "joint",
    "load_policy",
    "make_env",
    "register_envs",
    "resume",
    "search",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        current = _DEPRECATED[name]
        warnings.warn(f"briskrl.{name} is now briskrl.{current}.", DeprecationWarning, stacklevel=2)
        return __getattr__(current)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__


# Importing Gymnasium here would slow down every `brisk --help`.
if "gymnasium" in sys.modules:
    __getattr__("register_envs")()
