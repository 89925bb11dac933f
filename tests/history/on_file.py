"""Golden files with the output of each query of the fixed history, as text, JSON and CSV.

Run ``python -m tests.history.on_file`` to write all files again, and review the changes.
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
#: File name → command line. A query that depends on the current time gets a fixed moment.
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
#: Pattern of a hash. The golden files leave hashes out, because a hash depends on every byte of
#: every event.
_HASH = re.compile("[0-9a-f]{64}")
FORMATS = {"txt": "text", "json": "json", "csv": "csv"}


def printed(root: Path, name: str, format_: str) -> str:
    """Return the output of a query."""
    answer = call("--root", str(root), "-o", format_, *QUESTIONS[name])
    assert answer.code in (0, 7), answer
    return _HASH.sub("<hash>", answer.out)


def files(root: Path) -> dict[Path, str]:
    """Return the expected content of every golden file, by the name of the file."""
    return {
        FOLDER / f"{name}.{ending}": printed(root, name, format_)
        for name, line in QUESTIONS.items()
        for ending, format_ in FORMATS.items()
        if ending != "csv" or line[0] == "audit"
    }


def main() -> None:
    """Write every golden file."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder
        for path, content in files(written(Path(folder) / "root")).items():
            path.write_text(content, "utf-8", newline="")


if __name__ == "__main__":
    main()
