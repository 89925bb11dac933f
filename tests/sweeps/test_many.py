"""Sweeps of thousands of tasks, some of which fail, killed on the way."""

from __future__ import annotations

import random

import pytest

from tests.crash.support import Workflow
from tests.sweeps.many import every_task_is_accounted_for, killed_on_the_way, many

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("seed", range(1))
def test_ten_thousand_tasks_are_killed_on_the_way(workflow: Workflow, seed: int) -> None:
    """On the machine itself: each good task is done, each bad one is named."""
    workflow.init(many(workflow, 10_000, at_once=8))
    killed_on_the_way(workflow, 10_000, random.Random(seed), kills=6)
    workflow.succeed("run")
    every_task_is_accounted_for(workflow, 10_000)
