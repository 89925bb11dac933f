"""The runner of a command that may find nothing to run: loaded when it is first asked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from reconciler.context import JobRunner


def late_runner() -> JobRunner:
    """Return the runner through DPDispatcher, whose modules no command loads in vain."""
    return cast("JobRunner", _Late())


class _Late:
    @cached_property
    def runner(self) -> JobRunner:
        from reconciler.dpdispatcher.runner import DPDispatcherRunner

        return DPDispatcherRunner()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)
