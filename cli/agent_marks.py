"""The marks that programs leave in the environment of the commands that they run for an agent."""

from __future__ import annotations

import os
import re

#: Variable → name of the agent, and where its maker or a detector of such programs documents it.
#: Without a name the variable's value is the name.
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
    """Return the name of the agent whose program runs this command; None if no mark is set.

    Such a program may give the command a pseudo-terminal, at which no person sits.
    """
    for variable, (name, _) in AGENT_MARKS.items():
        value = os.environ.get(variable, "")
        if value.lower() not in _OFF:
            return name or (value if _NAME.fullmatch(value) else "unknown")
    return None
