"""An agent that does only what it is told next carries any workflow to its end, or to a person.

It knows nothing of wfctl: it takes the first command that no person must decide, puts words in
place of those in capitals, and calls it. It is killed and paused on the way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rounds import first, rounds
from tests.sessions.followed import followed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", first([1, 2]))
def test_no_next_action_is_refused(tmp_path: Path, seed: int) -> None:
    """From the first call to the end, or to a person's decision."""
    assert followed(tmp_path, seed)[1] in ("completed", "a person decides")


@pytest.mark.parametrize("seed", rounds(range(10, 60), few=6))
def test_no_next_action_of_fifty_workflows_is_refused(tmp_path: Path, seed: int) -> None:
    """As above, for others."""
    assert followed(tmp_path, seed)[1] in ("completed", "a person decides")
