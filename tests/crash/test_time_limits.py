"""A command with a time limit ends at the limit at the latest, with all of its processes."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.outliving import shells_above
from tests.crash.support import Workflow, until
from tests.crash.test_background import Maker, of_one, of_tasks
from tests.crash.victims import Victim, kill, strike

pytestmark = pytest.mark.slow

#: Shell commands that write their process id and then run longer than any limit.
WORKS = 'echo $BASHPID >> "{0}/pids"; exec sleep 600'
AWAY = "> /dev/null 2>&1 < /dev/null"
BARE = '["bash", "-c", "echo $$ >> {0}/pids; exec sleep 600"]'
#: Ways in which a process detaches from the shell that started it.
LEAVES = (
    f"({WORKS}) &",
    f"(trap '' TERM; {WORKS}) &",
    f"setsid bash -c '{WORKS}' &",
    f"nohup setsid bash -c '{WORKS}' {AWAY} &",
    f"(trap '' TERM; setsid bash -c '{WORKS}' {AWAY} 6<&- 9>&- &)",
    f"env -i setsid bash -c '{WORKS}' &",
    # A process without the environment and open files, below a parent that has both.
    f"\"{sys.executable}\" -c 'import subprocess as s; s.run({BARE}, env=dict())' &",
)


def stage_of(workflow: Workflow, made: Maker, command: str, **parameters: Any) -> dict[str, Any]:
    """Return a stage whose command has a time limit."""
    stage = made(workflow, command.replace("{0}", str(workflow.root.parent)))
    stage["parameters"] |= {"time_limit": 8, **parameters}
    return stage


def limited(workflow: Workflow, made: Maker, command: str, **parameters: Any) -> None:
    """Create a workflow of a stage with a time limit."""
    workflow.init(stage_of(workflow, made, command, **parameters))


def pids(workflow: Workflow) -> list[int]:
    """Return the process ids that the commands of the test recorded."""
    path = workflow.root.parent / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def told(workflow: Workflow) -> str:
    """Return the diagnosis of the failure."""
    return workflow.succeed("stage", "diagnose", "stage-1")


@pytest.mark.long
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_time_limit_ends_every_process_of_a_command(workflow: Workflow, made: Maker) -> None:
    """The limit also kills processes in other sessions and those that ignore SIGTERM."""
    limited(workflow, made, "\n".join([*LEAVES, "sleep 600"]))
    began = time.monotonic()
    assert workflow.call("run").returncode == 6
    assert time.monotonic() - began < 8 + 30 + 20
    assert len(pids(workflow)) == len(LEAVES)
    assert not [one for one in pids(workflow) if start_ticks(one) is not None]
    assert workflow.stage("stage-1")["status"] == "failed"
    assert len(workflow.attempts("stage-1")) == 1, "it failed, and is not lost"
    assert "ended by its time limit of 8 s" in told(workflow)
    assert "124" in told(workflow)


def verdicts(workflow: Workflow) -> list[str]:
    """Return the verdicts of all observations."""
    return [one["data"]["verdict"] for one in workflow.events("attempt.observed")]


#: Commands that end in time, and their expected outputs.
IN_TIME = {
    "quotes": ("""echo 'a "b" $c' "it's" > out.txt""", """a "b" $c it's\n"""),
    "a comment at its end": ("echo 1 > out.txt # done", "1\n"),
    "lines": ("x=1\n\nfor i in 1 2; do\n  echo $x$i\ndone > out.txt\n", "11\n12\n"),
    "a here-document": ("cat > out.txt << 'END'\n$x 'y'\nEND", "$x 'y'\n"),
    "a function of its shell": ('f() { echo "$1" > out.txt; }; f 1', "1\n"),
    "what it waits for": ("(sleep 1; echo 1 > out.txt) & wait", "1\n"),
    "what it forgot": ("(sleep 2; echo 1 > out.txt) & exit 0", "1\n"),
    "a trap of its own": ("trap 'echo 1 > out.txt' EXIT; true", "1\n"),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("made", [of_one, of_tasks])
