"""Fixtures for all tests, and the summary after a run."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from cli.agent_marks import AGENT_MARKS
from service.reading.stream_log import get_or_create_seal
from tests import emptylog
from tests.crash import table
from tests.memory import stay_in_memory
from tests.need import is_strict, need_root, unmet
from tests.order import slow_first
from tests.rounds import DAY, SHARES, mark_further, share_of_today, shorten, today, tries_all
from tests.server import Server, started
from tests.times import dearest, lines, memory_line, memory_peak, spent, totals

PEAKS = pytest.StashKey[dict[str, int]]()
SPENT = pytest.StashKey[float]()

# Write compiled modules to disk. Otherwise hundreds of test processes would compile the whole
# program again, and pytest would parse every test file again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Delete the environment variables that mark an agent. If an agent runs the tests, wfctl would
# otherwise not accept a test's terminal as that of a person.
for mark in AGENT_MARKS:
    os.environ.pop(mark, None)
# Keep the usual buffering, so that a test notices output that is lost at the end of a process.
os.environ.pop("PYTHONUNBUFFERED", None)
sys.dont_write_bytecode = False

# The duration of an example depends on the load of the machine, so it is not checked.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _logs_are_behaviours(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the logs of each test against the protocol, in runs that try all examples."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    if folder is None or not tries_all() or request.node.get_closest_marker("forged"):
        return
    from tests.behaviours import breaches  # few runs need it

    found = list(breaches(folder))
    assert not found, found


@pytest.fixture(scope="session", autouse=True)
def _new_logs_are_copied() -> Iterator[None]:
    """Let commands in this process copy an empty log instead of running a migration."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("migrations.upgrade.upgrade_database", emptylog.made)
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Start a PostgreSQL server when a test first needs one."""
    running = started()
    try:
        yield running
    finally:
        running.close()


def _in_own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Redirect the user's folders for configuration and state to temporary folders.

    Commands show the logs that these folders list. The output of a test must not depend on the logs
    of earlier test modules.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patched.setenv(name, str(tmp_path_factory.mktemp("own")))
        # Create the key file that seals stored folds now, so that a test does not depend on earlier
        # tests.
        get_or_create_seal()
        yield


_own_folders_of_shared = pytest.fixture(scope="session", autouse=True)(_in_own_folders)
_own_folders_of_modules = pytest.fixture(scope="module", autouse=True)(_in_own_folders)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that print the times of tests, and an option for a time limit."""
    parser.addoption("--totals", action="store_true", help="print the seconds of each kind of test")
    parser.addoption(
        "--dearest", type=int, default=10, help="of the tests, how many `--totals` names"
    )
    parser.addoption("--until", type=float, help="skip what is not begun by then, a Unix time")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory if possible, and set the day for all workers."""
    # Collected tests stay in memory until the end of the run, so a garbage collection would only
    # cost time.
    gc.disable()
    today()  # The workers get the day that is set now.
    remove = stay_in_memory()
    if remove is not None:
        config.add_cleanup(remove)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Select the tests of this run, limit their examples, and put slow tests first."""
    shorten(items)
    mark_further(items)
    yield
    # By now, the test selection of the command line (-m and -k) has been applied.
    selected = set(share_of_today(items))
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items[:] = slow_first(items)


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which stay until the end, from garbage collection."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    """Print the day and the number of shares, which select the tests of a run."""
    return f"{DAY}={today()} {SHARES}={os.environ.get(SHARES, '1')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record the processor time of each part of a test."""
    report = yield
    before, now = item.config.stash.get(SPENT, 0.0), spent()
    item.config.stash[SPENT] = now
    report.processor = now - before if before else 0.0  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a root test for other users, and a test that would start after ``--until``."""
    if item.get_closest_marker("root"):
        need_root()
    until = item.config.getoption("--until", default=None)
    if until is not None and time.time() > until:
        pytest.skip("no time left")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Report the peak memory of a worker, and fail a CI run if a test was skipped."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["peak"] = memory_peak()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    in_time = session.config.getoption("--until", default=None) is not None
    if in_time and exitstatus == 0 and reporter is not None and not reporter.stats.get("passed"):
        reporter.write_line("no test was begun in time: nothing is known of the change", red=True)
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
    if is_strict() and exitstatus == 0 and reporter is not None and _unmet(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Store the peak memory of a worker that has ended."""
    told = getattr(node, "workeroutput", None)
    if told is not None:
        node.config.stash.setdefault(PEAKS, {})[node.gateway.id] = told["peak"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print missing requirements, test times, results after kills, and planted faults."""
    if is_strict():
        for reason, times in _unmet(terminalreporter).items():
            tests = "1 test" if times == 1 else f"{times} tests"
            terminalreporter.write_line(f"missing in CI: {reason} ({tests} skipped)", red=True)
    if terminalreporter.config.getoption("--totals", default=False):
        terminalreporter.section("each kind of test")
        for line in lines(totals(_reports(terminalreporter))):
            terminalreporter.write_line(line)
        number = terminalreporter.config.getoption("--dearest")
        for line in dearest(_reports(terminalreporter), number):
            terminalreporter.write_line(line)
        peaks = terminalreporter.config.stash.get(PEAKS, {"pytest": memory_peak()})
        terminalreporter.write_line(memory_line(peaks))
    _show_matrix(terminalreporter)
    _show_faults(terminalreporter)


def _show_faults(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each cluster fault that a test injected, with its first line and next command."""
    rows = sorted(_outcomes(terminalreporter, "fault"))
    if rows:
        terminalreporter.section("planted faults")
    for row in rows:
        terminalreporter.write_line(row)


def _show_matrix(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the kill matrix: the results of tests that kill processes.

    WFCTL_MATRIX=keep also writes the matrix to tests/crash/matrix.md.
    """
    rows = table.rows_of(_outcomes(terminalreporter, "cell"))
    if not rows:
        return
    terminalreporter.section("kill matrix")
    for cell, columns in rows.items():
        terminalreporter.write_line(f"{cell} | {columns}")
    if os.environ.get("WFCTL_MATRIX") == "keep":
        page = table.PAGE.read_text(encoding="utf-8")
        table.PAGE.write_text(table.written(page, rows), encoding="utf-8")


def _outcomes(reporter: pytest.TerminalReporter, name: str) -> Iterator[str]:
    for report in _reports(reporter):
        if report.when == "call":
            yield from (str(v) for k, v in report.user_properties if k == name)


def _reports(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for reports in reporter.stats.values():
        yield from (one for one in reports if isinstance(one, pytest.TestReport))


def _unmet(reporter: pytest.TerminalReporter) -> Counter[str]:
    return unmet(reporter.stats.get("skipped", []))
