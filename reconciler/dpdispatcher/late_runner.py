"""A job runner that is imported only when it is first used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from reconciler.context import JobRunner


def late_runner() -> JobRunner:
    """Return the runner through DPDispatcher, importing its modules only at the first use."""
    return cast("JobRunner", _Late())


class _Late:
    @cached_property
    def runner(self) -> JobRunner:
        from reconciler.dpdispatcher.runner import DPDispatcherRunner

        return DPDispatcherRunner()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runner, name)
