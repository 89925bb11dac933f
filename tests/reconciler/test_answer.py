"""The probe's lines, from a real run of it over folders made by hand, read back."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.attempt.observed import ObservedAttempt
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import ask
from reconciler.far.ask import read
from reconciler.host.program import Listed, is_held
from reconciler.records import traces

PROBE = [Path(ask.__file__).with_name(name) for name in ("tags.sh", "probe.sh")]
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
    """Make an attempt's folder with one job that has claimed its start."""
    place = tmp_path / "a far päth"
    (place / HASH / "stage-1").mkdir(parents=True)
    (place / HASH / f"{JOB}_job_id").write_text("12")
    (place / f"job-{JOB}.started").mkdir()
    (place / f"job-{JOB}.started" / "record").write_text("/x\n1\n2\nb\nh\n")
    return place


def probed(place: Path, *patterns: str, queue: str | None = None) -> tuple[ObservedAttempt, str]:
    """Run the probe over a folder, with a squeue that says what it is told."""
    tools = place.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "squeue").write_text(queue or "#!/bin/sh\n")
    (tools / "squeue").chmod(0o755)
    calls = ['queue "$1"'] if queue is not None else []
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
    return read(done.stdout)["t"], done.stdout


def test_a_job_is_read_back(place: Path) -> None:
    """Its claim, its id and its free lock come back; nothing else is made up."""
    answer, _ = probed(place)
    job = answer.jobs[0]
    assert (job.id, job.started, job.exit_code, job.lock_held) == ("12", True, None, False)
    assert (job.name, answer.copies, answer.queue) == (JOB, (HASH,), None)


def test_an_end_is_read_back_with_its_time(place: Path) -> None:
    """The exit code is the file's first line, its time the file's own, to the nanosecond."""
    ending = place / f"job-{JOB}.exit"
    ending.write_text("3\nwf/stage-1/att-0001 2026-05-04T12:00:00Z\n")
    os.utime(ending, ns=(0, 1_777_000_000_123_456_789))
    job = probed(place)[0].jobs[0]
    assert (job.exit_code, job.ended_at) == (3, 1_777_000_000_123_456_789)


def test_a_shell_that_was_killed_with_its_command_ended_as_that_did(place: Path) -> None:
    """The command's end was written down, the shell's own was not."""
    told = place / f"job-{JOB}.killed"
    told.touch()
    os.utime(told, ns=(0, 1_777_000_000_123_456_789))
    job = probed(place)[0].jobs[0]
    assert (job.exit_code, job.ended_at) == (137, 1_777_000_000_123_456_789)


@pytest.mark.parametrize("tagged", [True, False])
def test_a_tag_of_a_job_counts_where_its_tasks_are_tagged(place: Path, tagged: bool) -> None:
    """The job's shell tags it for a task, too, that was killed before it could tell."""
    task = f"{'c' * 40}_task_tag_finished"
    (place / HASH / f".{JOB}.sub.run").write_text(f"touch {task}\n")
    (place / HASH / f"{JOB}_job_tag_finished").touch()
    if tagged:
        (place / HASH / task).touch()
    assert probed(place)[0].jobs[0].tag is tagged


@pytest.mark.parametrize(("at_work", "seen"), [(True, None), (False, True)])
def test_a_flag_counts_where_no_task_was_killed_at_work(
    place: Path, at_work: bool, seen: bool | None
) -> None:
    """A mark that stayed is that of a task which could not tell how its command ended."""
    (place / HASH / f"{JOB}_flag_if_job_task_fail").write_text("1\n")
    if at_work:
        (place / f"job-{JOB}.task.4711").touch()
    assert probed(place)[0].jobs[0].failed_flag is seen


def test_half_an_end_is_none(place: Path) -> None:
    """An empty record of an end says nothing."""
    (place / f"job-{JOB}.exit").write_text("")
    assert probed(place)[0].jobs[0].exit_code is None


def test_a_held_lock_is_seen(place: Path) -> None:
    """While somebody computes, the lock says so."""
    lock = place / f"job-{JOB}.lock"
    with subprocess.Popen(["flock", lock, "sh", "-c", "echo; read x"], stdin=-1, stdout=-1) as one:
        assert one.stdout is not None
        one.stdout.readline()
        assert probed(place)[0].jobs[0].lock_held is True
        one.communicate(b"\n")
    assert probed(place)[0].jobs[0].lock_held is False


def test_the_recovery_file_is_read_without_what_it_hides(place: Path) -> None:
    """State and fail count are told, and nothing of the connection."""
    (place / HASH / f"{HASH}.json").write_text(STATE % JOB)
    answer, printed = probed(place)
    assert answer.recovery_file
    assert (answer.jobs[0].state, answer.jobs[0].fail_count) == (4, 1)
    assert "canary-9" not in printed


