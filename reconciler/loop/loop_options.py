"""What a loop is told when it is started."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.loop.agent import Agent


@dataclass(frozen=True, slots=True)
class Orders:
    """How the loop works: ``time_limit`` in seconds, ``max_parallel`` stages at a time.

    ``served``: the runner started it; it begins nothing while the file ``PAUSE`` exists.
    ``report``: where a report of completion is to go, relative to the root, None for the usual
    place.
    """

    agent: Agent | None = None
    max_parallel: int = 1
    time_limit: float | None = None
    served: bool = False
    report: str | None = None
