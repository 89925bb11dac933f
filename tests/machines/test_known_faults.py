"""What public implementations are known to get wrong, each a test that it is right here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import HERE
from tests.machines.place import MachinePlace
from tests.need import need_programs

STATE = "login.state.json"


def test_state_lost_although_the_log_was_whole(place: MachinePlace) -> None:
    """Given every file but the log lost, when it is replayed, then each is as it was."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md", 'brief={"z": 1, "a": [2]}')
    place.done("transition", "login", "plan")
    place.init("wf", "dotagent")
    place.init("track", "conductor")
    paths = [STATE, "memory/state/phase.json", "conductor/tracks/track/metadata.json"]
    before = {path: (place.path / path).read_bytes() for path in paths}
    for path in paths:
        (place.path / path).unlink()
    for left in (place.path / ".wfctl/machines").iterdir():
        left.unlink()
    assert place.wfctl("replay", "--check").code == 7
    assert set(place.wfctl("replay", "--rebuild").data["written"]) >= set(paths)
    assert {path: (place.path / path).read_bytes() for path in paths} == before
    assert place.wfctl("replay", "--check").code == 0


def test_a_cancelled_workflow_back_at_ideate_after_a_replay(place: MachinePlace) -> None:
    """It stays cancelled."""
    place.init("login")
    place.done("cancel", "login")
    (place.path / STATE).unlink()
    assert place.wfctl("replay", "--machine", "login").data["state"]["phase"] == "cancelled"
    assert place.wfctl("replay", "--machine", "login", "--rebuild").data["written"] == [STATE]
    assert place.json(STATE)["phase"] == "cancelled"


