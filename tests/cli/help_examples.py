"""Runs the examples of the help and writes their outputs: ``python -m tests.cli.help_examples``.

The commands are in ``cli/program/examples.txt`` and ``extensions/NAME/examples.txt``, after ``$``.
Each example runs in a copy of one of the small workflows below, as a person at a terminal who
answers y. `stable` replaces times, durations, digests and folders, which differ from run to run.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cli.program.examples import (
    find_command_lines,
    find_example_files,
    format_examples,
    read_example_file,
)
from tests.cli.terminal import QUESTION
from tests.tutorial.test_tutorial import environment

PLAN = """\
workflow_id = "walks"
purpose = "how far a random walk gets in N steps"
results = ["fit.slope"]

[[stages]]
id = "walk"
name = "Random walks"
outputs = ["walk/tasks.csv"]

[stages.parameters]
command = "echo r2 > r2.csv; echo $((WFCTL_PARAM_N + 2 * WFCTL_PARAM_seed)) >> r2.csv"
task_outputs = ["r2.csv"]
metrics = { r2 = "r2.csv#/r2" }
map = { grid = { N = [100, 200], seed = [1, 2] } }

[[stages]]
id = "fit"
name = "Fit of the slope"
depends_on = ["walk"]
inputs = ["walk/tasks.csv", "fit.py"]
outputs = ["fit/slope.csv"]
success_criteria = "the slope is between 0.9 and 1.1"

[stages.parameters]
command = "python3 ../fit.py"
metrics = { slope = "slope.csv#/slope" }
verify = "awk 'NR == 2 { exit $1 < 0.9 || $1 > 1.1 }' fit/slope.csv"
"""
WRONG_FIT = 'raise SystemExit("error: no column r3 in tasks.csv")\n'
FIT = """\
import csv

rows = list(csv.DictReader(open("../walk/tasks.csv")))
slope = sum(float(row["r2"]) for row in rows) / sum(float(row["N"]) for row in rows)
open("slope.csv", "w").write(f"slope\\n{slope:.3f}\\n")
"""
LOOP = """\
workflow_id = "minimum"
purpose = "find the minimum of (x - 0.3)^2"

[[stages]]
id = "simulate"
name = "Simulate"
outputs = ["simulate/tasks.csv"]

[stages.parameters]
command = "awk -v x=$WFCTL_PARAM_x 'BEGIN { print \\"y\\"; print (x - 0.3)^2 }' > y.csv"
task_outputs = ["y.csv"]
metrics = { y = "y.csv#/y" }
map = { points = [{ x = 0.2 }, { x = 0.8 }] }

[rounds.search]
stages = ["simulate"]
points = "simulate"
ask = "agent"
each = 2
at_most = 5
tasks = 10

[rounds.search.within]
x = { from = 0, to = 1 }
"""
MANDATE = """\
stages = ["walk", "fit"]
amendments = 5
tasks = 20

[values]
"walk.parameters.tolerate" = {from = 0, to = 0.5}
"""
PAPER = """\
id: paper
title: A paper, from its draft to its submission
initial: draft
files: {state: "{id}.state.json"}
phases:
  draft: {asks: Write the draft.}
  submitted: {final: true}
transitions:
  - {from: draft, to: submitted, guard: {present: draft.path}}
fields:
  draft: {path: text}
