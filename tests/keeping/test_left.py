"""wfctl keeps every file that a job wrote, even after a failure, and the log names the file."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from reconciler.files.leftovers import parse_size
from reconciler.host import processes
from tests.cli.support import Place
from tests.keeping.support import made, recorded, run_as_ordinary_user, stage
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]


def test_leftover_files_are_moved_to_the_stage_folder(tmp_path: Path) -> None:
    """wfctl keeps files that are no declared outputs, and logs their paths, sizes and digests."""
    command = "echo hi > a.txt; mkdir 'sub d'; echo r > 'sub d/re start'; ln -s a.txt link"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 0
    here = place.path / "stage-1"
    assert (here / "sub d/re start").read_text() == "r\n"
    assert (here / "link").readlink() == Path("a.txt")
    found = recorded(place)
    assert sorted(found) == ["stage-1/link", "stage-1/sub d/re start"]
    assert found["stage-1/sub d/re start"]["sha256"] == sha256(b"r\n").hexdigest()
    assert "stage-1: att-0001 left stage-1/link, stage-1/sub d/re start" in place.log()


def test_leftover_files_become_undeclared_outputs(tmp_path: Path) -> None:
    """If a stage declares no outputs, all files that its job wrote become its outputs."""
    place = made(tmp_path, stage(1, "echo hi > a.txt; echo r > b.bin"))
    assert place.call("run").code == 0
    found = place.done("show", "stage-1")
    assert found["status"] == "completed"
    assert found["outputs"] == ["stage-1/a.txt", "stage-1/b.bin"]


def test_log_is_the_output_of_a_job_that_only_prints(tmp_path: Path) -> None:
    """If a job writes no file, the file `log` with its stdout is its only output."""
    place = made(tmp_path, stage(1, "echo 42"))
    assert place.call("run").code == 0
    assert place.done("show", "stage-1")["outputs"] == ["stage-1/log"]


def test_leftover_file_can_be_declared_as_output(tmp_path: Path) -> None:
    """`stage outputs` adds a leftover file to the outputs of a completed stage."""
    place = made(tmp_path, stage(1, "echo hi > a.txt; echo r > b.bin", outputs=OUT))
    assert place.call("run").code == 0
    place.done("stage", "outputs", "stage-1", "stage-1/a.txt", "stage-1/b.bin")
    assert place.done("show", "stage-1")["outputs"] == ["stage-1/a.txt", "stage-1/b.bin"]


def test_log_and_err_are_kept_after_a_failure(tmp_path: Path) -> None:
    """Files that the job wrote before it failed are kept too."""
    command = "echo part > a.txt; echo so far; echo boom >&2; exit 3"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 6
    here = place.path / "stage-1"
    texts = {name: (here / name).read_text() for name in ("log", "err", "a.txt")}
    assert texts == {"log": "so far\n", "err": "boom\n", "a.txt": "part\n"}
    assert set(recorded(place)) == {f"stage-1/{name}" for name in texts}


def test_job_does_not_overwrite_files_of_the_user(tmp_path: Path) -> None:
    """If a job changes a user's file, its copy stays in the attempt folder, which the log names."""
    command = "echo changed > ../in.txt; echo mine > own.py; echo hi > a.txt"
    place = made(tmp_path, stage(1, command, inputs=["in.txt"], outputs=OUT))
    (place.path / "in.txt").write_text("given\n")
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/own.py").write_text("yours\n")
    assert place.call("run").code == 0
    assert (place.path / "in.txt").read_text() == "given\n"
    assert (place.path / "stage-1/own.py").read_text() == "yours\n"
    found = recorded(place)
    assert (place.path / found["in.txt"]["at"]).read_text() == "changed\n"
    assert (place.path / found["stage-1/own.py"]["at"]).read_text() == "mine\n"


#: This command kills the job that runs it, with all its shells.
KILLED = (
    'p=$$ k=; while [ "$p" -gt 1 ] && grep -qx bash /proc/$p/comm; do k="$p $k"; '
    "p=$(cut -d' ' -f4 /proc/$p/stat); done; kill -9 $k"
)
MAP = {"map": {"points": [{"T": 1}]}, "task_outputs": ["out"]}


