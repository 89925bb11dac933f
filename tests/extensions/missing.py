"""A pytest plugin that skips tests which need a deleted extension.

`make core` and `make without` load it in a copy of the program without extensions. A test needs an
extension if it imports a module of the extension, or if it fails and a command reported that the
extension is missing, or if it fails and its parameters name a command of the extension.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from tests.cli.support import Answer
from wfctl_eventstore.extension import find_extensions_of_command, is_installed

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
        self._skip_if_missing(report, ())
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Skip a test that failed because an extension is missing."""
        report = yield
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        self._skip_if_missing(report, parameters)
        return report

    def _skip_if_missing(self, report: Any, parameters: Iterable[object]) -> None:
        named = [
            *self.needed,
            *_find_missing_extensions(str(report.longrepr)),
            *_find_extensions_of_parameters(parameters),
        ]
        if report.failed and named:
            report.outcome = "skipped"
            report.longrepr = (str(report.nodeid), 0, f"needs the extension {named[0]}")


def _find_missing_extensions(text: str) -> list[str]:
    found = _MISSING.finditer(text)
    return [one["module"] or one["named"] or "that a command names" for one in found]


def _find_extensions_of_parameters(parameters: Iterable[object]) -> list[str]:
    """Return the missing extensions whose commands the parameters of a test name."""
    lines = (
        one if isinstance(one, str) else " ".join(map(str, one))
        for one in parameters
        if isinstance(one, str | list | tuple)
    )
    words = [word for line in lines for word in line.split()[:1]]
    return [
        name
        for word in words
        for name in find_extensions_of_command(word)
        if not is_installed(name)
    ]
