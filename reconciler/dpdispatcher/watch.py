"""Watch an attempt whose jobs wait for a scheduler or run on another machine.

The wrapper runs this module as a separate process, which checks the jobs until DPDispatcher has
work to do. DPDispatcher itself gives up if a scheduler does not answer once, and checks only every
30 s.
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

from reconciler.attempt.execution_host import load_execution_host as machine_of
from reconciler.attempt.markers import Marker, MarkerState
from reconciler.attempt.paths import AttemptPaths, JobRecordSuffix, WatchResult, parse_attempt_name
from reconciler.errors import ReconcilerError
from reconciler.evidence.collect import collect_evidence, record_orphaned_jobs, survey_attempts
from reconciler.evidence.evidence import Evidence
from reconciler.far import query_machine
from reconciler.records import traces
from reconciler.verdict.table import (
    Action,
    Situation,
    Verdict,
    derive_verdict,
    has_running_or_queued_job,
    needs_fresh_answer,
)
from service.root.atomic_files import system_clock, utc_text, write_whole

#: Seconds between two checks of the jobs. The pauses start short, because jobs may be short, and
#: grow to the pauses of DPDispatcher.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
#: Seconds between two checks whether a job has recorded its end on this machine.
_GLANCE = 0.5
#: Seconds in which no check shows the state of the jobs, after which watching ends and the user is
#: informed.
PATIENCE = 600.0
#: Seconds to wait before a check that found something missing is repeated.
AGAIN = 5.0
_WATCHED = {
    Action.LAUNCH: WatchResult.NOTHING,
    Action.SUCCEEDED: WatchResult.COLLECTED,
    Action.FAILED: WatchResult.OVER,
    Action.LOST: WatchResult.OVER,
}
#: Verdicts for which the result of watching does not follow from the verdict's action.
_WATCHED_BY_NAME = {
    # The records of the job starts were removed. DPDispatcher would therefore compute the job a
    # second time.
    Situation.ORPHAN_DIR_DELETED: WatchResult.REMOVED,
    Situation.PURGED: WatchResult.REMOVED,
    # Asking again is useless, because the machine refuses until a person corrects the mistake.
    Situation.MACHINE_REFUSED: WatchResult.SILENT,
    Situation.FINISHED_NOT_COLLECTED: WatchResult.OVER,
    Situation.ASKED_THROUGH_DPDISPATCHER: WatchResult.OVER,
}


Look = tuple[Evidence, Verdict]
"""The evidence of one check, and the verdict on it."""


def watch_attempt(attempt: AttemptPaths, patience: float = PATIENCE) -> WatchResult:
    """Watch the jobs of an attempt until DPDispatcher or a person must act.

    Returns when the jobs have ended or are missing, or when no check has shown their state for
    ``patience`` seconds. The result is the reason why watching ended.
    """
    answered, pauses = time.monotonic(), _growing_pauses()
    while True:
        evidence, judged = confirm_with_second_check(partial(_inspect_attempt, attempt))
        found = _find_result(judged)
        _print_finding(evidence, judged)
        _record_scheduler_ends(attempt, evidence)
        record_orphaned_jobs(attempt, evidence)
        if found is not None:
            return found
        if _shows_state(evidence, judged):
            answered = time.monotonic()
        elif time.monotonic() - answered > patience:
            return WatchResult.SILENT
        if _wait_for_job_end(attempt, evidence, next(pauses)):
            # A job has ended, so check soon again: a scheduler reports only for a limited time how
            # a job ended.
            pauses = _growing_pauses()


def confirm_with_second_check(look: Callable[[bool], Look]) -> Look:
    """Check an attempt, and check again after some seconds if the result is not certain.

    ``look`` makes one check. It is called with True for the second check. Returns the evidence and
    the verdict of the last check.
    """
    seen = look(False)
    if not seen[1].needs_second_look:
        return seen
    time.sleep(AGAIN)
    return look(True)


def _inspect_attempt(attempt: AttemptPaths, again: bool) -> Look:
    seen = _inspect_once(attempt, again, fresh=again)
    return _inspect_once(attempt, again, fresh=True) if needs_fresh_answer(*seen) else seen


def _inspect_once(attempt: AttemptPaths, again: bool, *, fresh: bool) -> Look:
    # This process acts as the monitor now, so traces of an earlier monitor must not influence the
    # verdict.
    survey = survey_attempts([attempt], fresh=fresh)
    evidence = replace(
        collect_evidence(attempt, utc_text(system_clock()), survey=survey),
        monitor_locked=False,
        monitor_alive=False,
        session=False,
        exit_marker=Marker(MarkerState.NONE),
        looked_twice=again,
    )
    return evidence, derive_verdict(evidence)


def _shows_state(evidence: Evidence, found: Verdict) -> bool:
    """Return whether a check shows the state of the jobs.

    A machine may answer although nothing shows whether a job is running. Only a person can then
    find out, and is asked when the monitor has ended.
    """
    is_known = found.action is not Action.UNKNOWN or has_running_or_queued_job(evidence)
    return is_known and evidence.missing_answer_reason is None


def _find_result(found: Verdict) -> WatchResult | None:
    return _WATCHED_BY_NAME.get(found.name, _WATCHED.get(found.action))


def _growing_pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _wait_for_job_end(attempt: AttemptPaths, evidence: Evidence, pause: float) -> bool:
    """Wait for ``pause`` seconds, or until a job has recorded its end on this machine.

    Returns whether a job has recorded its end.
    """
    known = sum(job.exit_code is not None for job in evidence.jobs)
    end = time.monotonic() + pause
    while time.monotonic() < end:
        time.sleep(min(_GLANCE, pause))
        if len(traces.list_job_record_files(attempt, JobRecordSuffix.EXIT)) > known:
            return True
    return False


def _record_scheduler_ends(attempt: AttemptPaths, evidence: Evidence) -> None:
    try:
        traces.record_scheduler_ends(attempt, evidence.jobs)
    except OSError as error:
        # This file is not essential for the running jobs, and the next check tries to write it
        # again.
        print(f"{evidence.observed_at} {attempt.last_words}: {error}", flush=True)


def _print_finding(evidence: Evidence, found: Verdict) -> None:
    goes_on = _find_result(found) is None and found.action is Action.ATTACH
    text = f"{evidence.observed_at} " + (
        "it waits or runs" if goes_on else f"{found.name}: {found.reason}"
    )
    print(
        f"{text} ({evidence.missing_answer_reason})" if evidence.missing_answer_reason else text,
        flush=True,
    )


def main(arguments: list[str]) -> int:
    """Watch an attempt that the arguments describe, and return the result as an exit code.

    The arguments are ROOT WORKFLOW STAGE ATTEMPT OUTPUT….
    """
    root, workflow, stage, name, *outputs = arguments
    attempt = parse_attempt_name(Path(root), workflow, stage, name, tuple(outputs))
    attempt = replace(attempt, sha256=os.environ.get("WFCTL_SUBMISSION", ""))
    found = watch_attempt(attempt, float(os.environ.get("WFCTL_PATIENCE", PATIENCE)))
    try:
        # DPDispatcher recognizes finished jobs by these tags when it collects results, and needs
        # the folder to submit jobs.
        if found is WatchResult.OVER:
            query_machine.tag_finished_jobs(attempt)
            if machine_of(attempt).is_far:
                query_machine.keep_written_files(attempt)
        elif found is WatchResult.NOTHING and machine_of(attempt).is_far:
            place = query_machine.make_scratch_folder(attempt)
            write_whole(attempt.place_record, json.dumps(place).encode() + b"\n")
    except ReconcilerError as error:
        print(error.message)
        return WatchResult.BROKEN if found is WatchResult.NOTHING else WatchResult.SILENT
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