@pytest.mark.long
@pytest.mark.parametrize("end", ["exit 3", KILLED])
@pytest.mark.parametrize(
    ("change", "parameters", "outputs"),
    [("../in.txt", {}, OUT), ("../../../in.txt", MAP, ["stage-1/tasks.csv"])],
)
def test_input_changed_by_a_failed_job_is_kept_with_the_attempt(
    tmp_path: Path, end: str, change: str, parameters: dict[str, object], outputs: list[str]
) -> None:
    """The input file stays as it was, and the log names the copy that the job changed."""
    command = f"echo 'step 1' >> {change}; {end}"
    one = stage(1, command, inputs=["in.txt"], outputs=outputs, parameters=parameters)
    place = made(tmp_path, one)
    (place.path / "in.txt").write_text("step 0\n")
    assert place.call("run").code == 6
    assert (place.path / "in.txt").read_text() == "step 0\n"
    for event in place.done("events", "--type", "attempt.left"):
        found = {file["path"]: file for file in event["data"]["files"]}
        assert (place.path / found["in.txt"]["at"]).read_text() == "step 0\nstep 1\n"
    assert "in.txt" in place.log()


def test_unchanged_input_is_not_a_leftover(tmp_path: Path) -> None:
    """wfctl removes the copy of an input that the job read but did not change."""
    place = made(tmp_path, stage(1, "cat ../in.txt > a.txt", inputs=["in.txt"], outputs=OUT))
    (place.path / "in.txt").write_text("given\n")
    assert place.call("run").code == 0
    assert recorded(place) == {}
    assert list(place.path.glob("stage-1/.attempts/*/left")) == []


def test_file_over_the_size_limit_stays_in_the_attempt_folder(tmp_path: Path) -> None:
    """wfctl does not move a file larger than `bring_back_limit`, and logs its location."""
    command = "echo hi > a.txt; echo s > small; head -c 5000 /dev/zero > big"
    limited = stage(1, command, outputs=OUT, parameters={"bring_back_limit": "1 KB"})
    place = made(tmp_path, limited)
    assert place.call("run").code == 0
    assert (place.path / "stage-1/small").exists()
    assert not (place.path / "stage-1/big").exists()
    big = recorded(place)["stage-1/big"]
    assert (place.path / big["at"]).stat().st_size == big["size"] == 5000
    assert f"1 kept elsewhere, as {big['at']}" in place.log()


@pytest.mark.long
def test_retry_moves_leftover_files_aside(tmp_path: Path) -> None:
    """Before a retry, wfctl moves the first attempt's files aside, so that they stay separate."""
    command = "echo $WFCTL_ATTEMPT > note; test -e ../../../../../../go && echo hi > a.txt"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 6
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made go")
    assert place.call("run").code == 0
    [kept] = place.path.glob("stage-1/.attempts/*/kept/stage-1/note")
    assert kept.read_text().startswith("w/stage-1/att-0001-")
    assert (place.path / "stage-1/note").read_text().startswith("w/stage-1/att-0002-")


def _at_work(folder: Path) -> Place:
    """Return a workflow whose job has written a file and still runs."""
    one = stage(1, "echo part > part.txt; sleep 600", outputs=OUT)
    place = made(folder, one, consent="trust")
    place.done("dispatch", "stage-1")
    until(lambda: bool(list(place.path.glob("stage-1/.attempts/*/work/**/part.txt"))))
    return place


def _is_kept(place: Place) -> bool:
    """Return whether the file of the job is at the location that the log names."""
    named = recorded(place)["stage-1/part.txt"]
    return bool((place.path / (named["at"] or named["path"])).read_text() == "part\n")


def test_leftover_files_of_a_cancelled_attempt_are_recorded(tmp_path: Path) -> None:
    """After `stage cancel`, wfctl moves the job's files to the stage folder and records them."""
    place = _at_work(tmp_path)
    place.done("stage", "cancel", "stage-1", "--reason", "enough")
    assert _is_kept(place)
    assert (place.path / "stage-1/part.txt").exists()


def test_leftover_files_of_a_superseded_attempt_are_recorded(tmp_path: Path) -> None:
    """If an amendment stops an attempt, its files stay in the attempt folder."""
    place = _at_work(tmp_path)
    change = ("--set", "parameters.n=2", "--reason", "other")
    place.done("amend", "propose", "--stage", "stage-1", *change)
    place.done("amend", "approve", "amend-1")
    assert _is_kept(place)
    assert not (place.path / "stage-1/part.txt").exists()


def test_leftover_files_are_recorded_after_the_root_moved(tmp_path: Path) -> None:
    """After the job was killed and its root was moved, wfctl finds and records the job's files."""
    place = _at_work(tmp_path)
    # Repeat until no process is left: a shell may start another program after the processes were
    # listed.
    while found := processes.find_processes_below(processes.list_user_processes(), place.path):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    moved = Place(tmp_path / "elsewhere")
    place.path.rename(moved.path)
    moved.done("--root-is", "moved", "rehydrate")
    assert _is_kept(moved)
    moved.done("stage", "cancel", "stage-1", "--reason", "enough")


