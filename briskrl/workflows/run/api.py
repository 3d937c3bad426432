"""Training under workflows from Python: `search`, `joint` and `WorkflowTrainer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from briskrl.core.errors import ConfigError
from briskrl.orders.workflow import Workflow
from briskrl.training.reporter import StopSignal
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.reporter import WorkflowReporter
from briskrl.workflows.run.run import run_workflows
from briskrl.workflows.run.setup import make_setup

Stop = Callable[[], StopSignal | None]


def search(
    config: WorkflowConfig | None = None,
    *,
    reporter: WorkflowReporter | None = None,
    stop: Stop = lambda: None,
) -> Outcome:
    """Find the best workflow within a number of episodes, in a new run folder.

    Args:
        config: The settings.
        reporter: Gets the events.
        stop: Returns a signal to stop the run, which then saves and can be resumed.

    Raises:
        BriskError: A setting cannot be used, or the folder cannot be written.
    """
    return run_workflows(config or WorkflowConfig(), "search", reporter=reporter, stop=stop)


def joint(
    config: WorkflowConfig | None = None,
    *,
    reporter: WorkflowReporter | None = None,
    stop: Stop = lambda: None,
) -> Outcome:
    """Train one policy that follows any workflow given at run time; see `search`."""
    return run_workflows(config or WorkflowConfig(), "joint", reporter=reporter, stop=stop)


class WorkflowTrainer:
    """Trains a policy under one workflow and evaluates it, in a new run folder each time.

    Args:
        config: The settings. Those of the search are not used. As many episodes are spent as
            training under one workflow may take.

    Raises:
        ConfigError: A setting cannot be used.
    """

    def __init__(self, config: WorkflowConfig | None = None) -> None:
        self._config = config or WorkflowConfig(warm_start="none")
        self.space = make_setup(self._config).space
        """The workflows that can be trained."""

    def train(
        self,
        workflow: str | Workflow,
        *,
        reporter: WorkflowReporter | None = None,
        stop: Stop = lambda: None,
    ) -> Outcome:
        """Train under a workflow, given as names joined by >, a well-known name or an id.

        Raises:
            BriskError: The workflow cannot be read, or the folder cannot be written.
        """
        flow = self.space.parse(workflow) if isinstance(workflow, str) else workflow
        if flow not in self.space:
            raise ConfigError(f"The workflow {flow} is not one of this task.")
        config = one_workflow_config(self._config, str(flow))
        return run_workflows(config, "train", reporter=reporter, stop=stop)


def one_workflow_config(config: WorkflowConfig, workflow: str) -> WorkflowConfig:
    """The same settings for training under one workflow, with the episodes that it may take.

    Raises:
        ConfigError: A setting cannot be used.
    """
    searcher = replace(config.searcher, strategy="list", workflows=(workflow,), max_visits=1)
    config = replace(config, searcher=searcher)
    setup = make_setup(config)
    total = setup.base_episodes + setup.budget.cap + setup.budget.eval_episodes
    return replace(config, base_episodes=setup.base_episodes or None, total_episodes=total)
