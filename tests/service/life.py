"""A program that creates a workflow and writes notes, for recording its disk writes.

`python -m tests.service.life ROOT` writes the number of each acknowledged command to ROOT/screen.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from cli.main import run
from tests.cli.support import PLAN

NOTES = 8


def main(root: Path) -> None:
    """Create the workflow, prepare a stage, and write notes."""
    screen = os.open(root / "screen", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    plan = root.parent / "plan.json"
    plan.write_text(json.dumps(PLAN))
    lines = [["init", str(plan), "--consent", "trust"], ["stage", "prepare", "stage-1"]]
    lines += [["note", f"note {number} {'x' * 300}"] for number in range(NOTES)]
    for number, line in enumerate(lines, 1):
        if run(["--root", str(root), *line]) != 0:
            sys.exit(f"{line} was not carried out")
        os.write(screen, f"{number}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
