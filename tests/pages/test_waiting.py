"""The pages, the report and `status` show why an attempt does not continue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.advice.log_rows import begun
from tests.cli.support import Place, attempt_data
from tests.exports.support import text_of
from tests.pages.support import served
from tests.pages.test_pages import home

pytestmark = pytest.mark.forged
REASON = "job 7 is pending in Slurm (Priority): jobs of higher priority come first"


def make_waiting(folder: Path) -> Place:
    """Return a workflow with an attempt whose job is pending in the scheduler Slurm."""
    place = begun(folder)
    place.done("append", "attempt.started", "--data", attempt_data())
    seen = {"row": 1, "verdict": "MONITORED", "action": "wait", "reason": "r", "evidence": {}}
    data = {"stage": "stage-1", "attempt": "att-0001", **seen, "waiting": REASON}
    place.done("append", "attempt.observed", "--data", json.dumps(data))
    return place


def test_pages_and_report_show_why_an_attempt_waits(tmp_path: Path) -> None:
    """wfctl shows the scheduler's reason, and the time since which the attempt waits."""
    place = make_waiting(tmp_path)
    words = f"{REASON} (since 20"
    assert words in place.call("report", "-").out
    assert words in text_of(place, "report")
    assert words in place.call("status").out
    with served(tmp_path, "--root", str(place.path)) as pages:
        address = home(pages)
        for page in ("", "stage/stage-1"):
            assert words in pages.get(address + page).text
