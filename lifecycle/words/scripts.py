"""File names of scripts, and the values that approvals record for scripts without a digest."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import basename, splitext

_ENDINGS = frozenset(
    {".awk", ".bash", ".in", ".inp", ".ipynb", ".jl", ".js", ".lua", ".m", ".pl", ".plt", ".py"}
    | {".pyc", ".r", ".rb", ".sh", ".tcl", ".zsh"}
)
#: Names of files from which ``make`` and similar programs read commands.
_NAMES = frozenset(
    {"gnumakefile", "makefile", "justfile", "rakefile", "snakefile", "build.ninja", "package.json"}
)
#: Names, in lower case, of files and folders with settings, hooks or instructions that git, shells,
#: editors or agents read automatically.
READ_UNASKED = frozenset(
    {"agents.md", "claude.md", "claude.local.md", "gemini.md", "opencode.json", "conftest.py"}
    | {".claude", ".codex", ".cursor", ".cursorrules", ".gemini", ".mcp.json", ".opencode"}
    | {".envrc", ".gitattributes", ".gitignore", ".gitmodules", ".github", ".idea", ".vscode"}
    | {"pyproject.toml", "pytest.ini", "setup.cfg", "sitecustomize.py", "usercustomize.py"}
    | _NAMES
)
#: Suffixes of files that Python imports.
IMPORTED = (".py", ".pyc", ".so")
#: The script that wfctl runs at the start of a session, before any stage.
INIT = "init.sh"
#: Recorded instead of a digest if the script is outside the root. For a part of a command that does
#: not name its file, a reason is appended.
OUTSIDE = "not known by digest"
#: Recorded instead of a digest if the script does not exist.
MISSING = "missing"


def is_digest(recorded: str) -> bool:
    """Return whether the value that is recorded for a script is a digest."""
    return recorded != MISSING and not is_content_unknown(recorded)


def is_content_unknown(recorded: str) -> bool:
    """Return whether the value recorded for a script states that its contents are unknown."""
    return recorded.partition(":")[0] == OUTSIDE


def explain_unknown_digest(script: str, recorded: str) -> str:
    """Return a sentence that states why no digest of a script is known.

    ``script`` may also be a part of a command. The sentence then states the remedy.
    """
    reason = recorded.partition(": ")[2]
    if not reason:
        return f"{script} is outside the root, and its digest is not known"
    return f"`{script}` runs files {OUTSIDE}: {reason}. Name each script by its path in the root"


def is_read_automatically(path: str) -> bool:
    """Return whether programs such as git or editors read a file automatically.

    Files inside a folder that is read automatically are included.
    """
    return not READ_UNASKED.isdisjoint(path.lower().split("/"))


def is_importable(path: str) -> bool:
    """Return whether Python can import the file: a module, a compiled module or a library."""
    return path.endswith(IMPORTED)


def omit_missing_init_script(recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the scripts to show to a person, without an ``init.sh`` that does not exist."""
    return {path: one for path, one in recorded.items() if (path, one) != (INIT, MISSING)}


def has_script_ending(path: str) -> bool:
    """Return whether the name of a file is that of a script or of a makefile."""
    return splitext(path)[1].lower() in _ENDINGS or basename(path).lower() in _NAMES
