"""Every test of this folder can make the native environments by their Gymnasium ids."""

from __future__ import annotations

import pytest

from briskrl.envs.gym_ids import register_envs


@pytest.fixture(scope="session", autouse=True)
def _registered_ids() -> None:
    register_envs()
