"""Recognise commands that an AI agent runs, by the environment variables its program sets."""

from __future__ import annotations

import os
import re

#: Environment variable → name of the agent, and the web page that documents the variable. If the
#: name is empty, the value of the variable is the agent's name.
AGENT_MARKS: dict[str, tuple[str, str]] = {
    "CLAUDECODE": ("claude-code", "https://code.claude.com/docs/en/env-vars"),
    "GEMINI_CLI": (
        "gemini-cli",
        "https://google-gemini.github.io/gemini-cli/docs/tools/shell.html",
    ),
    "CODEX_SANDBOX": ("codex", "https://developers.openai.com/codex/environment-variables"),
    "CODEX_THREAD_ID": ("codex", "https://developers.openai.com/codex/environment-variables"),
    "CODEX_CI": ("codex", "https://github.com/openai/codex (unified exec)"),
    "CURSOR_AGENT": ("cursor", "https://github.com/vercel/vercel packages/detect-agent"),
    "OPENCODE": ("opencode", "https://github.com/ascorbic/am-i-vibing"),
    "CRUSH": ("crush", "https://github.com/ascorbic/am-i-vibing"),
    "AI_AGENT": ("", "https://github.com/vercel/vercel packages/detect-agent"),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_OFF = ("", "0", "false")


def calling_agent() -> str | None:
    """Return the name of the AI agent that runs this command, or None for no agent.

    An agent's program sets an environment variable for the commands that it runs. wfctl cannot rely
    on a terminal check here, because the program may give the command a pseudo-terminal.
    """
    for variable, (name, _) in AGENT_MARKS.items():
        value = os.environ.get(variable, "")
        if value.lower() not in _OFF:
            return name or (value if _NAME.fullmatch(value) else "unknown")
    return None