@pytest.mark.parametrize("command", IN_TIME)
def test_command_within_its_limit_behaves_as_without_a_limit(
    workflow: Workflow, command: str, made: Maker
) -> None:
    """Quotes, functions and background processes in the command work as without a limit."""
    text, left = IN_TIME[command]
    limited(workflow, made, text, time_limit=100)
    workflow.succeed("run")
    [written] = (workflow.root / "stage-1").rglob("out.txt")
    assert written.read_text() == left


def test_limited_command_has_unexported_functions_and_variables(
    workflow: Workflow,
) -> None:
    """A limited command can call the job shell's functions, such as `module`."""
    lines = ['module() { echo "$1 $own" > out.txt; }', "own=1"]
    limited(workflow, of_one, "module load", resource_overrides={"prepend_script": lines})
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "load 1\n"


@pytest.mark.long
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_limited_command_keeps_its_exit_code(workflow: Workflow, made: Maker) -> None:
    """If the command fails before its limit, its exit code is reported and not the limit."""
    limited(workflow, made, "echo 'no such field' >&2; exit 3")
    assert workflow.call("run").returncode == 6
    assert "time limit" not in told(workflow)
    code = "exit code 3" if made is of_one else "exit 3"
    assert code in told(workflow)


@pytest.mark.long
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_background_output_is_awaited_until_the_limit(workflow: Workflow, made: Maker) -> None:
    """If a background process has not completed the output at the limit, the stage fails."""
    limited(workflow, made, f"(exec > out.txt; echo half; {WORKS}) & sleep 1; exit 0")
    assert workflow.call("run").returncode == 6
    assert "124" in told(workflow)
    assert not [one for one in pids(workflow) if start_ticks(one) is not None]


@pytest.mark.few(1)
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_background_process_ends_with_a_limited_command(workflow: Workflow, made: Maker) -> None:
    """When the command completes, wfctl kills the background process that it left."""
    limited(workflow, made, f"echo 1 > out.txt; setsid bash -c '{WORKS}' {AWAY} & sleep 1")
    workflow.succeed("run")
    assert pids(workflow)
    assert start_ticks(pids(workflow)[0]) is None


@pytest.mark.long
@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_killed_command_is_lost_and_not_timed_out(workflow: Workflow, made: Maker) -> None:
    """A killed command is replaced without a retry. Its replacement has the same limit."""
    limited(workflow, made, f'[ ! -e "{{0}}/pids" ] || sleep 600; {WORKS}')
    workflow.succeed("dispatch", "stage-1")
    until(lambda: pids(workflow))
    kill(pids(workflow))
    assert workflow.call("run").returncode == 6
    if made is of_one:
        assert "JOB_KILLED" in verdicts(workflow)
    started = [one["data"]["recovers"] for one in workflow.events("attempt.started")]
    assert started == [None, "att-0001"]
    assert verdicts(workflow)[-1] == ("TASK_FAILED" if made is of_one else "TASKS_FAILED")
    assert workflow.stage("stage-1")["retry_count"] == 0
    assert "124" in told(workflow)


@pytest.mark.long
def test_time_limit_applies_without_a_monitor(workflow: Workflow) -> None:
    """The monitor was killed, so the job itself ends its command at the limit."""
    limited(workflow, of_one, WORKS)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: pids(workflow))
    strike(workflow, Victim.SESSION)
    until(lambda: start_ticks(pids(workflow)[0]) is None, 100)
    assert workflow.call("run").returncode == 6
    assert "exit code 124" in told(workflow)


@pytest.mark.long
def test_command_without_shells_ends_at_its_limit(workflow: Workflow) -> None:
    """The limit ends a command whose shells were killed, also in the next attempt."""
    limited(workflow, of_one, WORKS)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: pids(workflow))
    kill(shells_above(pids(workflow)[0]))
    until(lambda: start_ticks(pids(workflow)[0]) is None, 100)
    assert workflow.call("run").returncode == 6
    assert verdicts(workflow)[-2:] == ["JOB_LOST", "TASK_FAILED"]
    assert len(pids(workflow)) == 2
    assert not [one for one in pids(workflow) if start_ticks(one) is not None]


