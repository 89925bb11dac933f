"""In CI, a skipped test makes the run fail, whatever skipped the test."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

Counts = dict[str, int]

CONFTEST = "from tests.conftest import pytest_sessionfinish, pytest_terminal_summary"
CONFTEST_FOR_ROOT = f"{CONFTEST}, pytest_runtest_setup"
PAGE = """
import pytest
from tests.need import NO_HISTORIES, need, need_programs

def test_needed():
    need(False, "the moon is down")

def test_program():
    need_programs("sh", "program-that-nobody-has")

@pytest.mark.skip(reason="marked")
def test_marked():
    pass

@pytest.fixture
def tool():
    pytest.skip("fixture without it")

def test_fixture(tool):
    pass

@pytest.mark.skip(reason=NO_HISTORIES)
def test_history():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    raise ValueError

def test_good():
    need(True, "never said")
    need_programs("sh")
"""
REASONS = [
    "the moon is down",
    "not installed: program-that-nobody-has",
    "marked",
    "fixture without it",
    "could not import 'nobody'",
]
PAGE_FOR_ROOT = """
import pytest

@pytest.mark.root
def test_mount():
    pass

def test_good():
    pass
"""


def run(pytester: pytest.Pytester, patch: pytest.MonkeyPatch, ci: str) -> tuple[Counts, str]:
    """Run test files with many kinds of skips; return the outcome counts and the output."""
    patch.setenv("CI", ci)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_page=PAGE, test_whole="import pytest; pytest.importorskip('nobody')")
    done = pytester.runpytest_inprocess("-rsfE", "--continue-on-collection-errors")
    return done.parseoutcomes(), done.stdout.str()


def test_missing_requirement_skips_a_test_with_its_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output has the reason of each skip by a call, a mark, a fixture or an import."""
    counts, said = run(pytester, monkeypatch, "")
    assert counts == {"passed": 1, "skipped": 6, "xfailed": 1}
    assert [reason for reason in REASONS if reason not in said] == []


def test_ci_run_prints_each_reason_of_a_skip(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In CI, the summary lists each reason except missing histories."""
    counts, said = run(pytester, monkeypatch, "true")
    assert counts == {"passed": 1, "skipped": 6, "xfailed": 1}
    told = [line for line in said.splitlines() if line.startswith("missing in CI: ")]
    assert len(told) == len(REASONS)
    assert [reason for reason in REASONS if f"missing in CI: {reason}" not in said] == []


@pytest.mark.long
@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_skipped_test_fails_the_run_only_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, code: int
) -> None:
    """With worker processes, a skipped test gives the exit code 1 in CI, and 0 elsewhere."""
    monkeypatch.setenv("CI", ci)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_page=PAGE)
    assert pytester.runpytest_subprocess("-n", "1").ret == code


@pytest.mark.parametrize(
    ("user", "counts"), [(0, {"passed": 2}), (1000, {"passed": 1, "skipped": 1})]
)
def test_root_test_is_skipped_for_ordinary_users(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, user: int, counts: Counts
) -> None:
    """CI accepts a test skipped without root, because a later step runs it as root."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr("os.geteuid", lambda: user)
    pytester.makeconftest(CONFTEST_FOR_ROOT)
    pytester.makepyfile(test_page=PAGE_FOR_ROOT)
    done = pytester.runpytest_inprocess("-W", "ignore::pytest.PytestUnknownMarkWarning")
    assert (done.parseoutcomes(), done.ret) == (counts, 0)
