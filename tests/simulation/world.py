"""The simulated world: its clock, machines, scheduler and processes, and the files of attempts.

The world knows what really happens to each job. The reconciler sees only observations of the world,
which may be missing, late or cut.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from random import Random
from typing import Any

from reconciler.attempt.markers import Marker, MarkerState
from reconciler.attempt.observations import ObservedJob, RemoteAnswer
from reconciler.attempt.paths import AttemptPaths, ScriptEnd, WatchResult
from reconciler.context import LaunchResult, Mode, SubmissionFacts
from reconciler.control.stop_jobs import StopResult
from reconciler.dpdispatcher import watch
from reconciler.errors import AlreadyMonitored, MachineUnreachable
from reconciler.evidence.collect import Survey
from reconciler.evidence.evidence import Evidence, OutputEvidence, Presence
from reconciler.host.processes import FolderProcess
from reconciler.host.scheduler_jobs import ListedJob, Queue
from reconciler.verdict.table import derive_verdict
from service.root.atomic_files import utc_text
from tests.simulation.sweep import Sweep

HOST, BOOT = "host-1", "boot-1"
_START = datetime(2026, 5, 4, tzinfo=UTC)
_SECOND = 1_000_000_000
_NONE = Marker(MarkerState.NONE)
#: Exit codes of a job: its command failed, SIGKILL ended its command, or its scheduler ended it.
_FAILED, _KILLED, _TERMINATED = 1, 137, 143
#: Seconds for which an answer of the scheduler may be used again.
_QUERY_INTERVAL = 60
#: Seconds for which a scheduler lists a job after its end.
_LISTED_AFTER_END = 300


class Backend(StrEnum):
    """The machine on which the jobs of a history run."""

    SHELL = "a shell on this machine"
    SLURM = "Slurm on this machine"
    SSH = "a shell on another machine"
    SSH_SLURM = "Slurm on another machine"

    @property
    def is_far(self) -> bool:
        """Return whether the jobs run on another machine."""
        return self in (Backend.SSH, Backend.SSH_SLURM)

    @property
    def has_scheduler(self) -> bool:
        """Return whether a scheduler starts the jobs."""
        return self in (Backend.SLURM, Backend.SSH_SLURM)


class Violation(AssertionError):
    """The reconciler broke an invariant."""


@dataclass(slots=True)
class Run:
    """One submission of a job: a process, or a job of the scheduler."""

    id: str
    state: str = "PENDING"
    is_listed: bool = True
    ended_at: float | None = None
    #: Whether this run executes the command of the attempt.
    is_at_work: bool = False


@dataclass(slots=True)
class Attempt:
    """What really happened to an attempt, and the files that it wrote."""

    paths: AttemptPaths
    launched_at: int | None = None
    has_monitor: bool = False
    was_monitored: bool = False
    is_monitor_paused: bool = False
    exit_code_of_monitor: int | None = None
    is_marked_done: bool = False
    runs: list[Run] = field(default_factory=list)
    #: Id of the job that DPDispatcher recorded on this machine.
    known_id: str | None = None
    has_scratch: bool = False
    has_recovery_file: bool = False
    is_folder_deleted: bool = False
    #: Whether a file prevents the command from starting.
    is_barred: bool = False
    #: Records that the job writes.
    has_start_record: bool = False
    exit_code: int | None = None
    ended_at: int | None = None
    is_seen_alone: bool = False
    has_result_in_scratch: bool = False
    #: Truth that no record needs to show.
    is_running: bool = False
    has_shells: bool = False
    has_succeeded: bool = False
    was_success_recorded: bool = False
    starts: int = 0
    #: Whether a person asked to compute the stage again.
    is_given_up: bool = False
    silent_since: float | None = None

    @property
    def tag(self) -> str:
        """The name that identifies the attempt."""
        return self.paths.tag


class World:
    """The simulated world of one history."""

    def __init__(self, random: Random, backend: Backend, outputs: Mapping[str, str]) -> None:
        self.random = random
        self.backend = backend
        #: Output of each stage.
        self.outputs = outputs
        self.has_locks = random.random() < 0.8
        self.seconds = 0.0
        self.clock_offset = 0.0
        self.attempts: dict[str, Attempt] = {}
        #: For each output in place, the tag of the attempt that wrote it.
        self.in_place: dict[str, str] = {}
        self.is_machine_silent = False
        self.is_scheduler_silent = False
        self.cut_answers = 0
        self.is_quiet = False
        #: The tasks of the only stage, if it is a sweep.
        self.sweep: Sweep | None = None
        #: Whether the log was restored from a backup, so that attempts may be missing in the log.
        self.was_log_restored = False
        self.faults_left = random.randrange(4)
        self.sentences: list[str] = []
        self._queues: dict[str, tuple[float, Queue]] = {}
        self._snapshots: dict[str, tuple[Queue | None, RemoteAnswer | None, bool | None]] = {}
        #: For each attempt and time, whether its observation had no answer of its machine.
        self.unanswered: dict[tuple[str, str], bool] = {}
        self._names = 0

    def tell(self, text: str) -> None:
        """Add a sentence to the readable history."""
        self.sentences.append(f"{self.seconds:8.0f} s  {text}")

    # The clock

    def now(self) -> datetime:
        """Return the time that the wall clock shows."""
        return _START + timedelta(seconds=self.seconds + self.clock_offset)

    def monotonic(self) -> float:
        """Return the seconds since the start of the history."""
        return self.seconds

    def nanoseconds(self) -> int:
        """Return the time that the wall clock shows, in ns since the epoch."""
        return int(self.now().timestamp()) * _SECOND

    def create_name(self) -> str:
        """Return a name that was not used before, in hex."""
        self._names += 1
        return f"{self._names:08x}"

    # Observations

    def is_silent(self) -> bool:
        """Return whether the machine or the scheduler of the jobs gives no answer now."""
        far = self.backend.is_far and self.is_machine_silent
        return far or (self.backend.has_scheduler and self.is_scheduler_silent)

    def survey(self, attempts: Sequence[AttemptPaths], *, fresh: bool = False) -> Survey:
        """Observe processes and the scheduler for all attempts, as `survey_attempts` does."""
        for paths in attempts:
            one = self.attempts[paths.tag]
            queue = self._ask_scheduler(one, fresh=fresh) if self.backend.has_scheduler else None
            far = None
            if self.backend.is_far:
                error = "connection timed out" if self.is_machine_silent else None
                far = RemoteAnswer(self.nanoseconds(), error, has_folder=one.has_scratch)
            self._snapshots[one.tag] = (queue, far, one.is_running or one.has_shells)
        return Survey(machines={}, census=(), queues={}, answers={}, is_fresh=fresh)

    def _ask_scheduler(self, one: Attempt, *, fresh: bool) -> Queue | None:
        if self.backend.is_far and self.is_machine_silent:
            return None
        asked, answer = self._queues.get(one.tag, (-_QUERY_INTERVAL, None))
        if answer is not None and not fresh and self.seconds - asked < _QUERY_INTERVAL:
            return replace(answer, is_reused=True)
        if self.is_scheduler_silent:
            answer = Queue(self.nanoseconds(), None, "socket timed out")
        else:
            folder = str(one.paths.work)
            listed = [run for run in one.runs if run.is_listed]
            if self.cut_answers > 0 and listed:
                self.cut_answers -= 1
                self.tell(f"the scheduler cuts the list of jobs of {one.tag}")
                listed = []
            jobs = (ListedJob(run.id, run.state, folder) for run in listed)
            answer = Queue(self.nanoseconds(), tuple(jobs))
        self._queues[one.tag] = (self.seconds, answer)
        return answer

    def collect(self, paths: AttemptPaths, now: str, **known: Any) -> Evidence:
        """Return the evidence on an attempt, as `collect_evidence` does."""
        one = self.attempts[paths.tag]
        queue, far, is_alive = self._snapshots[one.tag]
        silent = far is not None and far.error is not None
        self.unanswered[one.tag, now] = silent or (queue is not None and queue.listed is None)
        tenants = None if silent else tuple(self._find_processes(one) if is_alive else ())
        return Evidence(
            observed_at=now,
            attempt=one.tag,
            root_recorded=known.get("recorded_root") or str(paths.root),
            root_now=str(paths.root),
            host_recorded=HOST,
            host_now=HOST,
            boot_recorded=BOOT,
            boot_now=BOOT,
            launched_at=one.launched_at,
            monitor_locked=self.is_stage_monitored(paths.stage),
            monitor_alive=one.has_monitor if one.was_monitored else None,
            monitor_stopped=one.has_monitor and one.is_monitor_paused,
            session=False,
            jobs=() if silent else tuple(self._observe_jobs(one, queue)),
            tenants=tenants,
            copies=("copy",) if one.has_scratch and not silent else (),
            recovery_file=one.has_recovery_file and one.has_scratch and not silent,
            backward_missing=self._find_missing_files(one) if not silent else (),
            exit_marker=self._observe_exit_marker(one),
            done_marker=Marker(MarkerState.OWN, 0, one.tag, 1) if one.is_marked_done else _NONE,
            outputs=tuple(self._observe_output(one, path) for path in paths.outputs),
            scheduler="Slurm" if self.backend.has_scheduler else None,
            queue=queue,
            far=far,
            submission_tried=far is not None and far.is_folder_missing and bool(one.runs),
        )

    def _find_processes(self, one: Attempt) -> Iterator[FolderProcess]:
        if one.is_running or one.has_shells:
            yield FolderProcess(77, 5, str(one.paths.work), deleted=not one.has_scratch)

    def _observe_jobs(self, one: Attempt, queue: Queue | None) -> Iterator[ObservedJob]:
        has_records = one.has_start_record and self._has_job_records(one)
        is_claimed = has_records or self.has_claim(one)
        if not (is_claimed or one.known_id is not None):
            return
        listed = {job.id: job for job in (queue.listed or ())} if queue is not None else {}
        id_ = one.known_id
        entry = listed.get(id_ or "")
        is_shell_alive = one.has_shells and not self.backend.has_scheduler
        lock = one.is_running if self.has_locks else None
        # The note about a command without a shell is on this machine.
        is_tagged = has_records and one.exit_code == 0
        alone = one.is_seen_alone and not one.is_folder_deleted and not is_tagged
        is_complete = alone and not one.is_running and one.has_result_in_scratch
        yield ObservedJob(
            "job",
            id=id_,
            id_alive=is_shell_alive or (entry is not None and entry.is_alive),
            started=is_claimed,
            exit_code=one.exit_code if has_records else None,
            ended_at=one.ended_at if has_records else None,
            lock_held=lock if has_records else False,
            tag=is_tagged or is_complete,
            failed_flag=has_records and one.exit_code not in (None, 0),
            state=2 if one.has_recovery_file else None,
            alone=alone,
            queued=entry.state if entry is not None else None,
        )

    def has_claim(self, one: Attempt) -> bool:
        """Return whether a claim next to the log shows that a job of the attempt started."""
        return one.starts > 0 and not self.backend.is_far

    def _has_job_records(self, one: Attempt) -> bool:
        """Return whether the records of the job exist on the machine where they were written."""
        return one.has_scratch or not (self.backend.is_far or one.is_folder_deleted)

    def _find_missing_files(self, one: Attempt) -> tuple[str, ...]:
        if not one.has_scratch or one.has_result_in_scratch:
            return ()
        return tuple(path for path in one.paths.outputs if self.in_place.get(path) != one.tag)

    def _observe_exit_marker(self, one: Attempt) -> Marker:
        code = one.exit_code_of_monitor
        return _NONE if code is None else Marker(MarkerState.OWN, code, one.tag, 1)

    def _observe_output(self, one: Attempt, path: str) -> OutputEvidence:
        writer = self.in_place.get(path)
        if writer is None:
            return OutputEvidence(path, Presence.MISSING)
        return OutputEvidence(path, Presence.PRESENT, writer == one.tag, 3, 1)

    # Actions of the reconciler

    def is_stage_monitored(self, stage: str) -> bool:
        """Return whether a monitor of the stage runs."""
        return any(one.has_monitor for one in self.attempts.values() if one.paths.stage == stage)

    def prepare(self, paths: AttemptPaths) -> None:
        """Write the files of a new attempt."""
        self.attempts[paths.tag] = Attempt(paths)

    def launch(self, paths: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor of the attempt, as `JobRunner.launch` does."""
        if self.is_stage_monitored(paths.stage):
            raise AlreadyMonitored(paths.stage, paths.monitor_lock)
        one = self.attempts[paths.tag]
        one.launched_at = one.launched_at or self.nanoseconds()
        one.has_monitor = one.was_monitored = True
        one.is_monitor_paused = False
        one.exit_code_of_monitor = None
        one.silent_since = None
        self.tell(f"wfctl starts a monitor of {one.tag}")
        return LaunchResult(mode)

    def read_facts(self, paths: AttemptPaths) -> SubmissionFacts:
        """Return the facts that DPDispatcher recorded on this machine."""
        id_ = self.attempts[paths.tag].known_id
        return SubmissionFacts(job_ids=() if id_ is None else (id_,))

    def stop(self, paths: AttemptPaths) -> StopResult:
        """Stop all jobs and processes of the attempt, as `stop_attempt` does."""
        one = self.attempts[paths.tag]
        if self.is_silent():
            raise MachineUnreachable("connection timed out")
        one.is_barred = True
        ended = [run.id for run in one.runs if run.ended_at is None and run.is_listed]
        for run in one.runs:
            if run.ended_at is None and (run.is_listed or run.is_at_work):
                self._end_run(run, "CANCELLED")
        if one.is_running:
            self.tell(f"wfctl stops {one.tag}")
            one.is_running = one.has_shells = False
        return StopResult(tuple(ended))

    def restore_results(self, paths: AttemptPaths) -> None:
        """Download the results of an attempt and write its markers, as `restore_results` does."""
        one = self.attempts[paths.tag]
        if self.backend.is_far and self.is_machine_silent:
            raise MachineUnreachable("connection timed out")
        self._download(one)
        one.exit_code_of_monitor, one.is_marked_done = 0, True

    def record_orphaned_jobs(self, paths: AttemptPaths, evidence: Evidence) -> None:
        """Note a command that runs without its shells, as `record_orphaned_jobs` does."""
        one, is_answered = self.attempts[paths.tag], evidence.missing_answer_reason is None
        for job in evidence.jobs:
            is_alone = job.started and job.id is not None and job.lock_held and not job.id_alive
            if is_answered and is_alone:
                one.is_seen_alone = True
            if job.tag and not job.alone:
                one.is_seen_alone = False

    def move_outputs_aside(self, stage: str) -> None:
        """Move the outputs of earlier attempts aside."""
        self.in_place.pop(self.outputs[stage], None)

    # Jobs and monitors

    def step(self, seconds: float) -> None:
        """Let time pass: jobs and monitors continue, and a fault may happen."""
        self.seconds += seconds
        for one in list(self.attempts.values()):
            self._continue_jobs(one)
            if one.has_monitor and not one.is_monitor_paused:
                self._continue_monitor(one)
        if self.faults_left > 0 and not self.is_quiet and self.random.random() < 0.25:
            self.faults_left -= 1
            self._cause_fault()

    def _continue_jobs(self, one: Attempt) -> None:
        for run in one.runs:
            if run.state == "PENDING" and self.random.random() < 0.6:
                self._start_command(one, run)
            elif run.ended_at is not None and self.seconds - run.ended_at > _LISTED_AFTER_END:
                run.is_listed = False
        if one.is_running and self.sweep is not None:
            self._run_task(one, self.sweep)
        elif one.is_running and self.random.random() < 0.4:
            self._end_command(one, self.random.random() < 0.85)

    def _run_task(self, one: Attempt, sweep: Sweep) -> None:
        intact = set(sweep.intact)
        key = sweep.run_task(one.paths, self.nanoseconds() // 1000)
        if key is None:
            self._end_command(one, success=True)
        elif key in intact and not self.was_log_restored:
            raise Violation(f"the task {key} is computed although its result exists")

    def _start_command(self, one: Attempt, run: Run) -> None:
        run.state = "RUNNING"
        claimed = one.has_start_record and self._has_job_records(one)
        if one.is_barred or claimed or not one.has_scratch:
            self._end_run(run, "FAILED")
            return
        one.starts += 1
        self.tell(f"the command of {one.tag} starts")
        others = [a for a in self.attempts.values() if a.paths.stage == one.paths.stage]
        if any(other.is_running for other in others):
            raise Violation(f"the command of {one.tag} starts while another one runs")
        if one.starts > 1:
            raise Violation(f"the command of {one.tag} starts a second time")
        for other in others:
            if other is not one and self.is_result_available(other):
                raise Violation(f"{one.tag} is computed although {other.tag} has a result")
        run.is_at_work = True
        one.has_start_record = one.is_running = one.has_shells = True
        if self.sweep is not None:
            self.sweep.start_worker(one.paths)

    def is_result_available(self, one: Attempt) -> bool:
        """Return whether the attempt has a result whose success is recorded."""
        path = self.outputs[one.paths.stage]
        there = one.has_result_in_scratch and one.exit_code == 0 and self._has_job_records(one)
        is_collected = self.in_place.get(path) == one.tag and one.is_marked_done
        is_recorded = one.has_succeeded and one.was_success_recorded
        is_single = self.sweep is None and not one.is_given_up
        return is_recorded and is_single and (there or is_collected)

    def give_up_results(self, stage: str) -> None:
        """Let the stage be computed again, because a person requested this."""
        for one in self.attempts.values():
            one.is_given_up |= one.paths.stage == stage

    def _end_command(self, one: Attempt, success: bool) -> None:
        one.is_running = False
        self.tell(f"the command of {one.tag} {'succeeds' if success else 'fails'}")
        one.has_succeeded = success
        # A command may have written complete files before it failed.
        if success or self.random.random() < 0.3:
            one.has_result_in_scratch = one.has_scratch
        if one.has_shells:
            self._record_end(one, 0 if success else _FAILED)

    def _record_end(self, one: Attempt, code: int, state: str | None = None) -> None:
        if one.has_scratch:
            one.exit_code, one.ended_at = code, self.nanoseconds()
            one.was_success_recorded = code == 0
        one.has_shells = False
        for run in one.runs:
            if run.is_at_work:
                self._end_run(run, state or ("COMPLETED" if code == 0 else "FAILED"))

    def _end_run(self, run: Run, state: str) -> None:
        run.state, run.ended_at, run.is_at_work = state, self.seconds, False
        if not self.backend.has_scheduler:
            run.is_listed = False

    def _continue_monitor(self, one: Attempt) -> None:
        """Let a monitor act once. Only the monitor of a shell on this machine asks no rules."""
        if self.backend is not Backend.SHELL:
            self._watch(one)
        elif one.is_folder_deleted and one.starts:
            self._end_monitor(one, ScriptEnd.REMOVED)
        elif not one.runs:
            self._submit(one)
        elif not (one.is_running or one.has_shells):
            self._collect_or_fail(one)
        elif self.has_locks and not one.has_shells:
            one.is_seen_alone = True

    def _watch(self, one: Attempt) -> None:
        """Let a monitor check its attempt with the real rules, and act once."""
        self.survey([one.paths], fresh=True)
        evidence = replace(
            self.collect(one.paths, utc_text(self.now())),
            monitor_locked=False,
            monitor_alive=False,
            session=False,
            exit_marker=_NONE,
            looked_twice=True,
        )
        self.record_orphaned_jobs(one.paths, evidence)
        judged = derive_verdict(evidence)
        found = watch._find_result(judged)
        if found is None:
            self._wait_for_answer(one, watch._shows_state(evidence, judged))
        elif found is WatchResult.NOTHING:
            self._submit(one)
        elif found is WatchResult.COLLECTED:
            self._end_monitor(one, 0)
        elif found is WatchResult.OVER:
            self._collect_or_fail(one)
        else:
            self._end_monitor(one, int(found))

    def _wait_for_answer(self, one: Attempt, has_answer: bool) -> None:
        if has_answer:
            one.silent_since = None
        elif one.silent_since is None:
            one.silent_since = self.seconds
        elif self.seconds - one.silent_since > watch.PATIENCE:
            self._end_monitor(one, ScriptEnd.SILENT)

    def _submit(self, one: Attempt) -> None:
        """Take one step of a submission: create the folder, submit the job, or record its id."""
        if self.is_silent():
            self._end_monitor(one, ScriptEnd.SILENT)
        elif one.is_folder_deleted and one.starts:
            self._end_monitor(one, ScriptEnd.REMOVED)
        elif not one.has_scratch:
            one.has_scratch = True
        else:
            one.runs.append(Run(self.create_name()))
            self.tell(f"the job of {one.tag} is submitted")
            if not self.backend.has_scheduler:
                self._start_command(one, one.runs[-1])
            # A monitor that is killed here leaves a job whose id is not recorded.
            if self.is_quiet or self.random.random() < 0.9:
                one.known_id, one.has_recovery_file = one.runs[-1].id, True
            else:
                self.tell("its monitor is killed before it records the id of the job")
                one.has_monitor = False

    def _collect_or_fail(self, one: Attempt) -> None:
        is_collected = one.exit_code == 0 and not one.has_scratch
        if is_collected and self.backend is Backend.SHELL:
            self._end_monitor(one, 0)
        elif (one.exit_code != 0 and not one.is_seen_alone) or not one.has_result_in_scratch:
            self._end_monitor(one, 1)
        elif self.backend.is_far and self.is_machine_silent:
            self._end_monitor(one, ScriptEnd.SILENT)
        else:
            self._download(one)
            if self.is_quiet or self.random.random() < 0.9:
                self._end_monitor(one, 0)
            else:
                self.tell(f"the monitor of {one.tag} is killed after the download")
                one.has_monitor = False

    def _download(self, one: Attempt) -> None:
        if not one.has_result_in_scratch:
            return
        for path in one.paths.outputs:
            self.in_place[path] = one.tag
        self._remove_scratch(one)
        self.tell(f"the results of {one.tag} are collected")

    def _remove_scratch(self, one: Attempt) -> None:
        one.has_scratch = one.has_result_in_scratch = False
        if self.backend.is_far:  # the records of the job are in the same folder
            one.has_start_record = False
            one.exit_code = one.ended_at = None

    def _end_monitor(self, one: Attempt, code: int) -> None:
        one.has_monitor = False
        one.exit_code_of_monitor = code
        one.is_marked_done = code == 0
        self.tell(f"the monitor of {one.tag} ends with {code}")

    # Faults

    def _cause_fault(self) -> None:
        if self.sweep is not None and self.random.random() < 0.5:
            self.random.choice(_TASK_FAULTS)(self.sweep)
        else:
            self.random.choice(_FAULTS)(self)

    def _choose(self, holds: Callable[[Attempt], bool]) -> Attempt | None:
        found = [one for one in self.attempts.values() if holds(one)]
        return self.random.choice(found) if found else None

    def kill_monitor(self) -> None:
        """Kill a monitor."""
        if one := self._choose(lambda one: one.has_monitor):
            self.tell(f"the monitor of {one.tag} is killed")
            one.has_monitor = False

    def pause_monitor(self) -> None:
        """Pause a monitor with SIGSTOP."""
        if one := self._choose(lambda one: one.has_monitor):
            self.tell(f"the monitor of {one.tag} is paused")
            one.is_monitor_paused = True

    def kill_command(self) -> None:
        """Kill the command of a job; its shell records the end."""
        if one := self._choose(lambda one: one.is_running and one.has_shells):
            self.tell(f"the command of {one.tag} is killed")
            one.is_running = False
            self._record_end(one, _KILLED)

    def kill_shells(self) -> None:
        """Kill the shells of a job, whose command continues."""
        if self.sweep is not None:
            return
        if one := self._choose(lambda one: one.is_running and one.has_shells):
            self.tell(f"the shells of {one.tag} are killed, and its command continues")
            one.has_shells = False
            for run in one.runs:
                if run.is_at_work:
                    self._end_run(run, "FAILED")

    def kill_job(self) -> None:
        """Kill everything of a job, so that nothing records its end."""
        if one := self._choose(lambda one: one.is_running):
            self.tell(f"all processes of {one.tag} are killed")
            one.is_running = one.has_shells = False
            for run in one.runs:
                if run.ended_at is None:
                    self._end_run(run, "FAILED")

    def take_job(self) -> None:
        """Let the scheduler end a job for a reason outside the job, or by its time limit."""
        if not self.backend.has_scheduler:
            return
        if one := self._choose(lambda one: one.is_running and one.has_shells):
            state = self.random.choice(("CANCELLED", "NODE_FAIL", "PREEMPTED", "TIMEOUT"))
            self.tell(f"the scheduler ends {one.tag}: {state}")
            one.is_running = False
            self._record_end(one, _TERMINATED, state)

    def silence_machine(self) -> None:
        """Make the machine unreachable, or reachable again."""
        self.is_machine_silent = not self.is_machine_silent
        self.tell(f"the machine {'stops answering' if self.is_machine_silent else 'answers again'}")

    def silence_scheduler(self) -> None:
        """Make the scheduler silent, or let it answer again."""
        self.is_scheduler_silent = not self.is_scheduler_silent
        what = "stops answering" if self.is_scheduler_silent else "answers again"
        self.tell(f"the scheduler {what}")

    def cut_lists(self) -> None:
        """Let the scheduler cut its next answers."""
        self.cut_answers = self.random.randrange(1, 4)

    def forget_job(self) -> None:
        """Let the scheduler forget a job that waits or has ended."""
        if not self.backend.has_scheduler:
            return
        if one := self._choose(lambda one: bool(one.runs) and not one.is_running):
            self.tell(f"the scheduler forgets the jobs of {one.tag}")
            for run in one.runs:
                run.is_listed = False
                run.ended_at = run.ended_at or self.seconds
                run.state = "CANCELLED" if run.state == "PENDING" else run.state

    def remove_scratch(self) -> None:
        """Remove the folder in which a job works, or has worked."""
        if one := self._choose(lambda one: one.has_scratch):
            self.tell(f"the folder of {one.tag} is removed from the machine of its job")
            self._remove_scratch(one)
            if not self.backend.is_far and self.random.random() < 0.5:
                self.tell(f"all files of {one.tag} are removed")
                one.is_folder_deleted = True
                one.launched_at = None
                shutil.rmtree(one.paths.folder, ignore_errors=True)

    def lose_output(self) -> None:
        """Delete an output that was collected."""
        if self.in_place:
            path = self.random.choice(sorted(self.in_place))
            self.tell(f"the output {path} is deleted")
            del self.in_place[path]

    def set_clock(self) -> None:
        """Set the clock forward or back."""
        self.clock_offset += self.random.choice((-86_400, -600, 600, 86_400))
        self.tell("the clock jumps")

    def heal(self) -> None:
        """End all faults: machines and schedulers answer, and no new fault happens."""
        self.is_quiet = True
        self.is_machine_silent = self.is_scheduler_silent = False
        self.cut_answers = 0
        for one in self.attempts.values():
            one.is_monitor_paused = False
        self.tell("from now on no fault happens")


_FAULTS = (
    World.kill_monitor,
    World.pause_monitor,
    World.kill_command,
    World.kill_shells,
    World.kill_job,
    World.take_job,
    World.silence_machine,
    World.silence_scheduler,
    World.cut_lists,
    World.forget_job,
    World.remove_scratch,
    World.lose_output,
    World.set_clock,
)
_TASK_FAULTS = (Sweep.swap_folders, Sweep.remove_folder, Sweep.cut_list, Sweep.cut_journal)
