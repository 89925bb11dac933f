"""What tests of several rooms share, and what is told after a run."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.crash import table
from tests.need import judged
from tests.server import Server, started

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, started where a test asks for it first."""
    running = started()
    try:
        yield running
    finally:
        running.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test that was skipped in CI fail."""
    return judged((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a file that was skipped as a whole in CI fail."""
    return judged((yield))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the kill matrix as it was struck; WFCTL_MATRIX=keep writes it into docs/recovery.md."""
    rows = table.rows_of(_outcomes(terminalreporter))
    if not rows:
        return
    terminalreporter.section("kill matrix")
    for cell, columns in rows.items():
        terminalreporter.write_line(f"{cell} | {columns}")
    if os.environ.get("WFCTL_MATRIX") == "keep":
        page = table.PAGE.read_text(encoding="utf-8")
        table.PAGE.write_text(table.written(page, rows), encoding="utf-8")


def _outcomes(reporter: pytest.TerminalReporter) -> Iterator[str]:
    for reports in reporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                yield from (str(v) for k, v in report.user_properties if k == "cell")
