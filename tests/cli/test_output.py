"""The output streams: one JSON document or records on stdout, and messages on stderr."""

from __future__ import annotations

import gc
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.program.commands import find_top_words, load_sections
from tests.cli.support import HERE, PLAN, Place, call, wfctl, write_plan
from tests.cli.terminal import answered

READS = {
    "status": ["status"],
    "show": ["show", "stage-1"],
    "log": ["log"],
    "events": ["events"],
    "replay": ["replay"],
    "replay --check": ["replay", "--check"],
    "fsck": ["fsck"],
    "schema": ["schema"],
    "schema TYPE": ["schema", "stage.failed"],
    "db url": ["db", "url"],
    "db current": ["db", "current"],
    "run --dry-run": ["run", "--dry-run"],
    "reconcile --dry-run": ["reconcile", "--dry-run"],
    "rehydrate --dry-run": ["rehydrate", "--dry-run"],
}
WRITES = {
    "note": ["note", "hello"],
    "append": ["append", "stage.prepared", "--stage", "stage-1"],
    "stage prepare": ["stage", "prepare", "stage-1"],
    "stage outputs": ["stage", "outputs", "stage-1", "stage-1/out.txt", "a.txt"],
    "stage checkpoint": ["stage", "checkpoint", "stage-1", '{"step": 3}'],
    "reconcile": ["reconcile"],
    "rehydrate": ["rehydrate"],
    "replay --rebuild": ["replay", "--rebuild"],
    "db upgrade": ["db", "upgrade"],
}


EVERY: dict[str, list[str]] = {**READS, **WRITES}


@pytest.mark.parametrize("name", EVERY)
def test_successful_json_answer_is_one_envelope(place: Place, name: str) -> None:
    """Standard output contains only the envelope with its documented fields."""
    answer = place.json(*EVERY[name])
    assert answer.code == 0, answer
    envelope = answer.envelope
    assert list(envelope) == ["success", "data", "next_actions", "_meta"]
    assert envelope["success"] is True
    assert list(envelope["_meta"]) == ["workflow", "version", "position"]
    for action in envelope["next_actions"]:
        assert list(action) == ["command", "reason"]


@pytest.mark.parametrize("name", ["status", "show", "replay", "note", "reconcile"])
def test_envelope_has_log_position_and_next_actions(place: Place, name: str) -> None:
    """The JSON envelope has the log position and the next actions for an agent."""
    envelope = place.json(*EVERY[name]).envelope
    assert envelope["_meta"]["workflow"] == PLAN["workflow_id"]
    assert envelope["_meta"]["version"] >= 2
    assert envelope["next_actions"][0]["command"] == "wfctl dispatch stage-1"


