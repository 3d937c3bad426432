"""Seeds of the jobs of a run, which depend on what a job does and not on when or where."""

from __future__ import annotations

from typing import Literal

import numpy as np

Stage = Literal["base", "train", "eval", "closing"]
_KEYS: dict[Stage, int] = {"base": 0, "train": 1, "eval": 2, "closing": 3}


def job_seed(root: int, stage: Stage, *, workflow_id: int = 0, visit: int = 0) -> int:
    """A 63-bit seed for a stage of a run.

    Evaluations leave out the workflow: all workflows play the same episodes, so that differences
    between them are not those of luck (common random numbers).
    """
    key = (_KEYS[stage],) if stage in ("eval", "closing") else (_KEYS[stage], workflow_id, visit)
    words = np.random.SeedSequence(root, spawn_key=key).generate_state(2, np.uint32)
    return (int(words[0]) << 31) ^ int(words[1])
