"""Links in a stranger's stage folder that lead to files of ours outside of the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversary.test_submission import PLAN
from tests.amendments.support import make

pytestmark = pytest.mark.slow

WAYS = [
    ("DPDISP_EXIT_CODE.tmp", True),
    ("DPDISP_DONE.tmp", False),
    ("DPDISP_DONE", True),
    (".monitor.lock", False),
    ("submit_and_wait.sh", True),
]


@pytest.mark.parametrize(("name", "there"), WAYS, ids=[name for name, _ in WAYS])
def test_no_link_is_written_through(name: str, there: bool, tmp_path: Path) -> None:
    """Whatever a stage's folder brings along: what is outside stays as it was."""
    place = make(tmp_path / "root", "--consent", "trust", plan=PLAN)
    outside = tmp_path / "outside"
    if there:
        outside.write_text("mine\n")
    folder = place.path / "stage-1"
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(outside)
    answer = place.json("dispatch", "stage-1", "--sync")
    assert answer.code in (0, 1, 5, 6), answer
    assert outside.exists() == there
    assert not there or outside.read_text() == "mine\n"
