"""Sweeps of thousands of tasks, some of which fail, survive kills of their processes."""

from __future__ import annotations

import random

import pytest

from tests.crash.support import Workflow
from tests.sweeps.many import every_task_is_accounted_for, killed_on_the_way, many

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("seed", range(1))
def test_ten_thousand_tasks_survive_kills(workflow: Workflow, seed: int) -> None:
    """After several kills, all good tasks are done and all bad tasks are listed as failed."""
    workflow.init(many(workflow, 10_000, at_once=8))
    killed_on_the_way(workflow, 10_000, random.Random(seed), kills=6)
    workflow.succeed("run")
    every_task_is_accounted_for(workflow, 10_000)
