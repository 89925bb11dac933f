"""What a test needs of its machine: without it the test is skipped, and in CI that is a failure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TypeVar

import pytest

#: Histories of real workflows, which lie beside the checkout where somebody has them.
HISTORIES = Path(__file__).resolve().parents[2] / "shared" / "data" / "histories"
#: The one reason for a skip that counts in CI too.
NO_HISTORIES = "no real histories beside this checkout"

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def need(held: bool, reason: str) -> None:
    """Skip the test where that is not so; the reason says what is missing."""
    if not held:
        pytest.skip(reason)


def need_programs(*names: str) -> None:
    """Skip the test unless all of them are installed, those for root included."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in names if shutil.which(name, path=path) is None]
    need(not missing, f"not installed: {', '.join(missing)}")


def judged(report: Report) -> Report:
    """Return the report, as a failure where a test or a file was skipped in CI.

    An expected failure is reported as skipped too, but has no place and reason as a skip has.
    """
    if os.environ.get("CI") == "true" and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(NO_HISTORIES):
            report.outcome = "failed"
            report.longrepr = f"skipped, which nothing may be in CI: {reason}"
    return report