def test_missing_files_are_told_by_pattern(place: Path) -> None:
    """Of the files to bring back those are named that no scratch copy holds."""
    (place / HASH / "stage-1" / "out 1.txt").write_text("x")
    answer, _ = probed(place, "stage-1/out*.txt", "stage-1/b.txt", "stage-1/out 1.txt")
    assert answer.backward_missing == ("stage-1/b.txt",)


def test_processes_in_the_folder_are_told(place: Path) -> None:
    """Anyone who works there is found by the folder, with the time it was started at."""
    with subprocess.Popen(["sleep", "60"], cwd=place / HASH) as one:
        [tenant] = probed(place)[0].tenants or ()
        one.kill()
    assert (tenant.pid, tenant.folder) == (one.pid, f"{place}/{HASH}")
    assert tenant.ticks > 0


def test_a_folder_that_is_not_there_is_an_answer(tmp_path: Path) -> None:
    """Nothing was made yet, and that is known."""
    answer, _ = probed(tmp_path / "nowhere")
    assert (answer.jobs, answer.tenants, answer.copies) == ((), (), ())


def listing(*lines: str) -> str:
    """Return a squeue that lists these lines."""
    return "#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n"


def test_a_job_is_found_by_folder_though_its_id_was_lost(place: Path) -> None:
    """Any job that works below the attempt's folder is the attempt's."""
    answer, _ = probed(place, queue=listing(f"99|PENDING|{place}/{HASH}", "7|RUNNING|/else"))
    assert answer.queue is not None
    assert answer.queue.listed == (Listed("99", "PENDING", f"{place}/{HASH}"),)


def test_a_known_id_in_another_folder_is_somebody_elses(place: Path) -> None:
    """Ids are given again; one that works elsewhere does not speak for this attempt."""
    answer, _ = probed(place, queue=listing("12|RUNNING|/else"))
    assert answer.queue is not None
    assert answer.queue.listed == ()


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error: Socket timed out"])
def test_a_scheduler_that_fails_has_given_no_answer(place: Path, said: str) -> None:
    """Whatever it printed, an exit code that is not 0 is no list."""
    answer, _ = probed(place, queue=f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    assert answer.queue is not None
    assert answer.queue.listed is None
    assert said in (answer.queue.error or "")


@pytest.mark.parametrize("kind", [Path.mkdir, os.mkfifo])
@pytest.mark.parametrize(
    "name",
    [
        f"{HASH}/{JOB}_job_id",
        f"{HASH}/.{JOB}.sub.run",
        *(f"job-{JOB}.{end}" for end in ("lock", "exit", "code", "killed", "started/record")),
    ],
)
def test_a_folder_or_a_pipe_in_place_of_a_file_is_not_waited_for(
    place: Path, name: str, kind: Callable[[Path], None]
) -> None:
    """A lock that is no file is held by no job, as for a look on this machine."""
    there = place / name
    there.unlink(missing_ok=True)
    kind(there)
    found, _ = probed(place, queue=f"#!/bin/sh\necho '12|RUNNING|{place}/{HASH}'\n")
    (job,) = found.jobs
    assert job.lock_held is is_held(place / f"job-{JOB}.lock")
    assert job.lock_held is False


@pytest.mark.parametrize(
    ("pattern", "missing", "complete"),
    [("res*", False, False), ("[12].txt", False, True), ("[ab].txt", False, False)],
)
def test_what_wildcards_fit_is_there_as_the_far_side_finds_it(
    place: Path, pattern: str, missing: bool, complete: bool
) -> None:
    """A link that leads nowhere too; but it tells of no end, nor does a name that reads as them."""
    copy, root = place / HASH, place.parent / "root"
    attempt = AttemptPaths(root, "w", "stage-1", "att-0001", ())
    (attempt.folder / f"job-{JOB}.started").mkdir(parents=True)
    task = {"task_work_path": "stage-1", "backward_files": [pattern]}
    attempt.submission.write_text(json.dumps({"task_list": [task]}))
    (copy / "stage-1/results").symlink_to("nowhere")
    (copy / "stage-1/2.txt").touch()
    (copy / "stage-1/[ab].txt").touch()
    assert bool(traces.backward_missing(attempt, [copy])) is missing
    assert traces.is_complete(attempt, [copy], JOB) is complete
    if pattern != "[ab].txt":
        assert bool(probed(place, f"stage-1/{pattern}")[0].backward_missing) is missing
