"""Watches an attempt whose jobs wait for a scheduler or run on another machine.

Run by the wrapper as a process of its own: it looks, and looks again, until there is something
for DPDispatcher to do. DPDispatcher itself gives up at the first silence of a scheduler, and only
looks every half a minute.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.attempt.execution_host import of as machine_of
from reconciler.attempt.markers import Marker, SeenMarker
from reconciler.attempt.paths import AttemptPaths, OfJob, Watched, named
from reconciler.errors import ReconcilerError
from reconciler.evidence.collect import collect, note_alone
from reconciler.evidence.evidence import Evidence
from reconciler.far import ask
from reconciler.records import traces
from reconciler.verdict.table import Action, Name, Verdict, verdict
from service.root.disk import system_clock, utc_text, write_whole

#: Seconds between looks: short for short jobs, then as long as DPDispatcher's own.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
#: Seconds between looks at the records of jobs whose files lie on this machine.
_GLANCE = 0.5
#: Seconds without an answer after which somebody else is to be told.
PATIENCE = 600.0
#: Seconds until a record that was missing is looked for again.
AGAIN = 5.0
_WATCHED = {
    Action.LAUNCH: Watched.NOTHING,
    Action.SUCCEEDED: Watched.COLLECTED,
    Action.FAILED: Watched.OVER,
    Action.LOST: Watched.OVER,
}
#: The verdicts whose action alone does not tell what the monitor does.
_WATCHED_BY_NAME = {
    # The claims of its starts are gone: DPDispatcher would compute it a second time.
    Name.ORPHAN_DIR_DELETED: Watched.REMOVED,
    Name.PURGED: Watched.REMOVED,
    # Asked again it says the same, until a person has corrected the mistake.
    Name.MACHINE_REFUSED: Watched.SILENT,
    Name.FINISHED_NOT_COLLECTED: Watched.OVER,
    Name.ASKED_THROUGH_DPDISPATCHER: Watched.OVER,
}


Look = tuple[Evidence, Verdict]
"""What was seen, and how it is judged."""


def watch(attempt: AttemptPaths, patience: float = PATIENCE) -> Watched:
    """Look until the jobs are over, or nothing of them is there, or no answer comes for long."""
    answered, pauses = time.monotonic(), _pauses()
    while True:
        evidence, judged = surely(partial(_look, attempt))
        found = _watched(judged)
        _say(evidence, judged)
        _keep(attempt, evidence)
        note_alone(attempt, evidence)
        if found is not None:
            return found
        if evidence.silence is None:
            answered = time.monotonic()
        elif time.monotonic() - answered > patience:
            return Watched.SILENT
        if _news_within(attempt, evidence, next(pauses)):
            # How a job ended its scheduler says soon, and not for long.
            pauses = _pauses()


def surely(look: Callable[[bool], Look]) -> Look:
    """Look, and look again where the first look alone must not decide; ``look`` is told so."""
    seen = look(False)
    if not seen[1].needs_second_look:
        return seen
    time.sleep(AGAIN)
    return look(True)


def _look(attempt: AttemptPaths, again: bool) -> Look:
    # This process is the monitor; what an earlier one said of itself does not matter here.
    evidence = replace(
        collect(attempt, utc_text(system_clock())),
        monitor_locked=False,
        monitor_alive=False,
        session=False,
        exit_marker=Marker(SeenMarker.NONE),
        looked_twice=again,
    )
    return evidence, verdict(evidence)


def _watched(found: Verdict) -> Watched | None:
    return _WATCHED_BY_NAME.get(found.name, _WATCHED.get(found.action))


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _news_within(attempt: AttemptPaths, evidence: Evidence, pause: float) -> bool:
    """Wait, but no longer than until a job whose records lie here has written its end."""
    known = sum(job.exit_code is not None for job in evidence.jobs)
    end = time.monotonic() + pause
    while time.monotonic() < end:
        time.sleep(min(_GLANCE, pause))
        if len(traces.told(attempt, OfJob.EXIT)) > known:
            return True
    return False


def _keep(attempt: AttemptPaths, evidence: Evidence) -> None:
    try:
        traces.keep(attempt, evidence.jobs)
    except OSError as error:
        # Anyone who is watched lives on without it, and the next look tries again.
        print(f"{evidence.observed_at} {attempt.last_words}: {error}", flush=True)


def _say(evidence: Evidence, found: Verdict) -> None:
    goes_on = _watched(found) is None and found.action is Action.ATTACH
    text = f"{evidence.observed_at} " + (
        "it waits or runs" if goes_on else f"{found.name}: {found.reason}"
    )
    print(f"{text} ({evidence.silence})" if evidence.silence else text, flush=True)


def main(arguments: list[str]) -> int:
    """Watch the attempt of ROOT WORKFLOW STAGE ATTEMPT OUTPUT…; the exit code says how it is."""
    root, workflow, stage, name, *outputs = arguments
    attempt = named(Path(root), workflow, stage, name, tuple(outputs))
    attempt = replace(attempt, sha256=os.environ.get("WFCTL_SUBMISSION", ""))
    found = watch(attempt, float(os.environ.get("WFCTL_PATIENCE", PATIENCE)))
    try:
        # DPDispatcher is to submit, or to collect, and needs this for it.
        if found is Watched.OVER:
            ask.tag_jobs(attempt)
            if machine_of(attempt).is_far:
                ask.keep(attempt)
        elif found is Watched.NOTHING and machine_of(attempt).is_far:
            place = ask.make_place(attempt)
            write_whole(attempt.place_record, json.dumps(place).encode() + b"\n")
    except ReconcilerError as error:
        print(error.message)
        return Watched.BROKEN if found is Watched.NOTHING else Watched.SILENT
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
