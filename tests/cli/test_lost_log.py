"""After a log is lost, the error names a recovery command that works."""

from __future__ import annotations

import pytest

from tests.cli.support import Place

READS_AND_WRITES = [["status"], ["note", "hello"], ["rehydrate"], ["run"]]


@pytest.mark.parametrize("line", READS_AND_WRITES, ids=lambda line: line[0])
def test_lost_log_error_names_the_recovery_command(place: Place, line: list[str]) -> None:
    """Reading and writing commands both suggest `import` or `restore`."""
    for path in place.path.glob(".wfctl/events.db*"):
        path.unlink()
    answer = place.call(*line)
    assert answer.code in (3, 4, 6), answer
    assert "wfctl import" in answer.err or "restore" in answer.err, answer.err


def test_what_the_files_show_is_restored_by_an_import(place: Place) -> None:
    """After `.wfctl` was moved aside, an import of the files restores each stage's status."""
    place.done("stage", "prepare", "stage-1")
    before = [stage["status"] for stage in place.done("status")["stages"]]
    (place.path / ".wfctl").rename(place.path / ".wfctl.lost")
    place.done("import", str(place.path), "--consent", "trust")
    assert [stage["status"] for stage in place.done("status")["stages"]] == before
    place.done("rehydrate")