def test_artifacts_set_by_dot_path_missing_from_rehydrate(place: MachinePlace) -> None:
    """However they were written, they are there."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("update", "login", "--data", '{"artifacts": {"plan": "p.md"}}')
    artifacts = place.done("rehydrate", "login")["artifacts"]
    assert artifacts == {"design": "d.md", "plan": "p.md"}


@pytest.mark.slow
def test_an_acknowledged_value_absent_from_the_log_after_a_crash(place: MachinePlace) -> None:
    """Given a writer killed at any moment, then all that it acknowledged is in the log."""
    place.init("login")
    script = (
        "import sys\n"
        "from tests.machines.place import MachinePlace\n"
        "from pathlib import Path\n"
        "place = MachinePlace(Path(sys.argv[1]))\n"
        "for number in range(1000):\n"
        "    place.done('update', 'login', f'planReview.gaps=[{number}]')\n"
        "    print(number, flush=True)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(place.path)],
        cwd=HERE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(4)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout.read().split()]
    writer.wait()
    writer.stdout.close()
    updates = [e["data"]["changes"] for e in place.events("login") if e["version"] > 1]
    values = [changes[0]["value"][0] for changes in updates]
    assert values[: len(acknowledged)] == acknowledged
    assert place.wfctl("fsck").code == 0
    place.done("update", "login", "artifacts.design=d.md")
    assert place.wfctl("replay", "--check").code == 0


def test_a_refused_update_already_logged(place: MachinePlace) -> None:
    """A refusal changes neither the log nor the file."""
    place.init("login")
    before = (place.path / STATE).read_bytes()
    place.refused("RESERVED_FIELD", 5, "update", "login", "artifacts.design=d.md", "phase=plan")
    place.refused("INVALID_INPUT", 2, "update", "login", "artifacts.design=d", "tasks[9].id=x")
    assert place.head("login") == 1
    assert (place.path / STATE).read_bytes() == before


def test_a_torn_last_line_swallowing_the_next_event(place: MachinePlace) -> None:
    """Given a file cut off at any byte, when somebody writes, then it is whole, nothing is lost."""
    place.init("login")
    whole = (place.path / STATE).read_bytes()
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        (place.path / STATE).write_bytes(whole[:cut])
        place.done("update", "login", f"planReview.gaps=[{cut}]")
        assert place.json(STATE)["planReview"]["gaps"] == [cut]
        whole = (place.path / STATE).read_bytes()
    assert place.types("login").count("machine.updated") == 4
    assert place.wfctl("fsck").data["findings"] == []


@pytest.mark.slow
def test_forty_parallel_appends_giving_duplicate_sequence_numbers(place: MachinePlace) -> None:
    """Given forty processes that update one machine, then forty versions and no lost update."""
    place.init("login")
    script = (
        "import os, sys\n"
        "from cli.main import run\n"
        "from cli.machine.group import build\n"
        "build()\n"
        "children = []\n"
        "for number in range(40):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        path = f'reviews.r{number}.status=pass'\n"
        "        os._exit(run(['--root', sys.argv[1], 'machine', 'update', 'login', path]))\n"
        "    children.append(child)\n"
        "sys.exit(max(os.waitpid(child, 0)[1] for child in children) != 0)\n"
    )
    crowd = [sys.executable, "-c", script, str(place.path)]
    subprocess.run(crowd, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    events = place.events("login")
    assert [event["version"] for event in events] == list(range(1, 42))
    assert len({event["event_id"] for event in events}) == 41
    assert set(place.json(STATE)["reviews"]) == {f"r{number}" for number in range(40)}
    assert place.wfctl("fsck").code == 0
    assert place.wfctl("replay", "--check").code == 0


def test_blockers_that_never_clear(place: MachinePlace) -> None:
    """Given a failed task, then a blocker; given it done, then none."""
    place.init("login")
    place.done("task", "login", "T-1", "--status", "failed")
    (blocker,) = place.done("rehydrate", "login")["blockers"]
    assert blocker == {"says": "a task failed: T-1", "items": ["T-1"]}
    assert place.done("list")[0]["blockers"] == ["a task failed: T-1"]
    place.done("task", "login", "T-1", "--status", "complete")
    assert place.done("rehydrate", "login")["blockers"] == []
    assert place.done("list")[0]["blockers"] == []


def test_an_empty_task_list_counted_as_all_complete(place: MachinePlace) -> None:
    """No task is not every task."""
    place.init("login")
    place.done(
        "update", "login", "artifacts.design=d", "artifacts.plan=p", "planReview.approved=true"
    )
    for phase in ("plan", "plan-review", "delegate"):
        place.done("transition", "login", phase)
    data = place.refused("GUARD_FAILED", 5, "transition", "login", "review")
    assert data["unmet"][0]["found"] == "none at all"
    place.done("update", "login", "tasks=[]")
    place.refused("GUARD_FAILED", 5, "transition", "login", "review")


def test_a_pending_task_hidden_behind_another_of_its_id(place: MachinePlace) -> None:
    """Given two tasks of one id, one of them pending, then not every task is complete."""
    place.init("login")
    place.done(
        "update", "login", "artifacts.design=d", "artifacts.plan=p", "planReview.approved=true"
    )
    for phase in ("plan", "plan-review", "delegate"):
        place.done("transition", "login", phase)
    twice = [{"id": "T-1", "status": status} for status in ("pending", "complete")]
    place.done("update", "login", f"tasks={json.dumps(twice)}")
    place.refused("GUARD_FAILED", 5, "transition", "login", "review")


def test_loops_counted_by_nobody(place: MachinePlace) -> None:
    """Given a debug that fails its tests, then two fixes, and then a person, whoever counts."""
    place.init("crash", "debug")
    place.done("update", "crash", "triage.symptom=x", "track=hotfix", "validation.testsPass=false")
    for phase in ("investigate", "hotfix-implement", "hotfix-validate"):
        place.done("transition", "crash", phase)
    for _ in range(2):
        assert place.done("transition", "crash", "--auto")["phase"] == "hotfix-implement"
        place.done("transition", "crash", "hotfix-validate")
    place.done("update", "crash", "loops=0", "fixCycles=0")
    assert place.done("transition", "crash", "hotfix-implement")["phase"] == "blocked"


def test_the_phase_cannot_be_had_by_an_edit_of_the_file(place: MachinePlace) -> None:
    """Given a hand edit of the phase, then it is kept and recorded, and decides nothing."""
    place.init("login")
    edited = {**place.json(STATE), "phase": "completed"}
    place.write(STATE, edited)
    warnings = place.call("get", "login").envelope["_meta"]["warnings"]
    assert f"{STATE} was changed by somebody else" in warnings[0]
    assert place.phase("login") == "ideate"
    place.done("checkpoint", "login", "--summary", "went on")
    assert place.json(STATE)["phase"] == "ideate"
    answer = place.call("drift", "login")
    assert answer.code == 7
    assert answer.data["changes"][0]["differences"][0]["new"] == "completed"
    place.refused("RESERVED_FIELD", 5, "drift", "login", "--adopt")


def test_a_hand_edit_of_a_field_can_be_adopted(place: MachinePlace) -> None:
    """Through the rules, as an update."""
    place.init("login")
    edited = place.json(STATE)
    edited["artifacts"] = {"design": "by-hand.md"}
    place.write(STATE, edited)
    place.done("drift", "login", "--adopt")
    assert place.json(STATE)["artifacts"] == {"design": "by-hand.md"}
    assert place.types("login")[-3:] == ["drift.detected", "machine.updated", "drift.adopted"]
    assert place.call("drift", "login").code == 0


def test_rehydrate_stays_within_its_bound_and_says_what_it_cut(place: MachinePlace) -> None:
    """16 KB by default, a thousand tasks or not; it appends nothing."""
    place.init("login")
    tasks = [{"id": f"T-{n}", "title": "word " * 40, "status": "pending"} for n in range(1000)]
    place.write("tasks.json", {"tasks": tasks, "planReview": {"gaps": ["g" * 5000] * 30}})
    place.done("update", "login", "--data", f"@{place.path}/tasks.json")
    place.done("checkpoint", "login", "--summary", "s" * 15_000, "--next", "n" * 15_000)
    before = place.head("login")
    for bound in (16_384, 4_096, 1_500):
        data = place.done("rehydrate", "login", "--bytes", str(bound))
        assert len(json.dumps(data, indent=2, ensure_ascii=False).encode()) <= bound
        assert data["cut"]
        assert data["taskProgress"] is None or data["taskProgress"]["total"] == 1000
    assert place.head("login") == before


def git(folder: Path, *arguments: str) -> None:
    """Call git, with nothing of the caller's configuration."""
    need_programs("git")
    environ = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run(
        ["git", *who, "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, **environ},
    )


def test_rehydrate_compares_with_the_files_and_with_git(
    place: MachinePlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Given work that vanished, then each is named: artifacts, branches and worktrees."""
    git(place.path, "init", "-q", "-b", "main")
    place.write("design.md", "one")
    git(place.path, "add", ".")
    git(place.path, "commit", "-q", "-m", "one")
    git(place.path, "branch", "feat/a")
    git(place.path, "worktree", "add", "-q", str(tmp_path / "tree"), "feat/a")
    place.init("login")
    place.done("update", "login", "artifacts.design=design.md", "artifacts.plan=gone.md")
    for task, branch in (("T-1", "feat/a"), ("T-2", "feat/never")):
        place.done("task", "login", task, f"branch={branch}")
    trees = {
        "one": {"branch": "feat/a", "taskId": "T-1", "status": "active"},
        "two": {"branch": "feat/never", "taskId": "T-2", "status": "active"},
        "old": {"branch": "feat/old", "taskId": "T-0", "status": "merged"},
    }
    place.done("update", "login", f"worktrees={json.dumps(trees)}")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    kinds = [one["kind"] for one in place.done("rehydrate", "login")["drift"]]
    assert kinds == ["artifact_missing", "worktree_missing", "branch_missing"]
    place.write("design.md", "two")
    kinds = [one["kind"] for one in place.done("rehydrate", "login")["drift"]]
    assert "artifact_changed" in kinds
    place.done("update", "login", "artifacts.design=design.md")
    kinds = [one["kind"] for one in place.done("rehydrate", "login")["drift"]]
    assert "artifact_changed" not in kinds
