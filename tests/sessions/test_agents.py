"""`wfctl run --agent`: wfctl judges an agent's work by the event log, not by its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from reconciler.host import processes
from tests.cli.support import Place
from tests.crash.support import is_written, until
from tests.sessions.support import (
    WFCTL,
    agent,
    answer,
    events,
    silent,
    stage,
    started,
    statuses,
    workflow,
)

#: Shell script of an agent that writes a submission for its stage and dispatches the stage.
COMPUTE = f"""
mkdir -p $WFCTL_STAGE
cat > $WFCTL_STAGE/submission.json <<'END'
{{"work_base": "./", "machine": {{"batch_type": "Shell", "context_type": "LocalContext",
  "local_root": "./", "remote_root": "./"}},
 "resources": {{"number_node": 1, "cpu_per_node": 1, "gpu_per_node": 0, "group_size": 1,
  "queue_name": ""}},
 "task_list": [{{"command": "echo hi > out.txt", "task_work_path": "STAGE",
  "forward_files": [], "backward_files": ["out.txt"]}}]}}
END
sed -i "s/STAGE/$WFCTL_STAGE/" $WFCTL_STAGE/submission.json
{WFCTL} dispatch $WFCTL_STAGE || exit 1
"""


def is_there(pid: int | str) -> bool:
    """Return whether a process exists and is not a zombie."""
    return processes.identify(int(pid)) is not None


def prompts(place: Place, id_: str = "stage-1") -> list[str]:
    """Return all prompts that agents received for a stage, oldest first."""
    found = sorted((place.path / ".wfctl/agents" / id_).glob("*/prompt.md"))
    return [path.read_text() for path in found]


@pytest.mark.slow
def test_agent_computes_a_stage_without_a_command(tmp_path: Path) -> None:
    """The agent gets its prompt on stdin and in a file, and the log names it as actor."""
    place = workflow(tmp_path, stage(1), silent(2, after=[1]))
    words = agent(tmp_path, f"cat > given; cmp given $WFCTL_PROMPT || exit 9; {COMPUTE}")
    assert place.json("run", "--agent", words).data["exit_reason"] == "completed"
    started_by = [event["actor"] for event in events(place, "attempt.started")]
    assert started_by[1] == {"kind": "agent", "name": "agent.sh"}
    assert "stage-1/out.txt" in prompts(place, "stage-2")[0]
    assert "stage-2: agent agent.sh exited 0" in place.log()


def test_prompt_has_task_rules_and_report_commands(tmp_path: Path) -> None:
    """The agent's prompt has paths, criteria, the backend and forbidden actions."""
    place = workflow(tmp_path, silent(1, success_criteria="It looks right."))
    place.json("run", "--agent", agent(tmp_path, "true"))
    [given, repair] = prompts(place)
    for part in (
        str(place.path), "Experiment design", "Workflow plan", "stage-1/out.txt",
        "It looks right.", "local (local)", "compute in any way except with `wfctl dispatch`",
        "edit workflow-state.json", "approve an amendment", "`wfctl dispatch stage-1`",
        "wfctl reads only the log, not your answer",
    ):  # fmt: skip
        assert part in given
    assert "without changing the status of the stage" in repair
    assert "wfctl stage retry stage-1 --fix" in repair


@pytest.mark.long
def test_repair_prompt_has_the_error_and_earlier_fixes(tmp_path: Path) -> None:
    """The prompt has the error, the end of the logs, earlier fixes and allowed changes."""
    command = "echo almost there; echo out of memory >&2; exit 1"
    place = workflow(tmp_path, stage(1, command))
    fixes = agent(
        tmp_path, '[ -e n ] || { touch n; wfctl stage retry stage-1 --fix "less atoms"; }'
    )
    assert place.json("run", "--agent", fixes).code == 6
    told = prompts(place)[-1]
    for part in (
        "- Category: resource", "out of memory", "## stage-1/log ends", "almost there",
        "## stage-1/err ends", "## Earlier fixes and their results", "1. less atoms: failed: ",
        "- batch_type: Shell", "(no approval needed)", "1 of 3 retries are used",
        "`wfctl amend propose --stage stage-1 --set PATH=VALUE --reason TEXT`",
    ):  # fmt: skip
        assert part in told, part


