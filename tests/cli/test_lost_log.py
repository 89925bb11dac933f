"""A log that was lost: the error names the way back, and the way leads there."""

from __future__ import annotations

import pytest

from tests.cli.support import Place

READS_AND_WRITES = [["status"], ["note", "hello"], ["rehydrate"], ["run"]]


@pytest.mark.parametrize("line", READS_AND_WRITES, ids=lambda line: line[0])
def test_a_lost_log_is_an_error_with_the_way_back(place: Place, line: list[str]) -> None:
    """Reads and writes alike name it."""
    for path in place.path.glob(".wfctl/events.db*"):
        path.unlink()
    answer = place.call(*line)
    assert answer.code in (3, 4, 6), answer
    assert "wfctl import" in answer.err or "restore" in answer.err, answer.err


def test_what_the_files_show_is_taken_up(place: Place) -> None:
    """With the rest of the log moved aside, the import goes on where the files stood."""
    place.done("stage", "prepare", "stage-1")
    before = [stage["status"] for stage in place.done("status")["stages"]]
    (place.path / ".wfctl").rename(place.path / ".wfctl.lost")
    place.done("import", str(place.path), "--consent", "trust")
    assert [stage["status"] for stage in place.done("status")["stages"]] == before
    place.done("rehydrate")
