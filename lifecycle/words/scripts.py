"""The values that approvals record for scripts without a digest, and the names of scripts."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import basename, splitext

_ENDINGS = frozenset(
    {".awk", ".bash", ".in", ".inp", ".ipynb", ".jl", ".js", ".lua", ".m", ".pl", ".plt", ".py"}
    | {".pyc", ".r", ".rb", ".sh", ".tcl", ".zsh"}
)
#: Files from which ``make`` and similar programs take their commands.
_NAMES = frozenset(
    {"gnumakefile", "makefile", "justfile", "rakefile", "snakefile", "build.ninja", "package.json"}
)
#: Names, in lower case, of files and folders that git, shells, editors or agents read.
#: They read these settings, hooks and instructions automatically.
READ_UNASKED = frozenset(
    {"agents.md", "claude.md", "claude.local.md", "gemini.md", "opencode.json", "conftest.py"}
    | {".claude", ".codex", ".cursor", ".cursorrules", ".gemini", ".mcp.json", ".opencode"}
    | {".envrc", ".gitattributes", ".gitignore", ".gitmodules", ".github", ".idea", ".vscode"}
    | {"pyproject.toml", "pytest.ini", "setup.cfg", "sitecustomize.py", "usercustomize.py"}
    | _NAMES
)
#: Endings of the files that Python imports.
IMPORTED = (".py", ".pyc", ".so")
#: The script that a session runs before any stage.
INIT = "init.sh"
#: The script is outside the root. A part of a command that names no file has a reason after it.
OUTSIDE = "not known by digest"
#: The script does not exist.
MISSING = "missing"


def is_digest(recorded: str) -> bool:
    """Return whether a recorded value is a digest."""
    return recorded != MISSING and not is_unknown(recorded)


def is_unknown(recorded: str) -> bool:
    """Return whether a recorded value states that the content of a script is unknown."""
    return recorded.partition(":")[0] == OUTSIDE


def explain_unknown(script: str, recorded: str) -> str:
    """Return why a script, or a part of a command, is not known by its digest, and what to do."""
    reason = recorded.partition(": ")[2]
    if not reason:
        return f"{script} is outside the root, and its digest is not known"
    return f"`{script}` runs files {OUTSIDE}: {reason}. Name each script by its path in the root"


def is_read_unasked(path: str) -> bool:
    """Return whether a program reads a file, or its folder, automatically."""
    return not READ_UNASKED.isdisjoint(path.lower().split("/"))


def is_importable(path: str) -> bool:
    """Return whether Python imports a file by its place: a module, a compiled copy, a library."""
    return path.endswith(IMPORTED)


def named_scripts(recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the scripts to show to a person: all except an ``init.sh`` that does not exist."""
    return {path: one for path, one in recorded.items() if (path, one) != (INIT, MISSING)}


def has_script_ending(path: str) -> bool:
    """Return whether a file has the suffix of a script, or the name of a makefile or similar."""
    return splitext(path)[1].lower() in _ENDINGS or basename(path).lower() in _NAMES