"""
STATE = """\
"""
#: The same plan with jobs that run long enough to be observed while they run.
SLOW_PLAN = PLAN.replace('command = "echo', 'command = "sleep 20; echo')
#: Name of a small workflow → the files of its folder, and the commands that build the workflow.
WORLDS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "plan": ({"plan.toml": PLAN, "fit.py": FIT}, ()),
    "new": ({"plan.toml": PLAN, "fit.py": FIT}, ("wfctl init plan.toml",)),
    "failed": (
        {"plan.toml": PLAN, "fit.py": WRONG_FIT},
        ("wfctl init plan.toml", "wfctl run"),
    ),
    "completed": (
        {"plan.toml": PLAN, "fit.py": WRONG_FIT},
        (
            "wfctl init plan.toml",
            "wfctl run",
            f"cat > fit.py <<'E'\n{FIT}E",
            'wfctl stage retry fit --fix "find the column r2 by its name"',
            "wfctl run",
        ),
    ),
    "slow": ({"plan.toml": SLOW_PLAN, "fit.py": FIT}, ("wfctl init plan.toml",)),
    "loop": ({"plan.toml": LOOP}, ("wfctl init plan.toml", "wfctl run")),
    "machine": ({}, ("wfctl machine init login --type feature",)),
}

_PROPOSAL = (
    "wfctl amend propose --stage walk --set parameters.tolerate=0.1 --reason 'one walk may fail'"
)
_EDIT = "sed -i 's/0.9 and 1.1/0.8 and 1.2/' workflow-state.json"
_PREPARED = ("wfctl stage prepare walk",)
_LAUNCHED = (*_PREPARED, "wfctl stage launch walk")
_MANDATE = f"cat > mandate.toml <<'E'\n{MANDATE}E"
_LAUNCHED_FIT = (
    "wfctl dispatch walk --sync",
    "wfctl stage complete walk",
    "wfctl dispatch fit --sync",
)
_KEY = "mkdir -p ~/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519"
_RUNNER = (
    "wfctl run --autonomous",
    "for i in $(seq 50); do wfctl runner show | grep attach && break; sleep 0.2; done",
)
_PENDING = (
    'import json; state = json.load(open("workflow-state.json")); state["stages"][1]["status"] = '
    '"invalidated"; json.dump(state, open("../new/workflow-state.json", "w"))'
)
_WATCHED = (
    "wfctl checkpoint --public-key > walks.public-key; wfctl witness watch walks.public-key",
    "wfctl checkpoint walks.checkpoint",
    "{ printf 'old 0\\n\\n'; cat walks.checkpoint; } > request.txt",
)
_DESIGN = "wfctl machine update login artifacts.design=docs/design.md"
_REVIEWED = (
    _DESIGN,
    "wfctl machine transition login plan",
    "wfctl machine update login artifacts.plan=docs/plan.md",
    "wfctl machine transition login plan-review",
    "wfctl machine update login planReview.approved=true",
)
_TASK = 'wfctl machine task login task-1 --title "Write the form" --status pending'
#: Command → the small workflow in which its example runs, and the commands that run first. The
#: example of any other command runs in the completed workflow.
BEFORE: dict[str, tuple[str, tuple[str, ...]]] = {
    "init": ("plan", ()),
    "plan check": ("plan", ()),
    "plan apply": ("completed", ("sed -i 's/100, 200/200, 400/' plan.toml",)),
    "import": ("completed", ("wfctl export archive ../walks.zip", "mkdir ../new; cd ../new")),
    "stage ready": (
        "completed",
        (
            f"mkdir ../new; python3 -c '{_PENDING}'",
            "cp progress.log ../new; cd ../new",
            "wfctl import . --consent trust",
        ),
    ),
    "stage prepare": ("new", ()),
    "stage launch": ("new", _PREPARED),
    "stage compute": ("new", ("wfctl stage prepare walk", "wfctl stage launch walk", "sleep 3")),
    "stage complete": ("new", _LAUNCHED_FIT),
    "stage fail": ("slow", _LAUNCHED),
    "stage cancel": ("slow", _LAUNCHED),
    "stage diagnose": ("failed", ()),
    "stage retry": ("failed", ()),
    "stage checkpoint": ("slow", _LAUNCHED),
    "stage outputs": ("slow", _LAUNCHED),
    "stage reuse": ("completed", ("wfctl rerun fit --reason 'another fit'",)),
    "dispatch": ("new", _PREPARED),
    "wait": ("new", (*_LAUNCHED, "sleep 3")),
    "run": ("new", ()),
    "runner show": ("slow", _RUNNER),
    "runner pause": ("slow", _RUNNER),
    "runner resume": ("slow", (*_RUNNER, "wfctl runner pause")),
    "runner stop": ("slow", _RUNNER),
    "consent setup": (
        "new",
        ("mkdir -p ~/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519",),
    ),
    "session start": ("new", ()),
    "session end": ("new", ("wfctl session start",)),
    "rehydrate": ("failed", ()),
    "why": ("failed", ()),
    "stage verify": ("completed", ()),
    "amend approve": ("new", (_PROPOSAL,)),
    "amend reject": ("new", (_PROPOSAL,)),
    "amend list": ("new", (_PROPOSAL,)),
    "amend show": ("new", (_PROPOSAL,)),
    "inbox": ("new", (_PROPOSAL,)),
    "audit amendments": ("new", (_PROPOSAL, "wfctl amend approve amend-1")),
    "amend propose": ("new", ()),
    "mandate grant": ("new", (_MANDATE,)),
    "mandate list": ("new", (_MANDATE, "wfctl mandate grant tolerance mandate.toml")),
    "mandate revoke": ("new", (_MANDATE, "wfctl mandate grant tolerance mandate.toml")),
    "round list": ("loop", ()),
    "round show": ("loop", ()),
    "round ask": ("loop", ()),
    "round propose": ("loop", ("printf 'x\\n0.25\\n0.35\\n' > next.csv",)),
    "round stop": ("loop", ()),
    "drift show": ("completed", (_EDIT,)),
    "drift adopt": ("completed", (_EDIT,)),
    "drift revert": ("completed", (_EDIT,)),
    "witness watch": ("completed", ("wfctl checkpoint --public-key > walks.public-key",)),
    "witness cosign": ("completed", _WATCHED),
    "witness show": ("completed", (*_WATCHED, "wfctl witness cosign request.txt")),
    "pin": ("completed", ("wfctl pin --replace",)),
    "machine init": ("plan", ()),
    "machine import": (
        "plan",
        (
            "mkdir ../old; cd ../old; wfctl machine init login --type feature",
            "cp login.state.json ../walks; cd ../walks",
        ),
    ),
    "machine check": ("plan", (f"cat > paper.yaml <<'E'\n{PAPER}E",)),
    "machine describe": ("plan", ()),
    "machine get": ("machine", (_TASK,)),
    "machine list": ("machine", ()),
    "machine update": ("machine", ()),
    "machine transition": ("machine", (_DESIGN,)),
    "machine append": ("machine", ()),
    "machine task": ("machine", ()),
    "machine task claim": ("machine", (_TASK,)),
    "machine task release": ("machine", (_TASK, "wfctl machine task claim login task-1")),
    "machine checkpoint": ("machine", ()),
    "machine cancel": ("machine", ()),
    "machine approve": ("machine", _REVIEWED),
    "machine limit": ("machine", ()),
    "machine rehydrate": ("machine", ()),
    "machine drift": ("machine", ()),
    "agent uninstall": ("completed", ("wfctl agent install claude --project",)),
    "demo": ("plan", ()),
    "db restore": ("completed", ("wfctl db backup ../walks.db", "mkdir ../new; cd ../new")),
}
#: Command that runs until it is interrupted → the output after which its example interrupts it.
UNENDING = {"demo": "walk-demo\r\n", "serve": "\n", "witness serve": "\n", "mcp": "\n"}
_FIRST_ENTRY = (
    "wfctl audit bypasses -o json | python3 -c"
    ' \'import json, sys; print(json.load(sys.stdin)["data"][0]["entry"])\''
)
#: Command → a placeholder word of its example, and a command that prints the actual value.
VALUES = {
    "audit agree": ("3f9c01a", _FIRST_ENTRY),
}
#: Maximum number of lines of an output, and of characters in a line.
MAXIMUM_LINES, MAXIMUM_WIDTH = 8, 78
_SEPARATOR = "\x1e"


@dataclass(frozen=True, slots=True)
class Answer:
    """The output of an example and its exit code."""

    text: str
    code: int


class Worlds:
    """The small workflows, each built once and restored for each example."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / "ada"
        self._root = self._home / "walks"
        self._copies = folder / "copies"
        self._home.mkdir()
        self._environ = {**environment(self._home), "NO_COLOR": "1", "TERM": "xterm"}
        self._environ["TMUX_TMPDIR"] = str(folder)
        self._environ |= {"LANG": "C.UTF-8", "COLUMNS": "80", "PAGER": "cat"}
        shutil.move(self._home / "bin", folder / "bin")
        self._environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"

    def close(self) -> None:
        """Stop the tmux server in which the jobs ran."""
        subprocess.run(
            "tmux kill-server && while tmux list-sessions; do sleep 0.05; done",
            shell=True,
            env=self._environ,
            capture_output=True,
            check=False,
        )

    def restore(self, world: str) -> None:
        """Restore the files of a world, and build the world first if necessary."""
        self.close()
        while self._home.exists():  # a job may still write files
            shutil.rmtree(self._home, ignore_errors=True)
        copy = self._copies / world
        if not copy.is_dir():
            self._root.mkdir(parents=True)
            files, commands = WORLDS[world]
            for name, text in files.items():
                (self._root / name).write_text(text, "utf-8")
            done = self.run("true", commands)
            assert done.code == 0, done
            shutil.copytree(self._home, copy, symlinks=True)
            return
        shutil.copytree(copy, self._home, symlinks=True)

    def run(self, line: str, before: Sequence[str] = (), until: str = "") -> Answer:
        """Run commands at a terminal, and return the output of the last command."""
        ends = ["wfctl runner stop"] if _RUNNER[0] in before else []
        parts = [*before, f"printf '{_SEPARATOR}'", line, "printf '\x1e%s\x1e' $?", *ends]
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self._root)
            os.execvpe("bash", ["bash", "-c", "\n".join(parts)], self._environ)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
        shown = _read(terminal, until)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)
        found = shown.replace("\r\n", "\n").split(_SEPARATOR)
        if until:  # more text may be on the screen already
            lines = found[1].splitlines()
            last = next(n for n, one in enumerate(lines) if until.strip() in one)
            found[1:] = ["\n".join(lines[: last + 1])]
        text, code = found[1], int(found[2]) if len(found) > 2 else 0
        return Answer(self.stable(text), code)

    def stable(self, text: str) -> str:
        """Replace parts of an output that differ between runs, such as times and digests."""
        text = text.replace(str(self._home), "~").replace(str(self._home.parent), "")
        for pattern, replacement in _STABLE:
            text = pattern.sub(replacement, text)
        return text


