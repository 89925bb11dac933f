"""Import the job runner only when it is first used, because its imports are slow."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from reconciler.context import JobRunner


def late_runner() -> JobRunner:
    """Return a job runner that uses DPDispatcher and imports its modules at the first use."""
    return cast("JobRunner", _Late())


class _Late:
    @cached_property
    def runner(self) -> JobRunner:
        from reconciler.dpdispatcher.runner import DPDispatcherRunner

        return DPDispatcherRunner()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)