def test_agent_that_does_nothing_fails_its_stage(tmp_path: Path) -> None:
    """An agent's exit code 0 and success message do not complete its stage."""
    place = workflow(tmp_path, silent(1))
    shown = place.json("run", "--agent", agent(tmp_path, "echo all is well"))
    assert (shown.code, statuses(place)) == (6, ["failed"])
    [failed] = events(place, "stage.failed")
    assert "agent agent.sh exited 0" in failed["data"]["error"]
    assert "without changing the status of the stage" in failed["data"]["error"]
    output = place.path / ".wfctl/agents/stage-1/0001/output.log"
    assert output.read_text() == "all is well\n"


def test_agent_that_edits_the_state_file_fails_its_stage(tmp_path: Path) -> None:
    """wfctl records the edit as drift and undoes it, so the stage does not complete."""
    place = workflow(tmp_path, silent(1))
    edit = 'sed -i \'s/"status": "ready"/"status": "completed"/\' workflow-state.json'
    shown = place.json("run", "--agent", agent(tmp_path, edit))
    assert (shown.code, statuses(place)) == (6, ["failed"])
    assert len(events(place, "drift.detected")) == 1
    document = json.loads((place.path / "workflow-state.json").read_bytes())
    assert document["stages"][0]["status"] == "failed"


def test_agent_is_stopped_after_its_time_limit(tmp_path: Path) -> None:
    """wfctl ends all processes of the agent, even those that ignore SIGTERM."""
    place = workflow(tmp_path, silent(1))
    deaf = "bash -c 'trap : TERM; echo $$ > child; while :; do sleep 0.1; done'"
    words = agent(tmp_path, f"{deaf} & sleep 60")
    shown = place.json("run", "--agent", words, "--agent-time", "0.5")
    assert (shown.code, statuses(place)) == (6, ["failed"])
    assert "was stopped after" in events(place, "stage.failed")[0]["data"]["error"]
    child = (place.path / "child").read_text().strip()
    until(lambda: not Path(f"/proc/{child}").exists())


def test_killed_agent_is_started_once_again(tmp_path: Path) -> None:
    """If the agent is killed a second time, its stage fails and its child processes end."""
    place = workflow(tmp_path, silent(1))
    words = agent(tmp_path, "sleep 600 & echo $! >> children; kill -9 $$")
    shown = place.json("run", "--agent", words)
    assert (shown.code, statuses(place)) == (6, ["failed"])
    handed = [
        e for e in events(place, "note.logged") if "gave the task 'compute'" in e["data"]["text"]
    ]
    assert len(handed) == 2
    assert "signal 9" in events(place, "stage.failed")[0]["data"]["error"]
    children = (place.path / "children").read_text().split()
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_processes_that_an_agent_leaves_are_ended(tmp_path: Path) -> None:
    """wfctl ends an agent's background processes before it starts the next agent."""
    place = workflow(tmp_path, silent(1))
    place.json("run", "--agent", agent(tmp_path, "sleep 600 & echo $! >> children"))
    children = (place.path / "children").read_text().split()
    assert len(children) == 2, "one to compute, one to repair"
    until(lambda: not any(is_there(child) for child in children))


@pytest.mark.long
@pytest.mark.slow
def test_agent_repairs_a_failed_stage(tmp_path: Path) -> None:
    """The agent fixes the input and retries the stage, and the stage completes."""
    place = workflow(tmp_path, stage(1, "test -s ../../../../../../mended"))
    repair = f'echo ok > mended; {WFCTL} stage retry $WFCTL_STAGE --fix "wrote it"'
    shown = place.json("run", "--agent", agent(tmp_path, repair))
    assert (shown.code, shown.data["cost"]) == (0, 4)
    [retried] = events(place, "stage.retried")
    assert (retried["data"]["fix"], retried["actor"]["kind"]) == ("wrote it", "agent")
    assert "exit" in prompts(place)[0]


def test_agent_judges_prose_criteria(tmp_path: Path) -> None:
    """The event that completes the stage names the agent as the judge."""
    place = workflow(tmp_path, stage(1, success_criteria="It looks right."))
    judge = f'[ $WFCTL_TASK = judge ] && {WFCTL} stage complete stage-1 --evidence "I looked"'
    assert place.json("run", "--agent", agent(tmp_path, judge)).code == 0
    [completed] = events(place, "stage.completed")
    assert completed["data"]["judged_by"] == "agent:agent.sh"


