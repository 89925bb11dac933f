"""The probe script reports the state of an attempt's folder, and wfctl parses it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.attempt.observations import ObservedAttempt
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import query_machine
from reconciler.far.query_machine import parse_probe_output
from reconciler.host.file_locks import is_lock_held
from reconciler.host.scheduler_jobs import ListedJob
from reconciler.records import backward_files

PROBE = [Path(query_machine.__file__).with_name(name) for name in ("tags.sh", "probe.sh")]
HASH, JOB = "c" * 40, "a" * 40
STATE = """{
    "machine": {"remote_profile": {"password": "canary-9"}},
    "belonging_jobs": [
        {
            "%s": {
                "job_state": 4,
                "fail_count": 1,
                "job_id": "12"
            }
        }
    ]
}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Create the folder of an attempt with one started job."""
    place = tmp_path / "a far päth"
    (place / HASH / "stage-1").mkdir(parents=True)
    (place / HASH / f"{JOB}_job_id").write_text("12")
    (place / f"job-{JOB}.started").mkdir()
    (place / f"job-{JOB}.started" / "record").write_text("/x\n1\n2\nb\nh\n")
    return place


def probed(place: Path, *patterns: str, queue: str | None = None) -> tuple[ObservedAttempt, str]:
    """Run the probe script on a folder; return its parsed answer and its output.

    ``queue`` is the text of a fake squeue, which replaces the scheduler.
    """
    tools = place.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "squeue").write_text(queue or "#!/bin/sh\n")
    (tools / "squeue").chmod(0o755)
    calls = ['queue 0 "$1"'] if queue is not None else []
    script = "\n".join([*(one.read_text() for one in PROBE), *calls, "processes", 'attempt t "$@"'])
    done = subprocess.run(
        ["bash", "-c", script, "probe", place, *patterns],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return parse_probe_output(done.stdout)["t"], done.stdout


def test_started_job_is_parsed(place: Path) -> None:
    """The id, the start and the free lock of the job are parsed, and its exit code is unknown."""
    answer, _ = probed(place)
    job = answer.jobs[0]
    assert (job.id, job.started, job.exit_code, job.lock_held) == ("12", True, None, False)
    assert (job.name, answer.copies, answer.queue) == (JOB, (HASH,), None)


def test_exit_code_of_a_job_is_parsed_with_its_time(place: Path) -> None:
    """The end time is the modification time of the job's exit record, to the nanosecond."""
    ending = place / f"job-{JOB}.exit"
    ending.write_text("3\nwf/stage-1/att-0001 2026-05-04T12:00:00Z\n")
    os.utime(ending, ns=(0, 1_777_000_000_123_456_789))
    job = probed(place)[0].jobs[0]
    assert (job.exit_code, job.ended_at) == (3, 1_777_000_000_123_456_789)


def test_job_killed_with_its_command_has_exit_code_137(place: Path) -> None:
    """The file `job-….killed` gives the exit code 137 and the end time of the job."""
    told = place / f"job-{JOB}.killed"
    told.touch()
    os.utime(told, ns=(0, 1_777_000_000_123_456_789))
    job = probed(place)[0].jobs[0]
    assert (job.exit_code, job.ended_at) == (137, 1_777_000_000_123_456_789)


@pytest.mark.parametrize("tagged", [True, False])
def test_tag_of_a_job_requires_the_tags_of_its_tasks(place: Path, tagged: bool) -> None:
    """The job counts as tagged only if the tag of each task exists too."""
    task = f"{'c' * 40}_task_tag_finished"
    (place / HASH / f".{JOB}.sub.run").write_text(f"touch {task}\n")
    (place / HASH / f"{JOB}_job_tag_finished").touch()
    if tagged:
        (place / HASH / task).touch()
    assert probed(place)[0].jobs[0].tag is tagged


@pytest.mark.parametrize(("at_work", "seen"), [(True, None), (False, True)])
def test_failure_flag_is_ignored_while_a_task_is_marked_as_running(
    place: Path, at_work: bool, seen: bool | None
) -> None:
    """If the running mark of a task still exists, the result of the job is unknown."""
    (place / HASH / f"{JOB}_flag_if_job_task_fail").write_text("1\n")
    if at_work:
        (place / f"job-{JOB}.task.4711").touch()
    assert probed(place)[0].jobs[0].failed_flag is seen


def test_empty_exit_record_has_no_exit_code(place: Path) -> None:
    """After a crash between creating and writing the record, the exit code is unknown."""
    (place / f"job-{JOB}.exit").write_text("")
    assert probed(place)[0].jobs[0].exit_code is None


def test_held_lock_is_reported(place: Path) -> None:
    """The lock of a job is held as long as its command runs."""
    lock = place / f"job-{JOB}.lock"
    with subprocess.Popen(["flock", lock, "sh", "-c", "echo; read x"], stdin=-1, stdout=-1) as one:
        assert one.stdout is not None
        one.stdout.readline()
        assert probed(place)[0].jobs[0].lock_held is True
        one.communicate(b"\n")
    assert probed(place)[0].jobs[0].lock_held is False


