"""Draw a history by its seed, run it with the real reconciler, and check its invariants.

``python -m tests.simulation.history SEED`` runs one history and prints it as sentences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.plan.document import build_creation_payload
from lifecycle.state.status import FINISHED, Status
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt import execution_host, paths
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import JobContext, LaunchResult, Mode, SubmissionFacts
from reconciler.control import dispatch, judge_attempts, reconcile
from reconciler.dpdispatcher import watch
from reconciler.errors import ReconcilerError
from reconciler.evidence.collect import Survey
from reconciler.evidence.evidence import Evidence
from reconciler.files import hand_launched_jobs
from reconciler.host import processes
from reconciler.loop import run
from reconciler.loop.end_loop import LoopEnd, SessionOptions, build_completed_end
from reconciler.loop.stop_request import StopRequest
from reconciler.verdict.diagnosis import Diagnosis
from reconciler.verdict.table import Verdict
from service.errors import RootBusy
from service.writing.stream_writer import Planned, WriteOptions
from service.writing.workflow_service import Outcome
from tests.simulation.list_log import ListJobs, ListLog, ListService
from tests.simulation.sweep import PARAMETERS, STAGE, Sweep
from tests.simulation.world import BOOT, HOST, Attempt, Backend, Violation, World

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.writing.workflow_service import Service

ROOT = Path("/simulated")
_CREATED = "2026-05-04T00:00:00.000000Z"
#: Folder for the files of sweeps. A folder in memory is faster.
_MEMORY = Path("/dev/shm")
#: One of this many histories is a history of a sweep, which is slower.
_SWEEP_EVERY = 20
#: Seconds after which a session of the loop ends.
_NIGHT = 3_000.0
#: Maximum number of sessions with faults, and of sessions after the last fault.
_NIGHTS, _QUIET_NIGHTS = 3, 5
#: Probability that a person restores an older log after a session.
_RESTORED = 0.25
#: Verdicts that rest on the absence of a job or its files.
_ABSENCE = frozenset(
    {
        *("VANISHED", "PURGED", "NEVER_RAN", "JOB_LOST", "NEVER_STARTED", "NEVER_SUBMITTED"),
        *("MONITOR_KILLED_EARLY", "LEFT_BEHIND", "RESULTS_LOST"),
    }
)
_NOTHING = Diagnosis("unknown", "", has_output=False)


class Killed(BaseException):
    """A process of wfctl is killed."""


@cache
def build_sweep_plan() -> Payload:
    """Return the command that creates a workflow of one sweep."""
    stage = {"id": STAGE, "name": STAGE, "outputs": [f"{STAGE}/tasks.csv"]}
    plan = {"workflow_id": "w", "stages": [{**stage, "parameters": PARAMETERS}]}
    return build_creation_payload(plan, created=_CREATED, consent="trust")


@cache
def build_plan(stages: int, verify: bool) -> Payload:
    """Return the command that creates a workflow of a chain of stages, with or without a check."""
    ids = [f"stage-{number + 1}" for number in range(stages)]
    check = {"verify": "check"} if verify else {}
    found = [
        {
            "id": id_,
            "name": id_,
            "depends_on": ids[:number],
            "outputs": [f"{id_}/out.txt"],
            "parameters": {"command": "compute", **check},
        }
        for number, id_ in enumerate(ids)
    ]
    plan = {"workflow_id": "w", "stages": found}
    return build_creation_payload(plan, created=_CREATED, consent="trust")


class History:
    """One simulated history: a world, a log, and the processes of wfctl that use them."""

    def __init__(self, seed: int, folder: Path | None = None) -> None:
        """Draw a history. With ``folder``, its only stage is a sweep that works there."""
        self.random = Random(seed)
        backends = list(Backend) if folder is None else [Backend.SHELL, Backend.SLURM]
        backend = self.random.choice(backends)
        stages = ["stage-1", "stage-2"][: self.random.choice((1, 1, 2)) if folder is None else 1]
        self.world = World(self.random, backend, {id_: f"{id_}/out.txt" for id_ in stages})
        self.root = folder or ROOT
        if folder is not None:
            self.world.sweep = Sweep(folder, self.random, self.world.tell)
        self.log = ListLog(self.observe_append)
        service = ListService(self.root, self.log, self.world.now)
        self.jobs = ListJobs(
            cast("Service", service), _Runner(self), lambda *_a, **_k: None, lambda _outcome: None
        )
        #: For each stage, the newest observation that is the newest event of the stage.
        self.newest_observation: dict[str, tuple[object, ...]] = {}
        #: Keys of tasks whose folder had no own result when the tasks were last recorded.
        self.wrong_tasks: list[str] = []
        #: Keys of tasks whose own results were recorded with their digests.
        self.recorded_tasks: set[str] = set()
        self.is_nested = False
        self.kills_left = self.random.choice((0, 0, 1, 2))
        self.visits_left = self.random.choice((0, 0, 1, 2))
        self.world.tell(f"the workflow has {len(stages)} stages; its jobs run in {backend}")
        is_checked = self.random.random() < 0.3
        plan = build_plan(len(stages), is_checked) if folder is None else build_sweep_plan()
        self.jobs.service.handle(plan)

    # Interruptions

    def interrupt(self) -> None:
        """Possibly kill the current process of wfctl, or run another one meanwhile."""
        if self.world.is_quiet or self.is_nested:
            return
        draw = self.random.random()
        if draw < 0.05 and self.kills_left > 0:
            self.kills_left -= 1
            self.world.tell("wfctl is killed")
            raise Killed
        if draw > 0.93 and self.visits_left > 0:
            self.visits_left -= 1
            self._run_nested()

    def _run_nested(self) -> None:
        self.is_nested = True
        self.world.tell("another wfctl reconciles meanwhile")
        try:
            with suppress(RootBusy, LifecycleError, ReconcilerError):
                reconcile.reconcile_stages(self.jobs)
        finally:
            self.is_nested = False

    def step(self, seconds: float) -> None:
        """Let time pass in the world."""
        self.world.step(max(seconds, self.random.choice((5.0, 60.0, 240.0))))
        self.interrupt()

    def monotonic(self) -> float:
        """Return the seconds since the start of the history."""
        return self.world.monotonic()

    # The night

    def run_night(self) -> LoopEnd | None:
        """Run one session of the loop, or return None if it is killed."""
        jobs = self.jobs
        try:
            with suppress(RootBusy):
                reconcile.reconcile_stages(jobs)
            state = jobs.service.state()
            if state.is_finished:
                return build_completed_end(state)
            jobs.record(p.SessionStarted(driven=True))
            orders = SessionOptions(time_limit=_NIGHT, is_attended=True)
            ended = run._close_session(jobs, run.WorkflowLoop(jobs, orders, StopRequest()).drive())
        except Killed:
            return None
        self.world.tell(f"the session ends: {ended.exit_reason}: {ended.message}")
        return ended

    def act_as_person(self) -> None:
        """Retry failed stages, or restore an older log."""
        state = self.jobs.service.state()
        for stage in state.stages.values():
            if stage.status is Status.FAILED and self.random.random() < 0.5:
                self.world.tell(f"a person retries {stage.id}")
                with suppress(LifecycleError):
                    self.jobs.record(p.StageRetried(stage=stage.id, fix="corrected"))
        if self.random.random() < _RESTORED and len(self.log.appends) > 3:
            kept = self.random.randrange(1, len(self.log.appends))
            self.world.tell(
                f"the log is restored as it was {len(self.log.appends) - kept} appends ago"
            )
            del self.log.appends[kept:]
            self.world.was_log_restored = True
            self.newest_observation.clear()
            self.recorded_tasks.clear()

    def run(self) -> None:
        """Run the history, and raise `Violation` if an invariant is broken."""
        with self.replace_world():
            for _ in range(self.random.randrange(_NIGHTS)):
                self.run_night()
                with suppress(Killed):
                    self.act_as_person()
                self.world.step(300)
            self.world.heal()
            for _ in range(_QUIET_NIGHTS):
                ended = self.run_night()
                if ended is not None and ended.exit_reason in ("completed", "blocked"):
                    self.check_end(ended)
                    return
        raise Violation("the workflow neither ends nor names a person")

    # Invariants

    def observe_append(self, when: str, planned: Planned, before: Workflow | None) -> None:
        """Check the events of an append, before and after which wfctl may be killed."""
        if when == "before":
            if before is not None:
                self.interrupt()
            return
        for payload, _ in planned:
            self._check_event(payload)
        if before is not None:
            self.interrupt()

    def _check_event(self, event: Any) -> None:
        stage_id = getattr(event, "stage", None)
        if stage_id is not None and event.type not in ("cost.charged", "note.logged"):
            self.world.tell(
                f"log: {event.type} {stage_id} {getattr(event, 'verdict', '')}".rstrip()
            )
        if event.type == "attempt.observed":
            self._check_observation(event)
        elif event.type == "stage.computed":
            self._check_computed(event)
        elif event.type == "stage.retried":
            self.world.give_up_results(event.stage)
        elif event.type == "tasks.observed" and self.world.sweep is not None:
            self._note_results(event, self.world.sweep)
        elif stage_id is not None and event.type != "cost.charged":
            self.newest_observation.pop(stage_id, None)

    def _note_results(self, event: p.TasksObserved, sweep: Sweep) -> None:
        # A folder that changes after its digest was recorded is found by `wfctl verify --deep`.
        wrong = sweep.find_wrong_results()
        self.wrong_tasks = [key for key in wrong if key not in self.recorded_tasks]
        if event.record is not None:
            self.recorded_tasks |= {point.key for point in sweep.points} - {*wrong}

    def _check_observation(self, event: p.AttemptObserved) -> None:
        seen = (event.attempt, event.verdict, event.row, event.reason, event.waiting)
        if self.newest_observation.get(event.stage) == seen:
            raise Violation(f"the log repeats {event.verdict} of {event.stage}")
        self.newest_observation[event.stage] = seen
        tag, observed_at = str(event.evidence["attempt"]), str(event.evidence["observed_at"])
        final = event.action in ("lost", "launch", "failed")
        if final and event.verdict in _ABSENCE and self.world.unanswered[tag, observed_at]:
            raise Violation(f"{event.verdict} of {tag} rests on a machine that did not answer")

    def _check_computed(self, event: p.StageComputed) -> None:
        state = self.jobs.service.state()
        if self.world.sweep is not None:
            if self.wrong_tasks:
                raise Violation(f"{event.stage} is computed, but {self.wrong_tasks[0]} is not")
            return
        recorded = next(a for a in state.stage(event.stage).attempts if a.id == event.attempt)
        path = self.jobs.attempt(state, state.stage(event.stage), recorded.id)
        one = self.world.attempts[path.tag]
        is_unknown = one.is_seen_alone and bool(state.stage(event.stage).parameters.get("verify"))
        if not (one.has_succeeded or is_unknown):
            raise Violation(f"{one.tag} is recorded as computed, but its job did not succeed")

    def check_end(self, ended: LoopEnd) -> None:
        """Check that nothing is lost, and that a person or an action is named."""
        state = self.jobs.service.state()
        named = {one.stage for one in ended.hindrances}
        for stage in state.stages.values():
            waits = any(state.stage(id_).status not in FINISHED for id_ in stage.depends_on)
            if stage.status not in FINISHED and not waits and stage.id not in named:
                raise Violation(f"{stage.id} is {stage.status}, and the end names nobody for it")
            self._check_nothing_lost(state, stage)
        if ended.exit_reason == "blocked" and not ended.next:
            raise Violation("the session ends without a next action")

    def _check_nothing_lost(self, state: Workflow, stage: Stage) -> None:
        if stage.status in FINISHED or self.world.was_log_restored:
            return
        for recorded in stage.attempts[-1:]:
            one = self.world.attempts[self.jobs.attempt(state, stage, recorded.id).tag]
            if self.world.is_result_available(one) and stage.status is not Status.FAILED:
                raise Violation(f"{one.tag} has a result, but {stage.id} is {stage.status}")

    # The seam

    @contextmanager
    def replace_world(self) -> Iterator[None]:
        """Replace every access of the reconciler to the outer world while the block runs."""
        replaced = list(self._list_replacements())
        before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
        for module, name, function in replaced:
            setattr(module, name, function)
        try:
            yield
        finally:
            for module, name, function in before:
                setattr(module, name, function)

    def _list_replacements(self) -> Iterator[tuple[Any, str, Any]]:
        clock = SimpleNamespace(monotonic=self.monotonic, sleep=self.step)
        yield from ((module, "time", clock) for module in (judge_attempts, reconcile, run, watch))
        yield processes, "host", lambda: HOST
        yield processes, "boot_id", lambda: BOOT
        yield paths, "generate_attempt_mark", self.world.create_name
        yield from self._replace_observations()
        yield from self._replace_actions()

    def _replace_observations(self) -> Iterator[tuple[Any, str, Any]]:
        yield judge_attempts, "survey_attempts", self._survey
        yield judge_attempts, "collect_evidence", self._collect
        yield execution_host, "load_execution_host", self._load_execution_host
        yield judge_attempts, "_find_unlogged_attempts", self._find_unlogged_attempts
        yield (
            judge_attempts,
            "_find_attempts_without_folder",
            self._find_attempts_without_folder,
        )
        yield judge_attempts, "_is_newer_than_log_and_inputs", self._is_newer_than_log
        yield judge_attempts, "_can_be_watched", lambda _attempt: True
        yield judge_attempts, "_has_current_definition", lambda *_: self.world.sweep is None
        yield judge_attempts, "_has_usable_result", self._has_usable_result
        yield (
            judge_attempts,
            "find_foreign_launch_inputs",
            lambda *_: {"submission_sha256": "0" * 64},
        )
        yield judge_attempts, "read_json", lambda _path: {"root": str(self.root), "host": HOST}
        yield judge_attempts, "read_launch_time", self._read_launch_time
        yield hand_launched_jobs, "find_manual_launches", lambda *_: []
        yield run, "find_manual_edits", lambda *_: None
        yield run, "find_log_differences", lambda *_: SimpleNamespace(deviations=())
        yield run, "find_stale_stages", lambda *_: ()

    def _replace_actions(self) -> Iterator[tuple[Any, str, Any]]:
        yield run, "dispatch_stage", self._dispatch
        yield run, "verify_and_record_stage", self._verify
        yield from ((module, "prepare_attempt", self._prepare) for module in (dispatch, reconcile))
        yield reconcile, "stop_attempt", self._stop
        yield reconcile, "stop_marked_attempts", lambda *_a, **_k: None
        yield reconcile, "collect_leftovers", lambda *_a, **_k: []
        yield reconcile, "with_digests", lambda _root, evidence: evidence
        yield reconcile, "record_orphaned_jobs", self.world.record_orphaned_jobs
        yield reconcile, "restore_results", self.world.restore_results
        yield reconcile, "diagnose_attempt", lambda *_: _NOTHING
        yield reconcile, "read_software_versions", lambda _attempt: {}
        yield dispatch, "stop_attempt_before_rerun", self._stop_before_rerun
        yield dispatch, "check_upstream_results", lambda *_: None
        yield dispatch, "check_inputs_unchanged", lambda *_: None
        yield dispatch, "move_old_outputs_aside", lambda *_: False
        yield dispatch, "check_submission_unchanged", lambda *_: None
        yield dispatch, "list_forwarded_files", lambda _attempt: []
        yield dispatch, "move_stale_files_aside", self._move_outputs_aside

    def _load_execution_host(self, attempt: AttemptPaths) -> Any:
        return SimpleNamespace(is_far=self.world.backend.is_far, scratch=str(attempt.work))

    def _survey(self, attempts: Sequence[AttemptPaths], *, fresh: bool = False) -> Survey:
        self.interrupt()
        found = self.world.survey(attempts, fresh=fresh)
        if attempts and self.random.random() < 0.2:
            self.world.step(1)  # jobs may end before their records are read
        return found

    def _collect(self, attempt: AttemptPaths, now: str, **known: Any) -> Evidence:
        return self.world.collect(attempt, now, **known)

    def _find_unlogged_attempts(
        self, _jobs: JobContext, _state: Workflow, stage: Stage
    ) -> Iterator[AttemptPaths]:
        for one in self._list_unlogged(stage):
            if one.launched_at is not None:
                yield replace(one.paths, sha256="")

    def _find_attempts_without_folder(
        self, _jobs: JobContext, _state: Workflow, stage: Stage
    ) -> Iterator[AttemptPaths]:
        for one in self._list_unlogged(stage):
            if one.launched_at is None and self.world.has_claim(one):
                yield replace(one.paths, sha256="")

    def _list_unlogged(self, stage: Stage) -> list[Attempt]:
        """Return the attempts of a stage that are not in the log."""
        known = {one.name for one in stage.attempts}
        return [
            one
            for one in self.world.attempts.values()
            if one.paths.stage == stage.id and one.paths.name not in known
        ]

    def _is_newer_than_log(
        self, _jobs: JobContext, _state: Workflow, _stage: Stage, one: AttemptPaths
    ) -> bool:
        return self.world.attempts[one.tag].launched_at is not None

    def _has_usable_result(
        self, _root: Path, _stage: Stage, one: AttemptPaths, _seen: Evidence, found: Verdict
    ) -> bool:
        known = self.world.attempts[one.tag]
        is_in_place = self.world.in_place.get(self.world.outputs[one.stage]) == one.tag
        return found.is_uncollected or (is_in_place and known.is_marked_done)

    def _read_launch_time(self, attempt: AttemptPaths) -> int | None:
        return self.world.attempts[attempt.tag].launched_at

    def _dispatch(
        self, jobs: JobContext, id_: str, *, options: WriteOptions, **_more: Any
    ) -> Outcome:
        with jobs.lock_stage(id_):
            return dispatch._start_next_attempt(jobs, id_, Mode.TMUX, options, False, None)

    def _prepare(
        self,
        _jobs: JobContext,
        state: Workflow,
        stage: Stage,
        attempt: AttemptPaths,
        mode: Mode,
        recovers: str | None = None,
        *_more: Any,
        **_named: Any,
    ) -> p.AttemptStarted:
        self.interrupt()
        count = None
        if self.world.sweep is not None:
            count = self.world.sweep.assign(state, stage, attempt, recovers)
        self.world.prepare(attempt)
        return judge_attempts.build_start_command(
            attempt, mode, submission_sha256="0" * 64, recovers=recovers, tasks=count
        )

    def _verify(self, jobs: JobContext, stage: Stage) -> None:
        attempt = jobs.attempt(jobs.service.state(), stage, stage.attempts[-1].id)
        if self.world.attempts[attempt.tag].has_succeeded or self.world.sweep is not None:
            jobs.record(p.StageCompleted(stage=stage.id, evidence="the outputs were checked"))
        else:
            jobs.record(p.StageFailed(stage=stage.id, error="the check failed"))

    def _stop(self, attempt: AttemptPaths) -> Any:
        self.interrupt()
        return self.world.stop(attempt)

    def _stop_before_rerun(self, jobs: JobContext, stage: Stage) -> None:
        if stage.attempt is not None:
            attempt = jobs.attempt(jobs.service.state(), stage, stage.attempt.id)
            for one in self.world.attempts.values():
                if one.paths.stage == stage.id:
                    one.has_monitor = False
            self.world.stop(attempt)

    def _move_outputs_aside(self, _root: Path, stage: str, *_: Any) -> None:
        self.world.move_outputs_aside(stage)


class _Runner:
    """The job runner of a history."""

    def __init__(self, history: History) -> None:
        self.history = history

    def check(self, *_: Any) -> str:
        """Return the digest of a submission."""
        return "0" * 64

    prepare = check

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor of an attempt."""
        self.history.interrupt()
        found = self.history.world.launch(attempt, mode)
        self.history.interrupt()
        return found

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """Return whether no monitor of the stage is running."""
        if timeout != 0:
            self.history.world.step(5)
        return not self.history.world.is_stage_monitored(attempt.stage)

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """Return the facts about the attempt's submission."""
        return self.history.world.read_facts(attempt)


def run_history(seed: int) -> History:
    """Run the history of a seed. Raise `Violation` with the history as sentences.

    Every 20th history is one of a sweep.
    """
    if seed % _SWEEP_EVERY:
        return _run(History(seed), seed)
    place = _MEMORY if _MEMORY.is_dir() else None
    with TemporaryDirectory(dir=place) as folder:
        return _run(History(seed, Path(folder)), seed)


def _run(history: History, seed: int) -> History:
    try:
        history.run()
    except Exception as error:
        told = "\n".join(history.world.sentences)
        again = f"python -m tests.simulation.history {seed}"
        raise Violation(f"{error}\nrun this history again: {again}\n{told}") from error
    return history


if __name__ == "__main__":
    print("\n".join(run_history(int(sys.argv[1])).world.sentences))
