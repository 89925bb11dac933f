"""What each client is given: files of ours, and pieces of its settings; all from plugin/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agents.install.record import SettingsPiece, block, members

#: Where the plugin lies, in a checkout and in an installed wheel.
SOURCE = Path(__file__).resolve().parents[2] / "plugin"
_SKILLS = ("wfctl-stages", "wfctl-machines", "wfctl-history")
_SCRIPTS = ("hook.sh", "guard.sh", "guard.awk")
_TOML = ("# >>> wfctl >>>", "# <<< wfctl <<<")
_MARKDOWN = ("<!-- wfctl: begin -->", "<!-- wfctl: end -->")
_SERVER = {"command": "wfctl", "args": ["mcp"]}


class SettingsEdit(NamedTuple):
    """A file of the user's own that is added to: JSON with comments, or lines between marks."""

    path: Path
    more: Mapping[str, Mapping[str, Any]] | None = None
    lines: str = ""

    def pieces(self, text: str) -> list[SettingsPiece]:
        """Return what is to be put into its text; raises `ValueError` where it cannot be read."""
        if self.more is not None:
            return members(text, self.more)
        return block(text, self.lines, *(_TOML if self.path.suffix == ".toml" else _MARKDOWN))


class Kit(NamedTuple):
    """What a client is given: path → content of files of ours, and edits."""

    files: dict[Path, bytes]
    edits: list[SettingsEdit]


class Places(NamedTuple):
    """Where a client is set up: in a project, or (``project`` is None) for this login."""

    home: Path
    project: Path | None
    environ: Mapping[str, str] = {}

    def of(self, project: str, login: str, variable: str = "") -> Path:
        """Return a folder of the project, else of the login: the variable's, or below the home."""
        if self.project is not None:
            return self.project / project
        named = self.environ.get(variable)
        return Path(named) if named else self.home / login


def kit_of(client: str, places: Places) -> Kit:
    """Return what a client is given."""
    return _KITS[client](places)


def _claude(places: Places) -> Kit:
    base = places.of(".claude", ".claude", "CLAUDE_CONFIG_DIR")
    names = [".claude-plugin/plugin.json", ".mcp.json", "hooks/hooks.json"]
    names += [f"hooks/{name}" for name in _SCRIPTS]
    files = {base / "skills/wfctl" / name: _source(name) for name in names}
    # No rules that deny: they come before the hook, and do not say the right command.
    return Kit({**files, **_skills(base / "skills/wfctl/skills")}, [])


def _codex(places: Places) -> Kit:
    base = places.of(".codex", ".codex", "CODEX_HOME")
    scripts = base / "wfctl/hooks"
    words = places.project / "AGENTS.md" if places.project else base / "AGENTS.md"
    files = {**_scripts(scripts), **_skills(places.of(".agents/skills", ".agents/skills"))}
    return Kit(files, [SettingsEdit(base / "config.toml", lines=_toml(scripts)), _agents_md(words)])


def _gemini(places: Places) -> Kit:
    base = places.of(".gemini", ".gemini")
    scripts = base / "wfctl/hooks"
    words = places.project / "GEMINI.md" if places.project else base / "GEMINI.md"
    turns = {
        "SessionStart": _hook(_ask(scripts, "session-start", "gemini"), 30_000),
        "BeforeTool": {
            "matcher": "write_file|replace|run_shell_command",
            **_hook(_guard(scripts), 5_000),
        },
        "PreCompress": _hook(_ask(scripts, "before-compact", "gemini"), 30_000),
        "AfterAgent": _hook(_ask(scripts, "before-stop", "gemini"), 30_000),
    }
    hooks = {turn: [one] for turn, one in turns.items()}
    settings = SettingsEdit(
        base / "settings.json", {"mcpServers": {"wfctl": _SERVER}, "hooks": hooks}
    )
    return Kit({**_scripts(scripts), **_skills(base / "skills")}, [settings, _agents_md(words)])


def _opencode(places: Places) -> Kit:
    base = places.of(".opencode", ".config/opencode")
    config = places.project or base
    commented = config / "opencode.jsonc"
    server = {"type": "local", "command": ["wfctl", "mcp"], "enabled": True}
    settings = commented if commented.exists() else config / "opencode.json"
    files = {
        **_scripts(base / "wfctl/hooks"),
        **_skills(base / "skills"),
        base / "plugins/wfctl.js": _source("opencode/wfctl.js"),
    }
    edits = [SettingsEdit(settings, {"mcp": {"wfctl": server}}), _agents_md(config / "AGENTS.md")]
    return Kit(files, edits)


def _other(places: Places) -> Kit:
    return Kit({}, [_agents_md((places.project or places.home) / "AGENTS.md")])


_KITS = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "other": _other,
}


def _source(name: str) -> bytes:
    return (SOURCE / name).read_bytes()


def _skills(folder: Path) -> dict[Path, bytes]:
    return {folder / name / "SKILL.md": _source(f"skills/{name}/SKILL.md") for name in _SKILLS}


def _scripts(folder: Path) -> dict[Path, bytes]:
    return {folder / name: _source(f"hooks/{name}") for name in _SCRIPTS}


def _agents_md(path: Path) -> SettingsEdit:
    return SettingsEdit(path, lines=_source("AGENTS.md").decode())


def _ask(scripts: Path, turn: str, client: str) -> str:
    return f'sh "{scripts}/hook.sh" {turn} {client}'


def _guard(scripts: Path) -> str:
    return f'sh "{scripts}/guard.sh"'


def _hook(command: str, timeout: int) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


def _toml(scripts: Path) -> str:
    """Return the tables that Codex is given; the seconds are of its hooks."""
    turns = (
        ("SessionStart", None, _ask(scripts, "session-start", "codex"), 30),
        ("PreToolUse", "Bash|apply_patch|Edit|Write", _guard(scripts), 5),
        ("PreCompact", None, _ask(scripts, "before-compact", "codex"), 30),
        ("Stop", None, _ask(scripts, "before-stop", "codex"), 30),
    )
    lines = ["[mcp_servers.wfctl]", 'command = "wfctl"', 'args = ["mcp"]']
    for turn, matcher, command, seconds in turns:
        lines += ["", f"[[hooks.{turn}]]"]
        lines += [f"matcher = {json.dumps(matcher)}"] if matcher else []
        lines += ["", f"[[hooks.{turn}.hooks]]", 'type = "command"']
        lines += [f"command = {json.dumps(command)}", f"timeout = {seconds}"]
    return "\n".join(lines)
