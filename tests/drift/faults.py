"""Simulated crashes at every step between a commit and the write of the last file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.files import drift
from service.files import workflow_files as files
from service.files.workflow_files import WorkflowFiles
from service.reading import trust_marks as marks
from service.root import atomic_files
from service.root.atomic_files import Mark, content_of


class Killed(BaseException):
    """A simulated death of the process. No code may catch this exception."""


class Faults:
    """Stop the process after N disk writes; a torn write stores only half of its bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.countdown: int | None = None
        self.torn = False
        self.steps = 0
        for module, name in (
            (files, "replace_file_if_unchanged"),
            (marks, "write_sync"),
            (drift, "write_whole"),
        ):
            monkeypatch.setattr(module, name, self._before(getattr(module, name)))
        monkeypatch.setattr(
            files, "append_if_unchanged", self._append(atomic_files.append_if_unchanged)
        )
        monkeypatch.setattr(
            files, "overwrite_in_place", self._restore(atomic_files.overwrite_in_place)
        )
        monkeypatch.setattr(
            WorkflowFiles,
            "_record_changes_and_write",
            self._before(WorkflowFiles._record_changes_and_write),
        )

    def _is_last(self) -> bool:
        self.steps += 1
        if self.countdown is None:
            return False
        self.countdown -= 1
        return self.countdown < 0

    def _before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            if self._is_last():
                raise Killed
            return real(*arguments, **named)

        return step

    def _append(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Any, content: bytes, mark: Mark | None) -> Any:
            if not self._is_last():
                return real(path, content, mark)
            if self.torn:
                path.write_bytes((content_of(path) or b"") + content[: len(content) // 2])
            raise Killed

        return step

    def _restore(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Any, content: bytes, mark: Mark | None) -> Any:
            if not self._is_last():
                return real(path, content, mark)
            if self.torn:
                half = len(content) // 2
                path.write_bytes(content[:half] + (content_of(path) or b"")[half:])
            raise Killed

        return step

    def after(self, countdown: int, torn: bool, act: Callable[[], object]) -> bool:
        """Call `act`, stop it after `countdown` disk writes, and return whether it was stopped."""
        self.countdown, self.torn = countdown, torn
        try:
            act()
        except Killed:
            return True
        finally:
            self.countdown = None
        return False
