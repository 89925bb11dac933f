"""Faults that other implementations have. Each test shows that wfctl does not have the fault."""

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


def test_lost_files_are_rebuilt_from_the_log(place: MachinePlace) -> None:
    """If all files except the log are deleted, wfctl writes the same bytes again."""
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


def test_cancelled_machine_stays_cancelled_after_a_replay(place: MachinePlace) -> None:
    """The rebuilt file has the phase cancelled, and not the first phase."""
    place.init("login")
    place.done("cancel", "login")
    (place.path / STATE).unlink()
    assert place.wfctl("replay", "--machine", "login").data["state"]["phase"] == "cancelled"
    assert place.wfctl("replay", "--machine", "login", "--rebuild").data["written"] == [STATE]
    assert place.json(STATE)["phase"] == "cancelled"


def test_rehydrate_lists_artifacts_written_in_any_form(place: MachinePlace) -> None:
    """`rehydrate` lists artifacts that were set by a path and by a JSON object."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("update", "login", "--data", '{"artifacts": {"plan": "p.md"}}')
    artifacts = place.done("rehydrate", "login")["artifacts"]
    assert artifacts == {"design": "d.md", "plan": "p.md"}


@pytest.mark.slow
def test_acknowledged_updates_survive_a_kill(place: MachinePlace) -> None:
    """If a writing process is killed, the log has every update that it had reported as done."""
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


def test_refused_update_changes_nothing(place: MachinePlace) -> None:
    """If one of several values is invalid, wfctl changes neither the log nor the file."""
    place.init("login")
    before = (place.path / STATE).read_bytes()
    place.refused("RESERVED_FIELD", 5, "update", "login", "artifacts.design=d.md", "phase=plan")
    place.refused("INVALID_INPUT", 2, "update", "login", "artifacts.design=d", "tasks[9].id=x")
    assert place.head("login") == 1
    assert (place.path / STATE).read_bytes() == before


def test_truncated_file_is_restored_by_the_next_write(place: MachinePlace) -> None:
    """If the state file is cut off, the next update writes it completely; no event is lost."""
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
@pytest.mark.long
def test_forty_parallel_updates_get_distinct_versions(place: MachinePlace) -> None:
    """Forty processes update one machine, and no update is lost."""
    place.init("login")
    script = (
        "import os, sys\n"
        "from cli.main import run\n"
        "import extensions.machines.commands.changes\n"
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


def test_blocker_disappears_when_its_cause_is_gone(place: MachinePlace) -> None:
    """wfctl reports a failed task as a blocker until the task is complete."""
    place.init("login")
    place.done("task", "login", "T-1", "--status", "failed")
    (blocker,) = place.done("rehydrate", "login")["blockers"]
    assert blocker == {"says": "a task failed: T-1", "items": ["T-1"]}
    assert place.done("list")[0]["blockers"] == ["a task failed: T-1"]
    place.done("task", "login", "T-1", "--status", "complete")
    assert place.done("rehydrate", "login")["blockers"] == []
    assert place.done("list")[0]["blockers"] == []


def at_delegate(place: MachinePlace) -> None:
    """Move the machine to the phase delegate, in which the tasks are done."""
    for written, phase in (
        ("artifacts.design=d", "plan"),
        ("artifacts.plan=p", "plan-review"),
        ("planReview.approved=true", "delegate"),
    ):
        place.done("update", "login", written)
        if phase == "delegate":
            place.done("approve", "login", "plan")
        place.done("transition", "login", phase)


def test_tasks_and_reviews_from_before_a_fix_cycle_are_ignored(place: MachinePlace) -> None:
    """After a failed review, all statuses of tasks and reviews must be written again."""
    place.init("login")
    at_delegate(place)
    done = '{"tasks": [{"id": "T-1", "status": "complete"}]}'
    place.done("update", "login", "--data", done)
    place.done("transition", "login", "review")
    place.done("update", "login", "reviews.spec-review.status=fail")
    place.done("transition", "login", "delegate")
    data = place.refused("GUARD_FAILED", 5, "transition", "login", "review")
    assert data["unmet"][0]["found"] == "not written since the phase started"
    place.done("update", "login", "--data", done)
    place.done("transition", "login", "review")
    place.refused("GUARD_FAILED", 5, "transition", "login", "delegate")
    place.done("update", "login", "reviews.quality-review.status=pass")
    place.refused("GUARD_FAILED", 5, "transition", "login", "delegate")


def test_values_written_in_an_earlier_phase_do_not_count_later(place: MachinePlace) -> None:
    """If one update has the values of two phases, the second phase needs its value again."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d", "artifacts.plan=p")
    place.done("transition", "login", "plan")
    place.refused("GUARD_FAILED", 5, "transition", "login", "plan-review")