@pytest.mark.long
def test_time_limit_applies_to_each_task_and_try(workflow: Workflow) -> None:
    """The limit ends one task but not the others, and the next try has the full time."""
    command = (
        'echo "$WFCTL_TASK" >> "{0}/tries"; [ "$WFCTL_PARAM_T" = 1 ] || sleep 600; echo 1 > out.txt'
    )
    points = {"points": [{"T": 1}, {"T": 2}, {"T": 3}]}
    more = {"map": points, "task_retries": 1, "at_once": 1, "time_limit": 2, "tolerate": 0.4}
    limited(workflow, of_tasks, command.replace("= 1 ]", "!= 2 ]"), **more)
    assert workflow.call("run").returncode == 0, told(workflow)
    tries = (workflow.root.parent / "tries").read_text().split()
    assert sorted(tries) == ["T=1", "T=2", "T=2", "T=3"]
    assert sorted(one.name for one in (workflow.root / "stage-1/tasks").iterdir()) == ["T=1", "T=3"]


@pytest.mark.long
@pytest.mark.parametrize("in_time", [True, False])
def test_limited_command_records_its_resources(workflow: Workflow, in_time: bool) -> None:
    """The resources are recorded even if the limit ended the command."""
    program = (
        "import time; taken = bytearray(200 << 20); began = time.process_time()\n"
        "while time.process_time() - began < 1.1: pass\n"
        f"open('out.txt', 'w').write('1'); time.sleep({0 if in_time else 600})"
    )
    (workflow.root.parent / "work.py").write_text(program)
    command = f"{sys.executable} {{0}}/work.py; echo on"
    limited(workflow, of_one, command, time_limit=100 if in_time else 15)
    assert workflow.call("run").returncode == (0 if in_time else 6)
    shown = json.loads(workflow.succeed("show", "stage-1", "-o", "json"))
    used = (shown.get("data") or shown)["attempts"][0]["resources"]
    assert used["cpu_seconds"] >= 1.1
    assert used["peak_memory_bytes"] > 200 << 20


@pytest.mark.long
def test_check_of_a_limited_command_has_no_limit(workflow: Workflow) -> None:
    """The check (`verify`) of a command may take longer than the command's limit."""
    limited(workflow, of_one, "echo 1 > out.txt", time_limit=1, verify="sleep 2")
    workflow.succeed("run")


@pytest.mark.long
def test_diagnostic_run_has_the_time_limit(workflow: Workflow) -> None:
    """A diagnostic run ends at the limit too, and the diagnosis reports it."""
    limited(workflow, of_one, "echo before; sleep 600", time_limit=2)
    assert workflow.call("run").returncode == 6
    workflow.succeed("stage", "diagnose", "stage-1", "--submit")
    workflow.call("run")
    assert "time limit" in told(workflow)


@pytest.mark.long
def test_attempt_after_a_timeout_continues_from_its_checkpoint(workflow: Workflow) -> None:
    """After the limit ended a command, the retry continues from its carried files."""
    command = "[ ! -e a.restart ] || { cp a.restart out.txt; exit; }; echo 7 > a.restart; sleep 600"
    limited(workflow, of_one, command, carry=["*.restart"], time_limit=2)
    assert workflow.call("run").returncode == 6
    workflow.succeed("stage", "retry", "stage-1", "--fix", "It goes on.")
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "7\n"


def test_limited_command_records_its_environment(workflow: Workflow) -> None:
    """With a limit, the log has the same program versions as without a limit."""
    venv = workflow.root.parent / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/activate").write_text(f'export VIRTUAL_ENV="{venv}"\n')
    limited(workflow, of_one, "echo 1 > out.txt", environment={"venv": str(venv)})
    workflow.succeed("run")
    [noted] = workflow.attempts("stage-1")[0].glob("job-*.environment")
    assert f"venv: {venv}" in noted.read_text()


@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_exit_code_124_alone_is_not_a_timeout(workflow: Workflow, made: Maker) -> None:
    """If a command itself exits with 124, wfctl does not blame the time limit."""
    limited(workflow, made, "timeout 0.1 sleep 5", time_limit=600)
    assert workflow.call("run").returncode == 6
    assert "time limit" not in told(workflow)
    assert "124" in told(workflow)
