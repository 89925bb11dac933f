"""What tests of several rooms share, and what is told after a run."""

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
from service.reading.stream_log import own_seal
from tests import emptylog
from tests.crash import table
from tests.memory import stay_in_memory
from tests.need import is_strict, need_root, unmet
from tests.order import slow_first
from tests.rounds import DAY, mark_further, shorten, today, tries_all
from tests.server import Server, started
from tests.times import dearest, lines, memory_line, memory_peak, spent, totals

PEAKS = pytest.StashKey[dict[str, int]]()
SPENT = pytest.StashKey[float]()

# Hundreds of processes are started, and each would compile the whole program anew; pytest too would
# take every file apart again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# If an agent's program runs the tests, wfctl takes no terminal of theirs for a person's.
for mark in AGENT_MARKS:
    os.environ.pop(mark, None)
# What a process prints and does not pass on before it ends is lost to users, and so to tests.
os.environ.pop("PYTHONUNBUFFERED", None)
sys.dont_write_bytecode = False

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _logs_are_behaviours(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold every log that a test leaves to the protocol, where all examples are tried."""
    yield
    folder = request.node.funcargs.get("tmp_path")
    if folder is None or not tries_all() or request.node.get_closest_marker("forged"):
        return
    from tests.behaviours import breaches  # few runs need it

    found = list(breaches(folder))
    assert not found, found


@pytest.fixture(scope="session", autouse=True)
def _new_logs_are_copied() -> Iterator[None]:
    """Let commands that are called in this process begin with the copy of an empty log."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("migrations.upgrade.upgrade", emptylog.made)
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, started where a test asks for it first."""
    running = started()
    try:
        yield running
    finally:
        running.close()


def _in_own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no test keep anything in the folders of anyone who runs it, nor agree to anything there.

    Commands tell which logs a login knows: that must not depend on the modules that ran before.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patched.setenv(name, str(tmp_path_factory.mktemp("own")))
        # Whether a test meets a kept state must not depend on the tests that ran before it here.
        own_seal()
        yield


_own_folders_of_shared = pytest.fixture(scope="session", autouse=True)(_in_own_folders)
_own_folders_of_modules = pytest.fixture(scope="module", autouse=True)(_in_own_folders)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make` ask for what the tests of each kind took, and for no more than some time."""
    parser.addoption("--totals", action="store_true", help="print the seconds of each kind of test")
    parser.addoption(
        "--dearest", type=int, default=10, help="of the tests, how many `--totals` names"
    )
    parser.addoption("--until", type=float, help="skip what is not begun by then, a Unix time")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory; workers are started with the same place and day."""
    # What is collected stays to the end: a search for garbage meanwhile finds none.
    gc.disable()
    today()  # the workers are given what is named by now
    remove = stay_in_memory()
    if remove is not None:
        config.add_cleanup(remove)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Try as many examples and cases as this run is for, and begin with what takes long."""
    shorten(items)
    mark_further(items)
    yield
    # What the marks on the command line leave is known by now.
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items[:] = slow_first(items)


def pytest_collection_finish() -> None:
    """Let no search for garbage go through what was collected, which stays to the end."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    """Say whose day's share of the long matrices is run."""
    return f"{DAY}={today()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep with each part of a test what it took of the processor."""
    report = yield
    before, now = item.config.stash.get(SPENT, 0.0), spent()
    item.config.stash[SPENT] = now
    report.processor = now - before if before else 0.0  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs root, and a test that would start after the given time."""
    if item.get_closest_marker("root"):
        need_root()
    until = item.config.getoption("--until", default=None)
    if until is not None and time.time() > until:
        pytest.skip("no time left")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Tell the peak of a worker's memory, and let a run fail in CI whose tests were skipped."""
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
    """Keep what a worker that has ended told of its memory."""
    told = getattr(node, "workeroutput", None)
    if told is not None:
        node.config.stash.setdefault(PEAKS, {})[node.gateway.id] = told["peak"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was missing, what each kind of test took, and the kill matrix as it was struck."""
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


def _show_matrix(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the kill matrix; WFCTL_MATRIX=keep writes it into tests/crash/matrix.md."""
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
    for report in _reports(reporter):
        if report.when == "call":
            yield from (str(v) for k, v in report.user_properties if k == "cell")


def _reports(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for reports in reporter.stats.values():
        yield from (one for one in reports if isinstance(one, pytest.TestReport))


def _unmet(reporter: pytest.TerminalReporter) -> Counter[str]:
    return unmet(reporter.stats.get("skipped", []))
