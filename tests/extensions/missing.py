"""A plugin of pytest that skips tests which need a deleted extension.

`make core` and `make without` load it in a copy of the program without extensions. A test needs an
extension if it imports a module of the extension, or if a command reports that the extension is
missing.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

import pytest

_MISSING = re.compile(
    r"No module named 'extensions\.(?P<module>\w+)|needs the extension (?P<named>\w+), which is not"
)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file of tests that cannot be imported without an extension."""
    report = yield
    _skip_if_missing(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test that failed because an extension is missing."""
    report = yield
    _skip_if_missing(report)
    return report


def _skip_if_missing(report: Any) -> None:
    found = _MISSING.search(str(report.longrepr)) if report.failed else None
    if found is not None:
        report.outcome = "skipped"
        name = found["module"] or found["named"]
        report.longrepr = (str(report.nodeid), 0, f"needs the extension {name}")
