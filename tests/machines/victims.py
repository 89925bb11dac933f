"""A process that kills itself before its N-th disk operation, for tests of crashes."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

_STEPS: tuple[tuple[Any, str], ...] = (
    (os, "fsync"),
    (pathlib.Path, "replace"),
    (pathlib.Path, "rename"),
    (pathlib.Path, "mkdir"),
    (pathlib.Path, "rmdir"),
)


def arm(number: int) -> None:
    """Let this process die before its N-th disk operation."""
    left = [number]
    for owner, name in _STEPS:
        setattr(owner, name, _counted(getattr(owner, name), left))


def _counted(real: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def step(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    return step