@pytest.mark.long
def test_proposal_of_an_agent_blocks_the_run(
    tmp_path: Path,
) -> None:
    """The run exits with 6, and the agent cannot approve its own amendment."""
    place = workflow(tmp_path, stage(1, "test $WFCTL_PARAM_n = 2", parameters={"n": 1}))
    propose = f"{WFCTL} amend propose --stage stage-1 --set parameters.n=2 --reason wrong"
    words = agent(tmp_path, f"{propose}; {WFCTL} amend approve amend-1; echo $? > refused")
    for _ in range(2):
        shown = place.json("run", "--agent", words, "--agent-name", "ada")
        assert (shown.code, shown.data["exit_reason"]) == (6, "blocked")
        assert "amend-1" in shown.data["blocked"][0]["why"]
    assert (place.path / "refused").read_text() == "6\n"
    [proposed] = events(place, "amendment.proposed")
    assert proposed["actor"] == {"kind": "agent", "name": "ada"}


@pytest.mark.parametrize("command", ["nowhere-to-be-found", "./nothing.sh --fast", "", "it's"])
def test_missing_agent_is_refused_before_the_session_starts(tmp_path: Path, command: str) -> None:
    """The error code is agent_missing, and wfctl records no event."""
    place = workflow(tmp_path, silent(1))
    shown = place.json("run", "--agent", command)
    assert (shown.code, shown.error["code"]) == (1, "agent_missing")
    assert events(place, "session.started") == []


def test_agent_without_an_interpreter_ends_the_session(tmp_path: Path) -> None:
    """A script without a shebang line cannot start, and the stage stays ready."""
    place = workflow(tmp_path, silent(1))
    words = agent(tmp_path, "true")
    Path(words).write_text("true\n")
    shown = place.json("run", "--agent", words)
    assert (shown.code, shown.error["code"]) == (1, "agent_not_started")
    assert "Exec format error" in shown.error["message"]
    assert place.done("session", "show")["sessions"][0]["end"] == "blocked"
    assert statuses(place) == ["ready"]


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_next_run_ends_the_agent_of_a_killed_run(tmp_path: Path) -> None:
    """The next run kills the old agent, so that two agents never work on one stage."""
    place = workflow(tmp_path, silent(1))
    words = agent(tmp_path, f"echo $$ >> pids; [ -e again ] && {{ {COMPUTE} exit; }}; sleep 60")
    run = started(place, "run", "--agent", words)
    until(lambda: is_written(place.path / "pids"))
    until((place.path / ".wfctl/agent.json").exists)
    run.kill()
    run.communicate()
    (place.path / "again").touch()
    assert place.json("run", "--agent", words).data["exit_reason"] == "completed"
    first = int((place.path / "pids").read_text().split()[0])
    until(lambda: not is_alive(first))


@pytest.mark.slow
def test_next_run_ends_the_children_of_an_ended_agent(
    tmp_path: Path,
) -> None:
    """wfctl finds these processes by their group id and the prompt in their environment."""
    place = workflow(tmp_path, silent(1))
    first = agent(tmp_path, "sleep 600 & echo $! > child; until [ -e go ]; do sleep 0.1; done")
    run = started(place, "run", "--agent", first)
    record = place.path / ".wfctl/agent.json"
    until(lambda: (place.path / "child").exists() and record.exists())
    run.kill()
    run.communicate()
    (place.path / "go").touch()
    pid = json.loads(record.read_text())["pid"]
    until(lambda: not is_there(pid))
    child = (place.path / "child").read_text().strip()
    assert is_there(child)
    place.json("run", "--agent", "true")
    until(lambda: not is_there(child))
    assert not record.exists()


def test_reused_process_group_id_is_not_killed(tmp_path: Path) -> None:
    """wfctl spares a process group whose environment does not name the agent's prompt."""
    place = workflow(tmp_path, silent(1))
    script = "sleep 600 > /dev/null & echo $$ $!"
    done = subprocess.run(
        ["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True, check=True
    )
    leader, child = map(int, done.stdout.split())
    prompt = str(place.path / ".wfctl/agents/stage-1/0001/prompt.md")
    left = {"pid": leader, "ticks": 1, "boot_id": processes.boot_id(), "prompt": prompt}
    record = place.path / ".wfctl/agent.json"
    record.write_text(json.dumps(left))
    place.json("run", "--agent", "true")
    assert is_there(child)
    assert not record.exists()
    os.kill(child, signal.SIGKILL)


def test_stopped_run_stops_its_agent(tmp_path: Path) -> None:
    """After SIGTERM, wfctl makes the stage ready again and records no failure."""
    place = workflow(tmp_path, silent(1))
    run = started(place, "run", "--agent", agent(tmp_path, "touch begun; sleep 1000"))
    until((place.path / "begun").exists)
    began = time.monotonic()
    run.send_signal(signal.SIGTERM)
    assert answer(run)["exit_reason"] == "waiting"
    assert statuses(place) == ["ready"]
    assert time.monotonic() - began < 200