@pytest.mark.parametrize("task", ['{"status": "complete"}', '{"id": "", "status": "complete"}'])
def test_task_without_an_id_is_refused(place: MachinePlace, task: str) -> None:
    """wfctl refuses a task whose id is missing or empty."""
    place.init("login")
    place.refused("INVALID_INPUT", 2, "update", "login", f"tasks=[{task}]")


@pytest.mark.parametrize("path", ["planreview.approved", "artefacts.design", "artifacts.desing"])
def test_misspelt_field_is_refused_with_the_nearest_name(place: MachinePlace, path: str) -> None:
    """wfctl suggests the right name. It accepts a field that resembles no known name."""
    place.init("login")
    data = place.refused("INVALID_INPUT", 2, "update", "login", f"{path}=true")
    assert (
        "did you mean planReview?" in str(data)
        or "did you mean artifacts?" in str(data)
        or ("did you mean design?" in str(data))
    )
    place.done("update", "login", "x-mood=good")


def test_appended_list_items_are_all_kept(place: MachinePlace) -> None:
    """Each update of `tasks[+]` adds one task at the end of the list."""
    place.init("login")
    for number in range(4):
        task = f'tasks[+]={{"id": "T-{number}"}}'
        place.done("update", "login", task)
    assert [task["id"] for task in place.json(STATE)["tasks"]] == ["T-0", "T-1", "T-2", "T-3"]
    place.refused("INVALID_INPUT", 2, "update", "login", "tasks[01].status=complete")


@pytest.mark.parametrize("change", ["tasks[0].status=complete", 'tasks[1]={"id": "T-2"}', "x[0]=1"])
def test_write_by_index_requires_the_expected_version(place: MachinePlace, change: str) -> None:
    """Without `--expected-version`, wfctl refuses `tasks[0]` and suggests safe commands."""
    place.init("login")
    place.done("task", "login", "T-1", "title=one")
    place.done("update", "login", "x=[0]")
    before = place.head("login")
    ways = place.refused("INVALID_INPUT", 2, "update", "login", change)["ways"]
    assert place.head("login") == before
    assert any("[+]=" in way for way in ways)
    assert f"update login {change.partition('=')[0]}=… --expected-version N" in ways[-1]
    assert ("machine task login TASK --status" in ways[0]) == change.startswith("tasks")
    place.refused("INVALID_INPUT", 2, "update", "login", change, "--dry-run")
    place.done("update", "login", change, "--expected-version", str(before))
    place.refused("VERSION_CONFLICT", 4, "update", "login", change, "--expected-version", "1")


@pytest.mark.long
@pytest.mark.slow
def test_one_of_eight_writes_with_the_same_version_succeeds(place: MachinePlace) -> None:
    """Of eight processes that write to the same index, seven get a version conflict."""
    place.init("login")
    seen = str(place.head("login"))
    lines = [
        ("update", "login", f'tasks[0]={{"id": "T-{n}"}}', "--expected-version", seen)
        for n in range(8)
    ]
    answers = place.at_once(lines)
    assert sorted(code for code, _ in answers) == [0, *[4] * 7]
    refused = [answer["error"]["code"] for code, answer in answers if code]
    assert refused == ["VERSION_CONFLICT"] * 7
    assert len(place.json(STATE)["tasks"]) == 1


def test_cancelled_machine_takes_no_updates(place: MachinePlace) -> None:
    """wfctl refuses every write to a cancelled machine, and records no event."""
    place.init("login")
    place.done("cancel", "login")
    before = place.head("login")
    for line in (
        ("update", "login", "note=late"),
        ("task", "login", "T-1"),
        ("checkpoint", "login", "--summary", "late"),
    ):
        place.refused("ALREADY_CANCELLED", 5, *line)
    assert place.head("login") == before


def test_empty_folder_has_an_empty_machine_list(place: MachinePlace) -> None:
    """`machine list` succeeds in a folder that is no wfctl root."""
    assert place.done("list") == []


def test_empty_task_list_is_not_complete(place: MachinePlace) -> None:
    """A guard that requires all tasks to be complete needs at least one task."""
    place.init("login")
    at_delegate(place)
    data = place.refused("GUARD_FAILED", 5, "transition", "login", "review")
    assert data["unmet"][0]["found"] == "no items"
    place.done("update", "login", "tasks=[]")
    place.refused("GUARD_FAILED", 5, "transition", "login", "review")


def test_tasks_with_the_same_id_are_refused(place: MachinePlace) -> None:
    """wfctl refuses a second task that would hide a pending task with the same id."""
    place.init("login")
    at_delegate(place)
    twice = [{"id": "T-1", "status": status} for status in ("pending", "complete")]
    place.refused("INVALID_INPUT", 2, "update", "login", f"tasks={json.dumps(twice)}")
    place.refused("GUARD_FAILED", 5, "transition", "login", "review")


