"""What each question prints about the fixed history, for people and as JSON, kept on file.

``python -m tests.history.on_file`` writes it all anew, to be read before it is committed.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from tests.cli.support import call
from tests.history.story import written

FOLDER = Path(__file__).parents[1] / "golden" / "history"
SQL = "SELECT stage, count(*) AS times FROM v_transitions GROUP BY stage ORDER BY stage"
#: Name of the file → the line. What depends on the time of asking is asked of a moment.
QUESTIONS: dict[str, list[str]] = {
    "events": ["events", "--type", "note.logged", "--type", "amendment.*"],
    "events-fields": ["events", "--type", "stage.*", "--fields", "version,type,data.stage"],
    "log": ["log"],
    "log-reverse": ["log", "--reverse", "-n", "3", "--stage", "stage-1"],
    "blame-field": ["blame", "stage-1.parameters.tolerance"],
    "blame-status": ["blame", "stage-1.status"],
    "blame-stage": ["blame", "stage-1"],
    "why": ["why"],
    "why-stage": ["why", "stage-3"],
    "diff": ["diff", "session:1", "session:2", "--field", "stage-1"],
    "audit-transitions": ["audit", "transitions"],
    "audit-retries": ["audit", "retries"],
    "audit-attempts": ["audit", "attempts"],
    "audit-amendments": ["audit", "amendments"],
    "audit-bypasses": ["audit", "bypasses"],
    "audit-refused": ["audit", "refused"],
    "audit-drift": ["audit", "drift"],
    "audit-times": ["audit", "times", "--at", "2026-03-31T11:00:00Z"],
    "audit-queue": ["audit", "queue"],
    "audit-costs": ["audit", "costs"],
    "audit-sql": ["audit", "sql", SQL],
}
#: The chain covers every byte of every event: what it comes to is not what these files are about.
_HASH = re.compile("[0-9a-f]{64}")
FORMATS = {"txt": "text", "json": "json", "csv": "csv"}


def printed(root: Path, name: str, format_: str) -> str:
    """Return what a question prints."""
    answer = call("--root", str(root), "-o", format_, *QUESTIONS[name])
    assert answer.code in (0, 7), answer
    return _HASH.sub("<hash>", answer.out)


def files(root: Path) -> dict[Path, str]:
    """Return every file with what belongs into it."""
    return {
        FOLDER / f"{name}.{ending}": printed(root, name, format_)
        for name, line in QUESTIONS.items()
        for ending, format_ in FORMATS.items()
        if ending != "csv" or line[0] == "audit"
    }


def main() -> None:
    """Write every file anew."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        for path, content in files(written(Path(folder) / "root")).items():
            path.write_text(content, "utf-8", newline="")


if __name__ == "__main__":
    main()