_UUID = "0199f0a2-3c4d-7e5f-8a6b-9c0d1e2f3a4b"
_DIGITS = "3f9c01a7d25e8b4640b1c7f2" * 3
#: Commands without an example output, because they take over the terminal.
SILENT = frozenset({"runner attach"})
#: Pattern of text that differs between runs → its replacement. A replacement keeps the spaces after
#: a number, so that the columns stay aligned.
_STABLE: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # Remove the progress bars, which a terminal shows only while the command waits.
    (re.compile(r"\x1b\[\?25l\x1b\[\?25h.*?\x1b\[\?25h\r(\x1b\[1A\x1b\[2K)+", re.DOTALL), ""),
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (
        re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d(\.\d+)?)?"),
        lambda found: f"2026-03-31{found[1]}12:00" + (":00" if found[2] else ""),
    ),
    (re.compile(r"\b\d\d:\d\d:\d\d(?=Z|\b)"), "12:00:00"),
    (re.compile(r"\b\d:\d\d:\d\d\b"), "2.1 s".ljust(7)),
    (
        re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        "0199f0a2-3c4d-7e5f-8a6b-9c0d1e2f3a4b",
    ),
    (re.compile(r"\b(jobs?|process|runner) \d+(, \d+)*"), r"\1 4711"),
    (re.compile(r"(?<=  done   1         0          )\d\.\d( +)\d\.\d"), r"0.0\g<1>0.0"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "8460"),
    (re.compile(r"(?<=token=)[\w-]+"), "…"),
    (re.compile(r"\b[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}\b"), "7k3m-q9xd-2vwb"),
    (
        re.compile(r"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/]{38,}={0,2}"),
        lambda found: ("QmFzZTY0IG9mIHNpeHR5IGJ5dGVz" * 9)[: len(found[0])],
    ),
    (re.compile(r": \w+ is local"), ": ext4 is local"),
    (re.compile(r"\b\d{4,} bytes"), "30570 bytes"),
    (re.compile(r"\b\d+(\.\d+)? MB *(?= |$)"), lambda found: "13.2 MB".ljust(len(found[0]))),
    (re.compile(r"[+-]\d+\.\d+ % *(?= )"), lambda found: "+3.25 %".ljust(len(found[0]))),
    (re.compile(r"\b\d+(\.\d+)? +s\b *(?= )"), lambda found: "2.1 s".ljust(len(found[0]))),
    (re.compile(r"\b\d+(\.\d+)? +s\b(?! )"), "2.1 s"),
    (re.compile(r"\b0\.\d{2,6} *(?= )"), lambda found: "0.031".ljust(len(found[0]))),
    # Replace the digest at the end of a session name separately, because it may consist of digits
    # only.
    (re.compile(r"(?<=_walks_)[0-9a-f]{8,64}"), lambda found: _DIGITS[: len(found[0])]),
    (
        re.compile(r"(?<![0-9a-z])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,64}(?![0-9a-z])"),
        lambda found: _DIGITS[: len(found[0])],
    ),
]


