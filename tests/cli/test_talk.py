"""What wfctl says on stderr while it works: for people on a terminal, for programs elsewhere."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.settings import LogLevel, Settings
from cli.terminal.output import say
from cli.terminal.talk import Talk, without_secrets
from tests.cli.support import HERE, Place, agree, call, wfctl, write_plan


def lines(text: str) -> list[dict[str, Any]]:
    """Return what was said, a JSON object a line."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_a_program_is_told_in_json(place: Place) -> None:
    """Each line with the workflow, and what the event is about; stdout holds the answer alone."""
    place.done("session", "start")
    answer = wfctl(
        "--root",
        str(place.path),
        "-o",
        "json",
        "--log-level",
        "debug",
        "dispatch",
        "stage-1",
        "--sync",
    )
    assert answer.envelope["success"] is True
    said = lines(answer.err)
    assert {line["workflow"] for line in said} == {"melt-2026-03-31"}
    (computed,) = [line for line in said if line["type"] == "stage.computed"]
    assert computed["message"].startswith("stage-1 (Build): status -> post_processing")
    assert (computed["stage"], computed["attempt"]) == ("stage-1", "att-0001")
    assert (computed["session"], computed["level"]) == (1, "debug")
    assert computed["timestamp"].endswith("Z")


def on_terminal(
    place: Place, theirs: int, *arguments: str, **environ: str
) -> subprocess.Popen[bytes]:
    """Start wfctl with the end of a terminal as its stderr."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )


def on_a_terminal(place: Place, *arguments: str, **environ: str) -> str:
    """Call wfctl with a terminal as its stderr, and return what was printed there."""
    ours, theirs = pty.openpty()
    with on_terminal(place, theirs, *arguments, **environ) as process:
        assert process.wait() == 0
    os.close(theirs)
    text = os.read(ours, 1 << 16)
    os.close(ours)
    return text.decode()


def stays(shown: str) -> str:
    """Return what stays on a terminal: a living line that was taken away is seen no more."""
    return re.sub(r"[^\n]*\r\x1b\[2K", "", shown)


class Terminal(io.StringIO):
    """A stderr that people read."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_words_of_others_do_not_steer_the_terminal_that_is_talked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither those of an event that is told nor those of an error."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    Talk(Settings(), lambda: "w").say("told \x1b[2J", stage="\x1b[2J")
    say("wfctl: \x1b[2J")
    assert isinstance(sys.stderr, Terminal)
    told = sys.stderr.getvalue()
    assert "told \ufffd[2J" in told
    assert "wfctl: \ufffd[2J" in told
    assert "\x1b[2J" not in told


@pytest.mark.slow
def test_people_are_told_each_fact_once(place: Place) -> None:
    """On a terminal a sentence; its keys and values, and what leads on, for anyone who debugs."""
    said = stays(on_a_terminal(place, "dispatch", "stage-1", "--sync", NO_COLOR="1"))
    assert "stage=" not in said
    assert "workflow=" not in said
    assert "preparing" not in said
    place.done("stage", "fail", "stage-1", "--error", "not so")
    place.done("stage", "retry", "stage-1", "--fix", "once more")
    line = ["--log-level", "debug", "dispatch", "stage-1", "--sync"]
    said = stays(on_a_terminal(place, *line, NO_COLOR="1"))
    assert "stage-1 (Build): status -> preparing (sync dispatch) " in said
    assert "stage=stage-1" in said
    assert "\x1b" not in said


SLOW = {
    "workflow_id": "slow",
    "stages": [
        {
            "id": "stage-1",
            "name": "Wait",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": "echo step 7; sleep 3; echo hi > out.txt"},
        }
    ],
}


@pytest.fixture
def slow(tmp_path: Path) -> Place:
    """A workflow whose only stage says something and takes some seconds."""
    assert call("--root", str(tmp_path), "init", str(write_plan(tmp_path, SLOW))).code == 0
    agree(tmp_path)
    return Place(tmp_path)


@pytest.mark.slow
def test_a_run_says_nothing_that_the_log_holds(slow: Place) -> None:
    """Where no terminal is, stderr is for what progress.log does not say."""
    answer = wfctl("--root", str(slow.path), "run")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out.startswith("completed: ")


