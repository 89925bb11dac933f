"""The plugin in the real program Claude Code, whose language model is replaced by a stub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place
from tests.face.model import Block, Model, calls, model, says
from tests.need import NO_CLIENT, need
from tests.npm import installed

pytestmark = [pytest.mark.long, pytest.mark.slow]

PACKAGE = "@anthropic-ai/claude-code"
#: A text so long that the client compacts the conversation.
LONG = "The walk has 400 steps and its end lies 31 sites from its start. " * 1000


@pytest.fixture(scope="session")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install Claude Code with npm, and return its path."""
    modules = installed(tmp_path_factory, "claude", PACKAGE)
    found = [p for p in modules.glob(f"{PACKAGE}-*/claude") if os.access(p, os.X_OK)]
    need(bool(found), f"{NO_CLIENT}: {PACKAGE}")
    return found[0]


class Talk:
    """A conversation with Claude Code in a folder."""

    def __init__(self, program: Path, folder: Path, environ: dict[str, str]) -> None:
        self._program = program
        self._folder = folder
        self._environ = environ
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        self.debug = ""

    def say(self, prompt: str, *blocks: Block) -> Model:
        """Send a prompt to Claude Code. Its model gives the prepared answers."""
        log = self._folder.parent / "debug"
        log.unlink(missing_ok=True)
        line = [str(self._program), "-p", prompt, "--permission-mode", "bypassPermissions"]
        line += ["--output-format", "stream-json", "--verbose", "--debug-file", str(log)]
        line += ["--resume", self.session] if self.session else []
        with model(*blocks) as heard:
            done = subprocess.run(
                line,
                cwd=self._folder,
                env={**self._environ, "ANTHROPIC_BASE_URL": heard.url},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
        self.events = [json.loads(one) for one in done.stdout.splitlines()]
        self.session = self.events[-1]["session_id"]
        self.debug = log.read_text()
        return heard

    @property
    def hooks(self) -> list[str]:
        """The names of the hooks that the last prompt called."""
        return [e["hook_name"] for e in self.events if e.get("subtype") == "hook_response"]

    @property
    def results(self) -> str:
        """The answers of all tools that the last prompt called, as one string."""
        return json.dumps([e["message"]["content"] for e in self.events if e["type"] == "user"])


@pytest.fixture
def talk(claude: Path, root: Place, home: Path, tmp_path: Path) -> Talk:
    """Return Claude Code with the plugin, in a root with a stage that is in preparation."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "wfctl").write_text(
        f'#!/bin/sh\nPYTHONPATH={HERE} exec {sys.executable} -m cli.main "$@"\n'
    )
    (programs / "wfctl").chmod(0o755)
    root.call("stage", "prepare", "stage-1")
    # Install the plugin for the user. In a project folder, the client would first ask a person
    # whether to trust the folder and its server.
    assert root.call("agent", "install", "claude").code == 0
    environ = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    return Talk(claude, root.path, environ)


def test_client_validates_the_plugin(claude: Path, talk: Talk, home: Path) -> None:
    """`claude plugin validate` finds no problem."""
    plugin = home / ".claude/skills/wfctl"
    done = subprocess.run(
        [claude, "plugin", "validate", plugin],
        env=talk._environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_client_calls_a_tool_and_is_asked_once_before_it_stops(talk: Talk) -> None:
    """The client's first request has wfctl's brief, and wfctl asks once for a note."""
    heard = talk.say(
        "go on",
        calls("Bash", command="sleep 10", description="the server may be slow to start"),
        calls("mcp__plugin_wfctl_wfctl__brief"),
        says("done"),
        says("done"),
    )
    assert "From wfctl, which keeps the state" in heard.text_of(0)
    assert "See it melt." in talk.results
    assert talk.results.count("the next agent would not know") == 1
    assert len(heard.heard) == 4


def test_brief_is_sent_after_every_loss_of_context(talk: Talk, root: Place) -> None:
    """wfctl sends its brief after a start, a resume, a compaction and a clear."""
    talk.say("go on", says(LONG), says(LONG))
    assert talk.hooks == ["SessionStart:startup"]
    for _ in range(2):
        heard = talk.say("and now?", says(LONG))
        assert talk.hooks == ["SessionStart:resume"]
        assert "From wfctl" in heard.text_of(0)
    talk.say("/compact")
    assert any("context is compacted (manual)" in note for note in root.notes())
    assert "SessionStart:compact" in talk.debug
    talk.say("/clear")
    assert talk.hooks[-1] == "SessionStart:clear"
