"""Commands next to files whose log was lost, or whose last events were deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversary import raw
from tests.amendments.support import Place
from tests.cli.support import write_plan


def lose_log(place: Place) -> None:
    """Delete the database, as a mistaken `rm` does. The other files stay."""
    for path in (place.path / ".wfctl").glob("events.db*"):
        path.unlink()


def test_init_next_to_files_of_a_lost_log_records_nothing(trusted: Place) -> None:
    """`init` records no event, because the files of the root show that a log was lost."""
    trusted.done("note", "first")
    lose_log(trusted)
    refused = trusted.json("init", str(write_plan(trusted.path)), "--consent", "trust")
    assert (refused.code, refused.error["code"]) == (7, "log_behind")
    assert trusted.done("events") == []
    assert trusted.json("replay", "--rebuild").error["code"] == "log_behind"
    (trusted.path / ".wfctl").rename(trusted.path.with_name("aside"))
    trusted.done("import", str(trusted.path))


@pytest.mark.forged
def test_checks_report_that_the_log_was_lost(trusted: Place) -> None:
    """`fsck` and `replay --check` exit with code 7 if the files are newer than the log."""
    trusted.done("note", "first")
    lose_log(trusted)
    trusted.json("init", str(write_plan(trusted.path)), "--consent", "trust")
    for line in (("fsck",), ("replay", "--check")):
        answer = trusted.json(*line)
        assert answer.code == 7, line
        assert "cut_tail" in {one["kind"] for one in answer.data["findings"]}, line


@pytest.mark.forged
@pytest.mark.parametrize(
    "line",
    [
        ("checkpoint",),
        ("prove", "1"),
        ("export", "ro-crate", "FILE"),
        ("export", "archive", "FILE"),
    ],
    ids=" ".join,
)
def test_truncated_log_is_not_signed_or_exported(
    trusted: Place, tmp_path: Path, line: tuple[str, ...]
) -> None:
    """`checkpoint`, `prove` and `export` exit with code 7 if the last event was deleted."""
    cut(trusted)
    file = tmp_path / "new"
    answer = trusted.json(*(str(file) if word == "FILE" else word for word in line))
    assert (answer.code, answer.error["code"]) == (7, "log_unsound")
    assert not file.exists()


@pytest.mark.forged
def test_replay_check_and_backup_report_a_truncated_log(trusted: Place, tmp_path: Path) -> None:
    """The backup command exits with code 7, and its file contains the remaining events."""
    cut(trusted)
    assert trusted.json("replay", "--check").code == 7
    answer = trusted.json("db", "backup", str(tmp_path / "backup"))
    assert answer.code == 7
    assert "cut_tail" in str(answer.data["findings"])
    assert (tmp_path / "backup").exists()


def cut(place: Place) -> None:
    """Delete the last event of the log."""
    for text in ("first", "second"):
        place.done("note", text)
    raw.tamper(place.path, f"DELETE FROM events WHERE version = {place.version()}")
