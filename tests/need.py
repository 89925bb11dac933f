"""What a test needs of its machine: without it the test is skipped, and in CI that is a failure."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

#: Histories of real workflows, which lie beside the checkout where somebody has them.
HISTORIES = Path(__file__).resolve().parents[2] / "shared" / "data" / "histories"
#: Reasons for which CI may skip a test too: nothing is missing on the machine.
NO_HISTORIES = "no real histories beside this checkout"
NO_CLIENT = "npm could not install it"
NEEDS_ROOT = "needs root; `make test-root` runs it"
ALLOWED_IN_CI = (NO_HISTORIES, NO_CLIENT, NEEDS_ROOT)


def need(held: bool, reason: str) -> None:
    """Skip the test where that is not so; the reason says what is missing."""
    if not held:
        pytest.skip(reason)


def need_programs(*names: str) -> None:
    """Skip the test unless all of them are installed, those for root included."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in names if shutil.which(name, path=path) is None]
    need(not missing, f"not installed: {', '.join(missing)}")


def need_root() -> None:
    """Skip the test unless root runs it."""
    need(os.geteuid() == 0, NEEDS_ROOT)


def unmet(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """Return why tests or files were skipped that nobody may skip in CI, with how often.

    An expected failure is reported as skipped too, but has no place and reason as a skip has.
    """
    places = [one.longrepr for one in reports if one.skipped]
    reasons = [place[2].removeprefix("Skipped: ") for place in places if isinstance(place, tuple)]
    return Counter(reason for reason in reasons if not reason.startswith(ALLOWED_IN_CI))


def is_strict() -> bool:
    """Whether all that a test needs has to be there, as in CI."""
    return os.environ.get("CI") == "true"
