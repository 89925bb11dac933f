"""`wfctl logs` prints the output of running jobs, ended jobs and earlier attempts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.support import HERE, Answer, Place, tree, wfctl
from tests.keeping.support import made, stage
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]
GATE = "while [ ! -e ../../../../../../go ]; do sleep 0.05; done"


def logs(place: Place, *words: str) -> Answer:
    """Run `wfctl logs` for the first stage, and return its answer."""
    return wfctl("--root", str(place.path), "logs", "stage-1", *words)


@contextmanager
def following(place: Place, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start `wfctl logs -f` for the first stage, and kill the process at the end."""
    command = [sys.executable, "-m", "cli.main", "--root", str(place.path), "logs", "stage-1", "-f"]
    environ = {**os.environ, "PYTHONPATH": str(HERE)}
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(place: Place) -> Place:
    """Wait until the monitor of the first stage has ended."""
    until((place.path / "stage-1/DPDISP_DONE").exists)
    return place


def test_logs_prints_output_during_and_after_a_job(tmp_path: Path) -> None:
    """`wfctl logs` prints stdout, `--err` prints stderr, and `-n` prints the last lines."""
    words = "echo one; echo two; printf three; echo bad >&2"
    place = made(tmp_path, stage(1, f"{words}; {GATE}; echo hi > a.txt", outputs=OUT))
    place.done("dispatch", "stage-1")
    until(lambda: logs(place).out == "one\ntwo\nthree")
    before = tree(place.path / ".wfctl")
    assert logs(place, "--err").out == "bad\n"
    assert logs(place, "-n", "2").out == "two\nthree"
    assert tree(place.path / ".wfctl") == before
    (place.path / "go").touch()
    ended(place)
    assert logs(place).out == "one\ntwo\nthree"
    assert place.call("run").code == 0
    assert logs(place, "-n", "1").out == "three"
    found = place.done("logs", "stage-1", "--err")
    assert found["attempt"] == "att-0001"
    assert found["files"] == [{"path": "stage-1/err", "text": "bad\n"}]


@pytest.mark.long
def test_following_logs_ends_with_the_job(tmp_path: Path) -> None:
    """`wfctl logs -f` prints each new line once, and exits when the job ends."""
    command = f"echo one; {GATE}; for n in $(seq 2000); do echo $n; done; echo hi > a.txt; exit 3"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    place.done("dispatch", "stage-1")
    with following(place) as all_, following(place, "-n", "0") as news:
        assert all_.stdout is not None
        assert all_.stdout.readline() == "one\n"
        (place.path / "go").touch()
        rest = "".join(f"{n}\n" for n in range(1, 2001))
        assert all_.communicate(timeout=60)[0] == rest
        # The second process printed from the position of its first read, so its output is an end of
        # the whole output.
        assert f"one\n{rest}".endswith(news.communicate(timeout=60)[0])
        assert (all_.returncode, news.returncode) == (0, 0)
    ended(place)


def test_following_logs_of_an_ended_job_exits(tmp_path: Path) -> None:
    """`wfctl logs -f` prints the whole output, as text or as JSON lines, and exits."""
    place = made(tmp_path, stage(1, "echo one; echo hi > a.txt", outputs=OUT))
    assert place.call("run").code == 0
    assert logs(place, "--follow").out == "one\n"
    (line,) = logs(place, "-o", "jsonl", "-f").out.splitlines()
    assert json.loads(line)["text"] == "one\n"


@pytest.mark.long
def test_logs_of_earlier_attempts_are_found(tmp_path: Path) -> None:
    """`wfctl logs --attempt` works after a retry, and after the stage folder was renamed."""
    command = "echo $WFCTL_ATTEMPT; test -e ../../../../../../go && echo hi > a.txt"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    assert place.call("run").code == 6
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made go")
    assert place.call("run").code == 0
    (place.path / "stage-1").rename(place.path / "stage-1.v1")
    for home in ("stage-1.v1", "stage-1"):
        for attempt in ("att-0001", "att-0002"):
            text = logs(place, "--attempt", attempt).out
            assert text.startswith(f"w/stage-1/{attempt}-"), home
        if home == "stage-1.v1":
            (place.path / "stage-1.v1").rename(place.path / "stage-1")
    assert logs(place).out.startswith("w/stage-1/att-0002-")


def test_logs_of_several_tasks_have_headers(tmp_path: Path) -> None:
    """`wfctl logs` prints a header with the path before each task's output, like `tail`."""
    tasks = [
        {"command": f"echo {n}", "task_work_path": f"stage-1/{n}", "outlog": "said"} for n in "ab"
    ]
    submission = {
        "work_base": ".",
        "machine": {"batch_type": "Shell", "context_type": "LocalContext"},
        "resources": {"group_size": 1},
        "task_list": [{**task, "forward_files": [], "backward_files": []} for task in tasks],
    }
    place = made(tmp_path, {"id": "stage-1", "name": "Two"})
    for name in "ab":
        (place.path / "stage-1" / name).mkdir(parents=True)
    (place.path / "stage-1/submission.json").write_text(json.dumps(submission))
    place.done("dispatch", "stage-1")
    ended(place)
    place.call("wait", "stage-1")
    text = logs(place).out
    assert text == "==> stage-1/a/said <==\na\n\n==> stage-1/b/said <==\nb\n"


def test_logs_reports_missing_attempts_and_empty_output(tmp_path: Path) -> None:
    """`wfctl logs` exits with 3 for an unknown attempt, and says if the job printed nothing."""
    place = made(tmp_path, stage(1, "echo hi > a.txt", outputs=OUT))
    answer = place.json("logs", "stage-1")
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert place.json("logs", "stage-7").code == 3
    assert place.call("run").code == 0
    assert place.json("logs", "stage-1", "--attempt", "att-0009").code == 3
    answer = logs(place)
    assert (answer.code, answer.out) == (0, "")
    assert "att-0001 has printed no output on this machine: --err shows stderr" in answer.err
