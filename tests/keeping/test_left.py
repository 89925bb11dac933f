"""Every file that a job wrote is there afterwards, whatever its end, and the log names it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from reconciler.files.leftovers import size_of
from reconciler.host import processes
from tests.cli.support import Place
from tests.keeping.support import made, recorded, run_as_ordinary_user, stage
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]


def test_what_no_outputs_name_comes_into_the_stage_folder(tmp_path: Path) -> None:
    """With its subfolders, links and blanks; the log holds path, size and digest."""
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


def test_without_declared_outputs_what_was_left_becomes_them(tmp_path: Path) -> None:
    """The stage is completed on it, and a run that comes later declares nothing."""
    place = made(tmp_path, stage(1, "echo hi > a.txt; echo r > b.bin"))
    assert place.call("run").code == 0
    found = place.done("show", "stage-1")
    assert found["status"] == "completed"
    assert found["outputs"] == ["stage-1/a.txt", "stage-1/b.bin"]


def test_a_stage_that_only_prints_has_its_log_as_output(tmp_path: Path) -> None:
    """There is nothing else that it could have computed."""
    place = made(tmp_path, stage(1, "echo 42"))
    assert place.call("run").code == 0
    assert place.done("show", "stage-1")["outputs"] == ["stage-1/log"]


def test_what_was_left_can_be_declared_afterwards(tmp_path: Path) -> None:
    """As an output like any other."""
    place = made(tmp_path, stage(1, "echo hi > a.txt; echo r > b.bin", outputs=OUT))
    assert place.call("run").code == 0
    place.done("stage", "outputs", "stage-1", "stage-1/a.txt", "stage-1/b.bin")
    assert place.done("show", "stage-1")["outputs"] == ["stage-1/a.txt", "stage-1/b.bin"]


def test_log_and_err_are_there_after_a_failure(tmp_path: Path) -> None:
    """And so is what the job had written until then."""
    command = "echo part > a.txt; echo so far; echo boom >&2; exit 3"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 6
    here = place.path / "stage-1"
    texts = {name: (here / name).read_text() for name in ("log", "err", "a.txt")}
    assert texts == {"log": "so far\n", "err": "boom\n", "a.txt": "part\n"}
    assert set(recorded(place)) == {f"stage-1/{name}" for name in texts}


def test_no_file_of_anybody_is_overwritten(tmp_path: Path) -> None:
    """What the job changed of its inputs stays in the attempt's folder, which the log names."""
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


#: Ends the job that it stands in, each shell of it.
KILLED = (
    'p=$$ k=; while [ "$p" -gt 1 ] && grep -qx bash /proc/$p/comm; do k="$p $k"; '
    "p=$(cut -d' ' -f4 /proc/$p/stat); done; kill -9 $k"
)
MAP = {"map": {"points": [{"T": 1}]}, "task_outputs": ["out"]}


@pytest.mark.few(2)
@pytest.mark.parametrize("end", ["exit 3", KILLED])
@pytest.mark.parametrize(
    ("change", "parameters", "outputs"),
    [("../in.txt", {}, OUT), ("../../../in.txt", MAP, ["stage-1/tasks.csv"])],
)
def test_what_a_job_changed_in_place_outlives_its_failure(
    tmp_path: Path, end: str, change: str, parameters: dict[str, object], outputs: list[str]
) -> None:
    """The file as the job left it is kept by its attempt and named; as it was given, it stays."""
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


def test_an_input_that_did_not_change_is_no_result(tmp_path: Path) -> None:
    """The job works in a copy, and the copy goes."""
    place = made(tmp_path, stage(1, "cat ../in.txt > a.txt", inputs=["in.txt"], outputs=OUT))
    (place.path / "in.txt").write_text("given\n")
    assert place.call("run").code == 0
    assert recorded(place) == {}
    assert list(place.path.glob("stage-1/.attempts/*/left")) == []