def _read(terminal: int, until: str) -> str:
    """Read the output of a terminal, and type y at each question."""
    shown, answered, deadline = "", 0, time.monotonic() + 100
    while time.monotonic() < deadline and not (until and until in shown.partition(_SEPARATOR)[2]):
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            content = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        shown += content.decode(errors="replace")
        if shown.endswith(QUESTION) and len(shown) > answered:
            os.write(terminal, b"y\n")
            answered = len(shown)
    return shown


def shorten(text: str) -> str:
    """Cut the middle of a long output, and the end of a long line."""
    text = re.sub(r"\n\s*\n+", "\n\n", text.strip("\n"))
    lines = [line.rstrip() for line in text.splitlines()]
    if len(lines) > MAXIMUM_LINES:
        lines = [*lines[: MAXIMUM_LINES - 3], "…", *lines[-2:]]
    return "\n".join(
        f"{line[: MAXIMUM_WIDTH - 1]}…" if len(line) > MAXIMUM_WIDTH else line for line in lines
    )


@contextmanager
def worlds() -> Iterator[Worlds]:
    """Yield worlds in a folder whose path always has the same length."""
    folder = Path(tempfile.mkdtemp(prefix="wfctl-", dir="/tmp"))
    place = Worlds(folder)
    try:
        yield place
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)


def run_example(place: Worlds, name: str, example: str) -> str:
    """Run the commands of an example and return it with their outputs."""
    world, before = BEFORE.get(name, ("completed", ()))
    place.restore(world)
    done = list(before)
    parts = []
    for line in () if name in SILENT else find_command_lines(example):
        word, value = VALUES.get(name, ("", ""))
        typed = line.replace(word, f"$({value})") if word else line
        answer = place.run(typed, done, UNENDING.get(name, ""))
        done.append(typed)
        assert answer.code in (0, 7), answer
        parts.append(f"$ {line}\n{shorten(answer.text)}".rstrip("\n"))
    return "\n".join(parts) or example


def main(names: Sequence[str]) -> None:
    """Write the outputs of the named examples, or of all."""
    with worlds() as place:
        for file in find_example_files():
            examples = read_example_file(file)
            for name in [one for one in examples if not names or one in names]:
                examples[name] = run_example(place, name, examples[name])
                print(f"== {name}\n{examples[name]}", flush=True)
                file.write_text(format_examples(examples), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