def test_loop_count_ignores_values_written_by_users(place: MachinePlace) -> None:
    """Updates of fields such as `loops` do not change the count, so the third fix is blocked."""
    place.init("crash", "debug")
    place.done("update", "crash", "triage.symptom=x", "track=hotfix")
    for phase in ("investigate", "hotfix-implement", "hotfix-validate"):
        place.done("transition", "crash", phase)
    for _ in range(2):
        place.done("update", "crash", "validation.testsPass=false")
        assert place.done("transition", "crash", "--auto")["phase"] == "hotfix-implement"
        place.done("transition", "crash", "hotfix-validate")
    place.done("update", "crash", "loops=0", "fixCycles=0", "validation.testsPass=false")
    assert place.done("transition", "crash", "hotfix-implement")["phase"] == "blocked"


def test_edited_phase_is_recorded_as_drift(place: MachinePlace) -> None:
    """wfctl restores the phase in the state file, and refuses to adopt the edit."""
    place.init("login")
    edited = {**place.json(STATE), "phase": "completed"}
    place.write(STATE, edited)
    warnings = place.call("get", "login").envelope["_meta"]["warnings"]
    assert f"{STATE} was edited" in warnings[0]
    assert place.phase("login") == "ideate"
    place.done("checkpoint", "login", "--summary", "went on")
    assert place.json(STATE)["phase"] == "ideate"
    answer = place.call("drift", "login")
    assert answer.code == 7
    assert answer.data["changes"][0]["differences"][0]["new"] == "completed"
    place.refused("RESERVED_FIELD", 5, "drift", "login", "--adopt")


def test_edited_field_can_be_adopted(place: MachinePlace) -> None:
    """`machine drift --adopt` records the edit of a field as an update."""
    place.init("login")
    edited = place.json(STATE)
    edited["artifacts"] = {"design": "by-hand.md"}
    place.write(STATE, edited)
    place.done("drift", "login", "--adopt")
    assert place.json(STATE)["artifacts"] == {"design": "by-hand.md"}
    assert place.types("login")[-3:] == ["drift.detected", "machine.updated", "drift.adopted"]
    assert place.call("drift", "login").code == 0


def test_one_edited_field_can_be_adopted(place: MachinePlace) -> None:
    """`drift --adopt --field` adopts one field, and wfctl still refuses the edited phase."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md", "artifacts.plan=p.md")
    edited = place.json(STATE)
    edited["phase"] = "completed"
    edited["artifacts"] = {"design": "by-hand.md"}
    place.write(STATE, edited)
    data = place.refused("RESERVED_FIELD", 5, "drift", "login", "--adopt")
    assert data["rejectedPath"] == "phase"
    line = ("drift", "login", "--adopt", "--field")
    assert place.refused("INVALID_INPUT", 2, *line, "track")["edited"]
    place.done(*line, "artifacts")
    assert place.json(STATE)["artifacts"] == {"design": "by-hand.md"}
    assert place.phase("login") == "ideate"
    # Only the phase remains as an undecided edit, because `--field` did not name it.
    [left] = place.call("drift", "login").data["changes"]
    assert [one["path"] for one in left["differences"]] == [["phase"]]
    assert place.refused("RESERVED_FIELD", 5, *line, "phase")
    assert place.refused("INVALID_INPUT", 2, *line, "artifacts")["edited"] == ["phase"]
    place.done("drift", "login", "--revert")
    assert place.call("drift", "login").code == 0


def test_edited_count_inside_the_loop_is_refused(place: MachinePlace) -> None:
    """wfctl adopts a new field in `loop_state`, but refuses an edited count of fixes."""
    place.init("auth", "conductor")
    file = "conductor/tracks/auth/metadata.json"
    edited = place.json(file)
    edited["loop_state"]["next_task"] = "2.1"
    place.write(file, edited)
    place.done("checkpoint", "auth", "--summary", "went on")
    assert place.json(file)["loop_state"]["next_task"] == "2.1"
    edited = place.json(file)
    edited["loop_state"]["fix_cycle_count"] = 7
    place.write(file, edited)
    data = place.refused("RESERVED_FIELD", 5, "drift", "auth", "--adopt")
    assert data["rejectedPath"] == "loop_state.fix_cycle_count"


def test_rehydrate_stays_within_its_byte_limit(place: MachinePlace) -> None:
    """With a thousand tasks, `rehydrate` prints at most `--bytes` bytes and lists what it cut."""
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
    """Run git without the user's configuration."""
    need_programs("git")
    environ = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run(
        ["git", *who, "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, **environ},
    )


def test_rehydrate_compares_the_state_with_files_and_git(
    place: MachinePlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`rehydrate` lists missing or changed artifacts, worktrees and branches as drift."""
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
