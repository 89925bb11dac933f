"""A pytest plugin that skips tests which need a deleted extension.

`make core` and `make without` load it in a copy of the program without extensions. A test needs an
extension if it imports a module of the extension, or if it fails after a command reported that the
extension is missing.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

import pytest

from tests.cli.support import Answer

_MISSING = re.compile(
    r"No module named 'extensions\.(?P<module>\w+)"
    r"|needs the extension (?P<named>\w+),?\s+which is not|(?P<code>extension_missing)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin object, which remembers the missing extensions of the running test."""
    config.pluginmanager.register(MissingExtensions())


class MissingExtensions:
    """Skips a failed test if an answer or error in this test names a missing extension."""

    def __init__(self) -> None:
        self.needed: list[str] = []
        create = Answer.__new__

        def inspect_and_create(cls: type[Answer], code: int, out: str, err: str) -> Answer:
            self.needed += _find_missing_extensions(f"{out}\n{err}")
            return create(cls, code, out, err)

        Answer.__new__ = inspect_and_create  # type: ignore[assignment, method-assign]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget the extensions that the previous test needed."""
        self.needed.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Skip a file of tests that cannot be imported without an extension."""
        report = yield
        self._skip_if_missing(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Skip a test that failed because an extension is missing."""
        report = yield
        self._skip_if_missing(report)
        return report

    def _skip_if_missing(self, report: Any) -> None:
        named = [*self.needed, *_find_missing_extensions(str(report.longrepr))]
        if report.failed and named:
            report.outcome = "skipped"
            report.longrepr = (str(report.nodeid), 0, f"needs the extension {named[0]}")


def _find_missing_extensions(text: str) -> list[str]:
    found = _MISSING.finditer(text)
    return [one["module"] or one["named"] or "that a command names" for one in found]