def test_failure_shows_its_exit_code_and_error_message(tmp_path: Path) -> None:
    """`run`, `status`, `show` and the log print the job's exit code and its error message."""
    place = made(tmp_path, stage(1, "echo boom >&2; exit 3", outputs=OUT))
    answer = place.call("run")
    (failed,) = place.done("events", "--type", "stage.failed")
    assert failed["data"]["exit_code"] == 3
    assert failed["data"]["because"] == "err: boom"
    told = (answer.out, place.log(), place.call("status").out, place.call("show", "stage-1").out)
    for text in told:
        assert "exit code 3" in text
        assert "boom" in text
    diagnosed = place.call("stage", "diagnose", "stage-1").out
    assert "boom" in diagnosed
    assert "no output of the job is on this machine" not in diagnosed


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["kill -SEGV $$", "sh -c 'kill -SEGV $$'"])
def test_segmentation_fault_is_a_failure_of_the_program(tmp_path: Path, command: str) -> None:
    """wfctl names the segmentation fault and does not start the job again automatically."""
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 6
    found = place.done("show", "stage-1")
    assert "exit code 139, a segmentation fault" in found["last_error"]
    assert len(found["attempts"]) == 1


@pytest.mark.parametrize(
    ("given", "size"),
    [(7, 7), ("2 GB", 2 * 10**9), ("1.5KB", 1500), ("9", 9), ("big", None), (-1, None), ("", None)],
)
def test_size_is_parsed_from_bytes_or_units(given: object, size: int | None) -> None:
    """A size is a number of bytes or a string such as "2 GB"."""
    assert parse_size(given) == size


#: For each kind of files without read or write permission: the job's command, the declared outputs
#: and further parameters.
CLOSED = {
    "a leftover folder": ("mkdir c; echo x > c/f; chmod a-w c; echo hi > a.txt", OUT, {}),
    "unreadable leftovers": (
        "mkdir d; echo x | tee f > d/g; chmod 000 f d; echo hi > a.txt",
        OUT,
        {},
    ),
    "an output folder": ("mkdir d; echo hi > d/a.txt; chmod a-w d", ["stage-1/d/a.txt"], {}),
    "an input folder": ("cat ../data/in > a.txt", OUT, {}),
    "an input folder of tasks": ("cat ../../../data/in > out", ["stage-1/tasks.csv"], MAP),
}


@pytest.mark.long
@pytest.mark.parametrize("closed", CLOSED)
def test_read_only_files_do_not_stop_the_workflow(tmp_path: Path, closed: str) -> None:
    """wfctl completes the stage, keeps all files, and reports unreadable files only once."""
    command, outputs, parameters = CLOSED[closed]
    data = tmp_path / "root/data"
    one = stage(1, command, inputs=["data"], outputs=outputs, parameters=parameters)
    place = made(tmp_path, one, stage(2, "echo 2 > b.txt", outputs=["stage-2/b.txt"]))
    data.mkdir()
    (data / "in").write_text("given\n")
    data.chmod(0o555)
    run_as_ordinary_user(place, "run")
    run_as_ordinary_user(place, "rehydrate")
    statuses = {one["id"]: one["status"] for one in place.done("status")["stages"]}
    assert statuses == {"stage-1": "completed", "stage-2": "completed"}
    if closed == "a leftover folder":
        assert (place.path / "stage-1/c/f").read_text() == "x\n"
    if closed == "unreadable leftovers":
        assert (place.path / "stage-1/d/g").read_text() == "x\n"
        assert place.log().count("leftover files that cannot be read") == 1
        assert [path.stat().st_size for path in place.path.glob("stage-1/.attempts/*/left/*/f")]


@pytest.mark.long
@pytest.mark.parametrize("code", [0, 3])
def test_leftover_name_that_is_not_utf_8_does_not_stop_the_workflow(
    tmp_path: Path, code: int
) -> None:
    """wfctl leaves the file in the attempt folder, and logs its name once with an escape."""
    command = "echo x > \"$(printf 'bad\\377')\"; ln -s \"$(printf '\\376')\" l; echo y > good"
    one = stage(1, f"{command}; echo hi > a.txt; exit {code}", outputs=OUT)
    place = made(tmp_path, one)
    assert place.call("run").code == (6 if code else 0)
    assert place.call("rehydrate").code == 0
    assert place.call("run").code == (6 if code else 0)
    assert place.done("show", "stage-1")["status"] == ("failed" if code else "completed")
    assert "stage-1/good" in recorded(place)
    assert place.log().count(r"stage-1/bad\xff") == 1
    assert place.log().count("is not UTF-8 were left in place") == 1
    kept = list((place.path / "stage-1/.attempts").glob("*/left/stage-1/bad*"))
    assert [path.read_text() for path in kept] == ["x\n"]
    if code:
        assert place.call("stage", "retry", "stage-1", "--fix", "none").code == 0
        assert place.call("run").code == 6
        assert place.call("clean").code == 0
