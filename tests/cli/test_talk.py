"""Messages on stderr: text for people at a terminal, and JSON lines for programs."""

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
from cli.terminal.output import print_message
from cli.terminal.progress_messages import ProgressPrinter, without_secrets
from tests.cli.support import HERE, Place, agree, call, wfctl, write_plan


def lines(text: str) -> list[dict[str, Any]]:
    """Return the messages, which are one JSON object per line."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_program_gets_json_messages(place: Place) -> None:
    """Each line names the workflow and its subject, and stdout contains only the answer."""
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
    """Start wfctl with a terminal as its stderr."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )


def on_a_terminal(place: Place, *arguments: str, **environ: str) -> str:
    """Call wfctl with a terminal as its stderr, and return the printed text."""
    ours, theirs = pty.openpty()
    with on_terminal(place, theirs, *arguments, **environ) as process:
        assert process.wait() == 0
    os.close(theirs)
    text = os.read(ours, 1 << 16)
    os.close(ours)
    return text.decode()


def stays(shown: str) -> str:
    """Return the text that remains on a terminal after progress lines are erased."""
    return re.sub(r"[^\n]*(\r\n\x1b\[\?25h)?\r(\x1b\[1A)?\x1b\[2K", "", shown)


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal, in place of stderr."""

    def isatty(self) -> bool:
        """Return True, as a terminal does."""
        return True


def test_untrusted_text_in_messages_does_not_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """wfctl escapes control characters in messages about events and in error messages."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    ProgressPrinter(Settings(), lambda: "w").say("told \x1b[2J", stage="\x1b[2J")
    print_message("wfctl: \x1b[2J")
    assert isinstance(sys.stderr, Terminal)
    told = sys.stderr.getvalue()
    assert "told \ufffd[2J" in told
    assert "wfctl: \ufffd[2J" in told
    assert "\x1b[2J" not in told


@pytest.mark.long
@pytest.mark.slow
def test_each_fact_is_printed_once_at_a_terminal(place: Place) -> None:
    """A message at a terminal is a sentence without keys and values, except for debug."""
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
    """Return a workflow whose only stage prints a line and runs for some seconds."""
    assert call("--root", str(tmp_path), "init", str(write_plan(tmp_path, SLOW))).code == 0
    agree(tmp_path)
    return Place(tmp_path)


@pytest.mark.slow
def test_run_prints_no_message_that_progress_log_contains(slow: Place) -> None:
    """Without a terminal, stderr is only for messages that progress.log does not have."""
    answer = wfctl("--root", str(slow.path), "run")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out.startswith("completed: ")


@pytest.mark.slow
def test_waiting_is_shown_in_a_progress_line_at_a_terminal(slow: Place) -> None:
    """The line has the time and the job's last output, and is erased before other output."""
    said = on_a_terminal(slow, "run", NO_COLOR="1")
    assert re.search(r"\r\x1b\[2Kstage-1 running, \d+ s: step 7", said)
    assert "\x1b[2K" in said.rpartition("step 7")[2]


@pytest.mark.long
@pytest.mark.slow
def test_terminal_that_cannot_replace_lines_gets_no_bars(slow: Place) -> None:
    """The terminal of a text editor has the type `dumb` and shows control codes as text."""
    said = on_a_terminal(slow, "run", NO_COLOR="1", TERM="dumb")
    assert "status -> completed" in said
    assert "\x1b" not in said


@pytest.mark.long
@pytest.mark.slow
def test_waiting_without_a_terminal_loads_no_bars(slow: Place) -> None:
    """Only progress bars and the live view need the module, which is slow to load."""
    code = (
        "import sys; from cli.main import run; from cli.terminal import progress_lines; "
        "progress_lines._FIRST = 0.4; "
        f"code = run(['--root', {str(slow.path)!r}, 'run']); "
        "sys.exit(code or ('rich.live' in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        check=False,
    )
    assert b"waiting: stage-1 " in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.slow
def test_waiting_without_a_terminal_is_reported_at_growing_intervals(
    slow: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` reports a long wait in only a few lines, however long the job runs."""
    monkeypatch.setattr("cli.terminal.progress_lines._FIRST", 0.4)
    told = [line["message"] for line in lines(slow.call("run").err)]
    assert 2 <= len(told) <= 5, told
    assert all(text.startswith("waiting: stage-1 ") for text in told)
    assert told[-1].endswith(": step 7")


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("line", [("wait", "stage-1"), ("wait", "stage-1", "stage-1")])
def test_wait_shows_the_awaited_stage(tmp_path: Path, line: tuple[str, ...]) -> None:
    """The progress line has the stage, the time and the last line of the job's log."""
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
    assert re.search(r"stage-1 \w+, \d+ s: step 7", shown)


def said(capsys: pytest.CaptureFixture[str], level: str, *texts: tuple[str, str]) -> list[str]:
    """Return the messages that wfctl prints at a log level."""
    talk = ProgressPrinter(Settings(log_level=LogLevel(level)), lambda: "w")
    for own, text in texts:
        talk.say(text, level=own)
    return [line["message"] for line in lines(capsys.readouterr().err)]


def test_log_level_omits_less_severe_messages(capsys: pytest.CaptureFixture[str]) -> None:
    """wfctl prints every message at the level debug, and only errors at the level error."""
    texts = [("debug", "a"), ("info", "b"), ("warning", "c"), ("error", "d")]
    for first, level in enumerate(LogLevel):
        assert said(capsys, level, *texts) == [text for _, text in texts[first:]]


def test_unknown_log_level_is_a_usage_error(place: Place) -> None:
    """The error for an unknown log level names the valid levels."""
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
def test_secret_is_not_printed(text: str, secret: str) -> None:
    """wfctl hides a secret in a message, within a sentence or as a separate value."""
    if "://" in text:
        secret = secret.replace("/", "x")
    hidden = without_secrets(None, "info", {"event": f"it says {text.format(secret)}"})["event"]
    assert secret not in hidden.replace("password", "").replace("passphrase", "")
    assert without_secrets(None, "info", {"password": secret}) == {"password": "***"}


def test_text_without_a_secret_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A word such as `token` alone does not make wfctl hide a message."""
    text = "stage-1: 12 tokens, the key of the plan; file:///tmp/a@b"
    assert said(capsys, "info", ("info", text)) == [text]


def test_command_without_messages_loads_no_structlog(place: Place, tmp_path: Path) -> None:
    """A command that prints no message does not import structlog, which is slow to load."""
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
