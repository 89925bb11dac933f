"""One command that writes calls functions in the order of docs/develop/architecture.md."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import FrameType

from tests.cli.support import HERE, PLAN, call

PAGE = (HERE / "docs" / "develop" / "architecture.md").read_text("utf-8")
WALK = PAGE.partition("## One write")[2].partition("\n## ")[0]
#: The documented steps: the name of each function, and the path of its file.
STEPS = re.findall(r"`([A-Za-z_.]+)`\s+\(`([a-z_/]+\.py)`\)", WALK)


def test_one_write_calls_the_documented_functions_in_order(tmp_path: Path) -> None:
    """A traced command first calls each documented function in the order of the page."""
    command = re.findall(r"`wfctl (.+?)`", WALK)[0].split()
    (tmp_path / "plan.json").write_text(json.dumps(PLAN), "utf-8")
    root = ("--root", str(tmp_path))
    assert call(*root, "init", str(tmp_path / "plan.json"), "--consent", "trust").code == 0
    assert call(*root, "stage", "prepare", "stage-1").code == 0
    called: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(HERE)):
            called[code.co_qualname, str(Path(code.co_filename).relative_to(HERE))] = None

    sys.setprofile(note)
    try:
        answer = call(*root, *command)
    finally:
        sys.setprofile(None)
    assert answer.code == 0, answer
    assert len(STEPS) > 10
    assert [step for step in called if step in STEPS] == STEPS
