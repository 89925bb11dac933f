"""An error of the operating system is not a failure of a stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.keeping.support import made, run_as_ordinary_user, stage

pytestmark = pytest.mark.slow


def test_unwritable_home_folder_uses_no_retry(tmp_path: Path) -> None:
    """If DPDispatcher cannot write to the home folder, the run stops, but no stage fails."""
    place = made(tmp_path, stage(1, "echo hi > a.txt", outputs=["stage-1/a.txt"]))
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    said = run_as_ordinary_user(place, "run", code=6, HOME=str(home))
    assert "`dargs check`: PermissionError" in said
    assert "refused" not in said
    (one,) = place.done("status")["stages"]
    assert one["status"] != "failed"
    assert place.call("run").code == 0
    assert place.done("show", "stage-1")["retry_count"] == 0