@pytest.mark.slow
def test_waiting_is_shown_on_a_terminal_in_a_line_that_lives(slow: Place) -> None:
    """How long, and the last line of the job's log; gone when there is something else to say."""
    said = on_a_terminal(slow, "run", NO_COLOR="1")
    assert re.search(r"\r\x1b\[2Kwaiting: stage-1 running, \d+ s: step 7", said)
    assert "\r\x1b[2K" in said.rpartition("step 7")[2]


@pytest.mark.slow
def test_waiting_is_told_elsewhere_at_growing_intervals(
    slow: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line now and then, however long it takes."""
    monkeypatch.setattr("cli.terminal.waiting._FIRST", 0.4)
    told = [line["message"] for line in lines(slow.call("run").err)]
    assert 2 <= len(told) <= 5, told
    assert all(text.startswith("waiting: stage-1 ") for text in told)
    assert told[-1].endswith(": step 7")


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("line", [("wait", "stage-1"), ("wait", "stage-1", "stage-1")])
def test_a_wait_shows_what_it_waits_for(tmp_path: Path, line: tuple[str, ...]) -> None:
    """As a run does: which stage, how long, and the last line of its log."""
    seen = tmp_path / "seen"
    command = f"echo step 7; until [ -e {seen} ]; do sleep 0.1; done"
    stage = {"id": "stage-1", "name": "A", "parameters": {"command": command}}
    plan = write_plan(tmp_path, {"workflow_id": "waits", "stages": [stage]})
    place = Place(tmp_path)
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    place.done("dispatch", "stage-1")
    ours, theirs = pty.openpty()
    with on_terminal(place, theirs, *line, NO_COLOR="1") as waiting:
        os.close(theirs)
        shown = ""
        while "step 7" not in shown:
            shown += os.read(ours, 1 << 16).decode()
        seen.touch()
        os.close(ours)
        waiting.wait(60)
    assert re.search(r"\r\x1b\[2Kwaiting: stage-1 \w+, \d+ s: step 7", shown)


def said(capsys: pytest.CaptureFixture[str], level: str, *texts: tuple[str, str]) -> list[str]:
    """Return the texts that are said at a level, of texts with levels of their own."""
    talk = Talk(Settings(log_level=LogLevel(level)), lambda: "w")
    for own, text in texts:
        talk.say(text, level=own)
    return [line["message"] for line in lines(capsys.readouterr().err)]


def test_a_level_leaves_out_what_is_less_grave(capsys: pytest.CaptureFixture[str]) -> None:
    """From debug on everything is said, at error hardly anything."""
    texts = [("debug", "a"), ("info", "b"), ("warning", "c"), ("error", "d")]
    for first, level in enumerate(LogLevel):
        assert said(capsys, level, *texts) == [text for _, text in texts[first:]]


def test_a_level_that_there_is_not_is_a_usage_error(place: Place) -> None:
    """The levels are named."""
    answer = place.json("status", "--log-level", "loud")
    assert answer.code == 2
    assert "warning" in answer.error["message"]


@given(secret=st.text("abcdefgh0123456789!$%&/()", min_size=4, max_size=12))
@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://ada:{}@host/db",
        "password={}",
        "passphrase: '{}'",
        '{{"totp_secret": "{}"}}',
        "API_KEY={}",
        "github_token={}",
    ],
)
def test_no_secret_is_said(text: str, secret: str) -> None:
    """Neither within a sentence nor as a value of its own."""
    if "://" in text:
        secret = secret.replace("/", "x")
    hidden = without_secrets(None, "info", {"event": f"it says {text.format(secret)}"})["event"]
    assert secret not in hidden.replace("password", "").replace("passphrase", "")
    assert without_secrets(None, "info", {"password": secret}) == {"password": "***"}


def test_what_is_no_secret_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A word like token by itself hides nothing."""
    text = "stage-1: 12 tokens, the key of the plan; file:///tmp/a@b"
    assert said(capsys, "info", ("info", text)) == [text]


def test_a_command_that_says_nothing_loads_no_structlog(place: Place, tmp_path: Path) -> None:
    """Its start is not slower for it."""
    code = (
        "import sys; from cli.main import run; "
        f"code = run(['--root', {str(place.path)!r}, 'note', 'hello']); "
        "sys.exit(code or ('structlog' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