def test_recovery_file_is_read_without_its_credentials(place: Path) -> None:
    """The probe prints the job's state and number of failures, but never the password."""
    (place / HASH / f"{HASH}.json").write_text(STATE % JOB)
    answer, printed = probed(place)
    assert answer.recovery_file
    assert (answer.jobs[0].state, answer.jobs[0].fail_count) == (4, 1)
    assert "canary-9" not in printed


def test_missing_files_are_listed_by_pattern(place: Path) -> None:
    """The probe lists a pattern if no file in the scratch copy matches it."""
    (place / HASH / "stage-1" / "out 1.txt").write_text("x")
    answer, _ = probed(place, "stage-1/out*.txt", "stage-1/b.txt", "stage-1/out 1.txt")
    assert answer.backward_missing == ("stage-1/b.txt",)


def test_processes_in_the_folder_are_listed(place: Path) -> None:
    """The probe reports the id, folder and start time of each process in the folder."""
    with subprocess.Popen(["sleep", "60"], cwd=place / HASH) as one:
        [tenant] = probed(place)[0].tenants or ()
        one.kill()
    assert (tenant.pid, tenant.folder) == (one.pid, f"{place}/{HASH}")
    assert tenant.ticks > 0


def test_missing_folder_is_a_valid_answer(tmp_path: Path) -> None:
    """The probe reports no jobs, processes or copies for an attempt without a folder."""
    answer, _ = probed(tmp_path / "nowhere")
    assert (answer.jobs, answer.tenants, answer.copies) == ((), (), ())


def listing(*lines: str) -> str:
    """Return the text of a fake squeue that prints these lines."""
    return "#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n"


def test_job_is_found_by_its_folder(place: Path) -> None:
    """squeue finds a job with a lost id, because the job runs below the attempt's folder."""
    answer, _ = probed(place, queue=listing(f"99|PENDING|{place}/{HASH}", "7|RUNNING|/else"))
    assert answer.queue is not None
    assert answer.queue.listed == (ListedJob("99", "PENDING", f"{place}/{HASH}"),)


def test_known_id_in_another_folder_is_ignored(place: Path) -> None:
    """Schedulers reuse job ids, so a job in another folder is not the attempt's job."""
    answer, _ = probed(place, queue=listing("12|RUNNING|/else"))
    assert answer.queue is not None
    assert answer.queue.listed == ()


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error: Socket timed out"])
def test_failing_scheduler_gives_no_list(place: Path, said: str) -> None:
    """If squeue exits with an error, the list of jobs is unknown."""
    answer, _ = probed(place, queue=f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    assert answer.queue is not None
    assert answer.queue.listed is None
    assert said in (answer.queue.error or "")


def test_answer_is_reused_only_within_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second query reuses the answer and says so, unless the caller needs a new one."""
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\necho >> {tmp_path}/calls\necho '12|RUNNING|{tmp_path}/a'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = [query_machine.query_local_queue([str(tmp_path)], most) for most in (60, 60, 0)]
    assert [one.is_reused for one in found] == [False, True, False]
    assert found[0].listed == found[1].listed == (ListedJob("12", "RUNNING", f"{tmp_path}/a"),)
    assert len((tmp_path / "calls").read_text()) == 2


@pytest.mark.parametrize("kind", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize(
    "name",
    [
        f"{HASH}/{JOB}_job_id",
        f"{HASH}/.{JOB}.sub.run",
        *(f"job-{JOB}.{end}" for end in ("lock", "exit", "code", "killed", "started/record")),
    ],
)
def test_folder_or_pipe_in_place_of_a_file_does_not_block_the_probe(
    place: Path, name: str, kind: Callable[[Path], None]
) -> None:
    """The probe still answers, and a lock that is no regular file counts as free."""
    there = place / name
    there.unlink(missing_ok=True)
    kind(there)
    found, _ = probed(place, queue=f"#!/bin/sh\necho '12|RUNNING|{place}/{HASH}'\n")
    (job,) = found.jobs
    assert job.lock_held is is_lock_held(place / f"job-{JOB}.lock")
    assert job.lock_held is False


@pytest.mark.parametrize(
    ("pattern", "missing", "complete"),
    [("res*", False, False), ("[12].txt", False, True), ("[ab].txt", False, False)],
)
def test_wildcards_match_the_same_files_on_both_machines(
    place: Path, pattern: str, missing: bool, complete: bool
) -> None:
    """A broken link matches a pattern, but it does not count as a complete output."""
    copy, root = place / HASH, place.parent / "root"
    attempt = AttemptPaths(root, "w", "stage-1", "att-0001", ())
    (attempt.folder / f"job-{JOB}.started").mkdir(parents=True)
    task = {"task_work_path": "stage-1", "backward_files": [pattern]}
    attempt.submission.write_text(json.dumps({"task_list": [task]}))
    (copy / "stage-1/results").symlink_to("nowhere")
    (copy / "stage-1/2.txt").touch()
    (copy / "stage-1/[ab].txt").touch()
    assert bool(backward_files.find_unmatched_backward_patterns(attempt, [copy])) is missing
    assert backward_files.has_complete_results(attempt, [copy], JOB) is complete
    if pattern != "[ab].txt":
        assert bool(probed(place, f"stage-1/{pattern}")[0].backward_missing) is missing
