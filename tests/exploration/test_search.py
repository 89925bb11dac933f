"""The search finds no violation in the small workflows, and it finds planted faults."""

from __future__ import annotations

import pytest

from tests.exploration import worlds
from tests.exploration.search import World, explore

TINY = [worlds.build_attempts_world(2, 0), worlds.build_restored_log_world(1, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("world", TINY, ids=lambda world: world.name)
def test_no_state_of_a_tiny_world_violates_an_invariant(world: World) -> None:
    """Every state of a workflow with few attempts has all required properties."""
    found = explore(world)
    assert found.problem is None, str(found)
