"""The last words: how a scheduler said that it ended jobs, kept for when it has forgotten them.

A scheduler lists a job for some minutes after its end, and who asks how it ended may come later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from reconciler.attempt.observed import ObservedJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.host.scheduler import EXCEEDED, TAKEN
from reconciler.records.traces import read_json
from service.root.disk import write_whole


def keep(attempt: AttemptPaths, jobs: Iterable[ObservedJob]) -> None:
    """Write down what was just said of the jobs' ends; of one that is listed anew nothing."""
    kept = _kept(attempt)
    said = {job.id: job.queued for job in jobs if job.id is not None and job.queued is not None}
    ends = {
        id_: word for id_, word in {**kept, **said}.items() if word in TAKEN or word in EXCEEDED
    }
    if ends != kept:
        write_whole(attempt.last_words, json.dumps(ends).encode() + b"\n")


def recall(attempt: AttemptPaths, jobs: Iterable[ObservedJob]) -> tuple[ObservedJob, ...]:
    """Return the jobs; one that left no word of its own with what was said of its end, if any."""
    kept = _kept(attempt)
    return tuple(
        replace(job, queued=kept.get(job.id or "")) if _is_unexplained(job) else job for job in jobs
    )


def _is_unexplained(job: ObservedJob) -> bool:
    return job.queued is None and not (job.is_over or job.is_finished or job.tag)


def _kept(attempt: AttemptPaths) -> dict[str, str]:
    kept = read_json(attempt.last_words) or {}
    return {id_: word for id_, word in kept.items() if isinstance(word, str)}
