"""Under which name and version the checkpoint of the history's tables is stored.

Anyone who only asks whether there is one loads no tables for it.
"""

from __future__ import annotations

from typing import Any

from lifecycle.event import Event
from lifecycle.fold.evolve import REDUCER

#: The reducer whose stored fold is the checkpoint.
NAME = "history"
#: Raised with every change of what the rows hold: rows of another format are made anew.
FORMAT = 4
#: Which rows the tables hold: the fold's own version and the rows' format.
VERSION = REDUCER * 1000 + FORMAT


def jobs_seen(event: Event) -> list[dict[str, Any]]:
    """Return each job as an object; none for other events and for evidence of another shape.

    Other events give their evidence in words (`stage.completed`), or give none.
    """
    evidence = event.data.get("evidence") if event.type == "attempt.observed" else None
    jobs = evidence.get("jobs") if isinstance(evidence, dict) else None
    return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
