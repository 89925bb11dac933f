"""Skip tests whose requirements are missing on the machine; in CI, a skipped test is a failure."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

#: Histories of real workflows, in a folder next to some checkouts.
HISTORIES = Path(__file__).resolve().parents[2] / "shared" / "data" / "histories"
#: Small states in the published formats, next to the histories.
IMPORTS = HISTORIES.with_name("imports")
#: Reasons for which a test may be skipped in CI too, because no required program is missing.
NO_HISTORIES = "no real histories beside this checkout"
NO_CLIENT = "npm could not install it"
NEEDS_ROOT = "needs root; `make test-root` runs it"
ALLOWED_IN_CI = (NO_HISTORIES, NO_CLIENT, NEEDS_ROOT)


def need(held: bool, reason: str) -> None:
    """Skip the test unless the requirement is met; ``reason`` names what is missing."""
    if not held:
        pytest.skip(reason)


def need_programs(*names: str) -> None:
    """Skip the test unless all programs are on PATH or in the folders for root."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in names if shutil.which(name, path=path) is None]
    need(not missing, f"not installed: {', '.join(missing)}")


def need_root() -> None:
    """Skip the test unless it is run by root."""
    need(os.geteuid() == 0, NEEDS_ROOT)


def imports(name: str) -> Path:
    """Return the folder of a small example for imports, or skip the test if it is missing."""
    need((IMPORTS / name).is_dir(), f"{NO_HISTORIES} (imports/{name})")
    return IMPORTS / name


def unmet(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """Count the skipped tests by reason, without the reasons that are allowed in CI.

    pytest reports an expected failure as skipped too. Its report has no place of a skip, and it is
    left out.
    """
    places = [one.longrepr for one in reports if one.skipped]
    reasons = [place[2].removeprefix("Skipped: ") for place in places if isinstance(place, tuple)]
    return Counter(reason for reason in reasons if not reason.startswith(ALLOWED_IN_CI))


def is_strict() -> bool:
    """Return whether a skipped test is a failure, as in CI."""
    return os.environ.get("CI") == "true"