def test_beyond_the_limit_a_file_stays_in_the_attempts_folder(tmp_path: Path) -> None:
    """A line names it and where it lies."""
    command = "echo hi > a.txt; echo s > small; head -c 5000 /dev/zero > big"
    limited = stage(1, command, outputs=OUT, parameters={"bring_back_limit": "1 KB"})
    place = made(tmp_path, limited)
    assert place.call("run").code == 0
    assert (place.path / "stage-1/small").exists()
    assert not (place.path / "stage-1/big").exists()
    big = recorded(place)["stage-1/big"]
    assert (place.path / big["at"]).stat().st_size == big["size"] == 5000
    assert f"1 kept elsewhere, as {big['at']}" in place.log()


def test_a_retry_moves_what_was_left_out_of_its_way(tmp_path: Path) -> None:
    """So that nothing of the first attempt passes for the second's, and nothing is gone."""
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
    """Return a workflow of which the job has written a file and goes on."""
    one = stage(1, "echo part > part.txt; sleep 600", outputs=OUT)
    place = made(folder, one, consent="trust")
    place.done("dispatch", "stage-1")
    until(lambda: bool(list(place.path.glob("stage-1/.attempts/*/work/**/part.txt"))))
    return place


def _is_kept(place: Place) -> bool:
    """Whether the file is where the log says."""
    named = recorded(place)["stage-1/part.txt"]
    return bool((place.path / (named["at"] or named["path"])).read_text() == "part\n")


def test_what_a_cancelled_attempt_left_is_recorded(tmp_path: Path) -> None:
    """It comes into the stage's folder like that of any failure."""
    place = _at_work(tmp_path)
    place.done("stage", "cancel", "stage-1", "--reason", "enough")
    assert _is_kept(place)
    assert (place.path / "stage-1/part.txt").exists()


def test_what_a_superseded_attempt_left_is_recorded(tmp_path: Path) -> None:
    """It stays in the attempt's folder, out of the way of the next."""
    place = _at_work(tmp_path)
    change = ("--set", "parameters.n=2", "--reason", "other")
    place.done("amend", "propose", "--stage", "stage-1", *change)
    place.done("amend", "approve", "amend-1")
    assert _is_kept(place)
    assert not (place.path / "stage-1/part.txt").exists()


def test_what_an_attempt_left_before_the_root_was_moved_is_recorded(tmp_path: Path) -> None:
    """Its job ended meanwhile, and what it wrote moved with the root."""
    place = _at_work(tmp_path)
    # A shell may start its next program between the listing and the kill.
    while found := processes.below(processes.census(), place.path):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    moved = Place(tmp_path / "elsewhere")
    place.path.rename(moved.path)
    moved.done("--root-is", "moved", "rehydrate")
    assert _is_kept(moved)
    moved.done("stage", "cancel", "stage-1", "--reason", "enough")


def test_a_failure_is_told_by_its_exit_code_and_its_words(tmp_path: Path) -> None:
    """In each place that tells of it, and behind no hash."""
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
    assert "nothing that the job wrote" not in diagnosed


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["kill -SEGV $$", "sh -c 'kill -SEGV $$'"])
def test_a_segmentation_fault_is_no_kill_from_outside(tmp_path: Path, command: str) -> None:
    """It counts as a failure of the program, and nothing is computed again by itself."""
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 6
    found = place.done("show", "stage-1")
    assert "exit code 139, a segmentation fault" in found["last_error"]
    assert len(found["attempts"]) == 1


@pytest.mark.parametrize(
    ("given", "size"),
    [(7, 7), ("2 GB", 2 * 10**9), ("1.5KB", 1500), ("9", 9), ("big", None), (-1, None), ("", None)],
)
def test_a_size_is_bytes_or_words(given: object, size: int | None) -> None:
    """As people write it."""
    assert size_of(given) == size


#: A job command or an input of each kind that closes files for their owner, and the outputs.
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


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_files_of_a_job_stop_nothing(tmp_path: Path, closed: str) -> None:
    """The stage is completed, nothing is lost, and what cannot be read is named once."""
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
