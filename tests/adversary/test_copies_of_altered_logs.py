"""Commands that copy or back up an event log refuse a log that was altered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversary import raw
from tests.amendments.support import Place

ALTERED = {
    "a text": "UPDATE events SET body = replace(body, 'second', 'zweite') WHERE version = {}",
    "a text of no UTF-8": "UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE version = {}",
    "no text": "UPDATE events SET body = x'00' WHERE version = {}",
    "a hash": "UPDATE events SET hash = sha('x') WHERE version = {}",
    "a column": "UPDATE events SET type = 'stage.prepared' WHERE version = {}",
    "a version that is gone": "DELETE FROM events WHERE version = {}",
}


@pytest.mark.parametrize("what", ALTERED)
def test_altered_log_is_not_copied(trusted: Place, tmp_path: Path, what: str) -> None:
    """Each copy command exits with code 7, names the first bad version and writes no backup."""
    trusted.done("note", "first")
    trusted.done("note", "second")
    version = trusted.version()
    trusted.done("note", "third")
    raw.tamper(trusted.path, ALTERED[what].format(version))
    source, target = trusted.path / ".wfctl/events.db", tmp_path / "copy.db"
    backup = tmp_path / "backup"
    ways = (
        ("db", "copy", f"sqlite:///{source}", f"sqlite:///{target}"),
        ("db", "copy", f"sqlite:///{source}", f"sqlite:///{target}", "--dry-run"),
        ("db", "backup", str(backup)),
        ("db", "backup", str(backup), "--as", "archive"),
        ("db", "backup", str(backup), "--dry-run"),
    )
    for words in ways:
        answer = trusted.json(*words)
        assert (answer.code, answer.error["code"]) == (7, "log_unsound"), (words, answer)
        assert answer.error["data"]["version"] == version
        assert not backup.exists()
    assert not target.exists()