FAILURES = {
    "not found": (["show", "stage-9"], 3, "unknown_stage"),
    "refused": (["stage", "complete", "stage-1"], 5, "illegal_transition"),
    "usage": (["note"], 2, "usage"),
    "an unknown option": (["status", "--loud"], 2, "usage"),
    "an unknown command": (["fly"], 2, "usage"),
    "an unknown command of a group": (["stage", "fly", "stage-1"], 2, "usage"),
    "a bad value": (["log", "-n", "none"], 2, "usage"),
    "a bad actor": (["note", "hello", "--actor", "boss"], 2, "invalid_option"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failed_json_answer_is_one_envelope(place: Place, name: str) -> None:
    """The error has a stable code, a message and data, and no traceback."""
    line, code, error = FAILURES[name]
    answer = place.json(*line)
    assert answer.code == code
    leading_on = ["next_actions"] if code == 5 else []
    assert list(answer.envelope) == ["success", "error", *leading_on]
    assert list(answer.error) == ["code", "message", "data"]
    assert answer.error["code"] == error
    assert answer.error["message"]
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("format_", ["text", "jsonl"])
def test_error_without_json_is_printed_on_stderr(place: Place, name: str, format_: str) -> None:
    """Standard output stays empty after an error, so a pipe receives no error message."""
    line, code, _ = FAILURES[name]
    answer = place.call("-o", format_, *line)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("wfctl: ")


def test_note_text_that_looks_like_an_option_is_text(place: Place) -> None:
    """A note with the text of an option does not change the output format."""
    answer = place.call("note", "use -o json", "--stage", "stage-9")
    assert (answer.code, answer.out) == (3, "")
    assert place.call("note", "--", "--root=x -o json").code == 0
    assert place.notes() == ["--root=x -o json"]


LINES = [
    ["-o", "json", "--root", "R", "status"],
    ["status", "-o", "json", "--root", "R"],
    ["status", "--output=json", "--root=R"],
    ["--root=R", "status", "-ojson"],
    ["status", "-o=json", "--root", "R", "--color", "never"],
    ["--output", "text", "status", "--root", "R", "-o", "json"],
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_global_options_are_accepted_anywhere(place: Place, line: list[str]) -> None:
    """wfctl accepts every common spelling of a global option, and uses the last value."""
    answer = call(*(word.replace("R", str(place.path)) for word in line))
    assert answer.data["workflow"] == PLAN["workflow_id"]


def test_global_options_are_accepted_after_a_group(place: Place) -> None:
    """Global options may follow a group (`stage`) or its command (`stage prepare`)."""
    root = str(place.path)
    answer = call("stage", "--root", root, "prepare", "-o", "json", "stage-1", "--actor=user:ada")
    assert [event["type"] for event in answer.data["events"]] == ["stage.prepared"]


@pytest.mark.parametrize("name", ["events", "log"])
def test_json_lines_are_records_without_an_envelope(place: Place, name: str) -> None:
    """Each line is one record, and the records equal those of JSON output."""
    lines = place.call("-o", "jsonl", name).out.splitlines()
    assert [json.loads(line) for line in lines] == place.json(name).data


@pytest.mark.parametrize("name", READS)
def test_json_lines_output_has_one_object_per_line(place: Place, name: str) -> None:
    """Commands that print a single object also print it on one line."""
    out = place.call("-o", "jsonl", *READS[name]).out
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


def test_event_record_has_all_envelope_fields(place: Place) -> None:
    """A printed event record has every field of the documented event envelope."""
    first = place.done("events")[0]
    assert set(first) == {
        "event_id", "stream", "version", "position", "type", "schema_version", "data", "actor",
        "session", "command_id", "causation_id", "correlation_id", "occurred_at", "recorded_at",
        "utc_offset", "prev_hash", "hash",
    }  # fmt: skip
    assert set(first["actor"]) == {"kind", "name"}


ACTORS = {
    "neither": ([], {}, "agent:unknown"),
    "the environment": ([], {"WFCTL_ACTOR": "agent:tess"}, "agent:tess"),
    "the option": (["--actor", "user:ada"], {"WFCTL_ACTOR": "agent:tess"}, "user:ada"),
    "a name with a colon": (["--actor", "runner:a:b"], {}, "runner:a:b"),
}


@pytest.mark.parametrize("name", ACTORS)
def test_actor_comes_from_option_or_environment(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without option, variable and terminal, wfctl records the caller as an unknown agent."""
    line, environ, actor = ACTORS[name]
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    assert place.call("note", "hello", *line).code == 0
    last = place.done("events")[-1]["actor"]
    assert f"{last['kind']}:{last['name']}" == actor


def test_actor_at_a_terminal_is_the_user_account(place: Place) -> None:
    """At a terminal, wfctl records the user account without WFCTL_ACTOR or --actor."""
    main, side = pty.openpty()
    line = [sys.executable, "-m", "cli.main", "--root", str(place.path), "note", "hello"]
    environ = {**os.environ, "PYTHONPATH": str(HERE), "LOGNAME": "ada", "USER": "ada"}
    subprocess.run(line, stdin=side, env=environ, capture_output=True, check=True, timeout=60)
    os.close(main)
    os.close(side)
    assert place.done("events")[-1]["actor"] == {"kind": "user", "name": "ada"}


@pytest.mark.parametrize("actor", ["ada", "boss:ada", "user:", ":ada", ""])
@pytest.mark.parametrize("how", ["option", "environment"])
def test_invalid_actor_is_a_usage_error(
    place: Place, actor: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write checks the actor first, and records nothing."""
    if how == "environment":
        monkeypatch.setenv("WFCTL_ACTOR", actor)
    line = ["--actor", actor] if how == "option" else []
    answer = place.json("note", "hello", *line)
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert "user, agent, reconciler, runner, import" in answer.error["message"]
    monkeypatch.delenv("WFCTL_ACTOR", raising=False)
    assert place.notes() == []


@pytest.mark.parametrize(
    "name", [[], *([name] for name in find_top_words()), ["stage", "fail"]], ids=str
)
def test_every_command_has_help(name: list[str]) -> None:
    """``--help`` and ``-h`` work without a workflow."""
    for flag in ("--help", "-h"):
        answer = call(*name, flag)
        assert answer.code == 0
        assert f"Usage: {' '.join(['wfctl', *name])}" in answer.out


def test_help_lists_every_command_once_by_task() -> None:
    """The list shows each command with the first line of the command's own help."""
    out = call("--help").out
    listed = [name for lines in load_sections().values() for name in lines]
    assert sorted(listed) == sorted(name for name in find_top_words() if not name.startswith("_"))
    for title, lines in load_sections().items():
        assert f"\n{title}:\n" in out
        for name, line in lines.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", out, re.MULTILINE), name
            assert f"\n  {line}.\n" in call(name, "--help").out


def test_closed_pipe_ends_the_program_quietly(place: Place) -> None:
    """wfctl prints no traceback if the reader of its output exits, as `head -1` does."""
    lines = "".join(
        json.dumps({"type": "note.logged", "data": {"text": "x" * 1000}}) + "\n" for _ in range(300)
    )
    source = place.path / "lines"
    source.write_text(lines)
    assert place.call("append", "--from", str(source)).code == 0
    program = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), "events", "-o", "jsonl"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    with program.stderr, program:
        program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
        assert program.wait(60) == 128 + signal.SIGPIPE


def test_pipe_closed_before_an_error_causes_no_message(tmp_path: Path) -> None:
    """If the pipe is closed, wfctl exits like a program that SIGPIPE killed."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "--root", str(tmp_path), "status", "-o", "json"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize(
    "line", [["log"], ["-o", "json", "log"], ["audit", "transitions"]], ids=str
)
@pytest.mark.parametrize("taker", ["full", "closed"])
def test_unwritable_stdout_is_reported_on_stderr(place: Place, taker: str, line: list[str]) -> None:
    """wfctl reports an error if stdout is on a full disk, but not if stdout is closed."""
    command = " ".join([sys.executable, "-m", "cli.main", *line])
    done = subprocess.run(
        ["sh", "-c", command + {"full": " > /dev/full", "closed": " >&-"}[taker]],
        cwd=place.path,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    full = "wfctl: No space left on device. All confirmed changes are recorded.\n"
    assert (done.returncode, done.stderr) == {"full": (1, full), "closed": (0, "")}[taker]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("init -", "unreadable_plan"),
        ("append -", "invalid_option"),
        ("note hello", None),
        ("plan check -", "unreadable_plan"),
        ("amend propose --from -", "unreadable_plan"),
        ("append note.logged --data -", "invalid_option"),
        ("audit sql -", "invalid_option"),
        ("machine check -", "unreadable_plan"),
        ("drift adopt", "not_found"),
        ("status", None),
    ],
)
def test_closed_stdin_is_treated_as_empty(place: Place, line: str, code: str | None) -> None:
    """A command that reads a closed standard input reports an error, as for empty input."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m cli.main -o json {line} <&-"],
        cwd=place.path,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout)
    assert answer.get("error", {}).get("code") == code, done
    codes = {None: 0, "unreadable_plan": 1, "invalid_option": 2, "not_found": 3}
    assert done.returncode == codes[code]


@pytest.mark.parametrize(
    "line", [["show", "caf\xe9 \udcff"], ["-o", "json", "show", "caf\xe9 \udcff"]], ids=len
)
def test_output_is_utf8_in_every_locale(place: Place, line: list[str]) -> None:
    """Bytes of a name that are not valid UTF-8 are printed as escapes."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), *line],
        env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert "caf\xe9 \\" in (done.stdout + done.stderr).decode()


def test_colours_are_used_at_terminals_or_on_request(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets no colours unless ``--color`` requests them, even against NO_COLOR."""
    assert "\x1b[" not in place.call("status").out
    assert "\x1b[" in place.call("status", "--color", "always").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in place.call("status", "--color=always").out
    assert "\x1b[" not in place.call("status", "--color=never").out


def test_traceback_is_shown_only_in_debug_mode(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl prints a traceback only with ``WFCTL_DEBUG=1``, which is for its developers."""
    assert "Traceback" not in place.call("show", "stage-9").err
    monkeypatch.setenv("WFCTL_DEBUG", "1")
    answer = place.json("show", "stage-9")
    assert "Traceback" in answer.err
    assert answer.error["code"] == "unknown_stage"


def test_pythoninspect_prints_no_traceback(place: Place) -> None:
    """After a wfctl error, Python has no last exception to print with PYTHONINSPECT."""
    ended = wfctl("--root", str(place.path), "show", "stage-9", environ={"PYTHONINSPECT": "1"})
    assert ended.code == 3
    assert "Traceback" not in ended.err
    assert "stage-9" in ended.err


def test_program_and_in_process_call_print_the_same(place: Place, tmp_path: Path) -> None:
    """A command in the test's own process prints the same as in a separate process."""
    root = ["--root", str(place.path), "-o", "json"]
    for line in (["events"], ["status"], ["show", "stage-9"], ["fly"], ["status", "--loud"]):
        outside, inside = wfctl(*root, *line), call(*root, *line)
        assert (outside.code, outside.out) == (inside.code, inside.out)
    bad = write_plan(tmp_path, {}, "bad.json")
    assert (
        wfctl(*root, "init", str(bad), "--consent", "trust").out
        == call(*root, "init", str(bad), "--consent", "trust").out
    )


def test_many_commands_in_one_process_leak_no_objects(place: Place) -> None:
    """The number of objects in memory does not grow with the number of commands."""
    place.call("status")
    kept = gc.get_freeze_count()
    for _ in range(3):
        place.call("status")
    assert gc.get_freeze_count() <= kept


def test_invalid_pager_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """wfctl reports an invalid pager only at a terminal, because a pipe needs no pager."""
    monkeypatch.setenv("PAGER", "less '")
    code, shown = answered("", "--root", str(place.path), "log")
    assert code == 2
    assert "expected a command in $PAGER" in shown
    assert place.call("log").code == 0


@pytest.mark.parametrize("command", ["log", "status", "audit refused", "export log"])
def test_untrusted_text_does_not_control_a_terminal(
    place: Place, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """wfctl replaces control codes with a visible sign, and keeps its own colours."""
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.delenv("NO_COLOR", raising=False)
    words = "\x1b[2J\x9b1;1H\r\x1b[8m"
    assert place.json("note", f"gone: {words}").code == 0
    assert place.json("stage", "complete", "stage-1", "--actor", f"agent:{words}").code == 5
    code, shown = answered("", "--root", str(place.path), *command.split())
    assert code == 0
    assert "\x1b[2J" not in shown
    assert "\x1b[8m" not in shown
    assert "\x9b" not in shown
    if command == "log":
        assert "gone: \ufffd[2J\ufffd1;1H ⏎ \ufffd[8m" in shown
        assert "\x1b[34m" in shown
        assert "gone: \ufffd[2J" in place.call("log").out


@pytest.mark.parametrize(
    "line",
    [
        ["-o", "json", "log"],
        ["-o", "jsonl", "log"],
        ["-o", "json", "show", "gone: \x9b2J\x7f"],
        ["-o", "csv", "audit", "sql", "SELECT 'gone: \x9b2J\x7f\x1b[2J' AS a"],
    ],
    ids=["document", "records", "error", "cells"],
)
def test_control_codes_are_escaped_in_other_output_formats(place: Place, line: list[str]) -> None:
    """JSON output escapes control codes, and CSV output replaces them."""
    place.done("note", "gone: \x9b2J\x7f")
    _, shown = answered("", "--root", str(place.path), *line)
    piped = place.call(*line).out
    sign = "gone: \ufffd2J\ufffd\ufffd[2J" if "csv" in line else r"gone: \u009b2J\u007f"
    for text in (shown, piped):
        assert sign in text
        assert not set(text) & {"\x9b", "\x7f", "\x1b"}
