"""Install and remove the wfctl plugin for the client program of an AI agent.

The files come from the folder ``plugin/``. A record lists the installed files, so that wfctl never
changes or deletes a file of somebody else. Entries for the client's settings are shown to the user,
not written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from extensions.agents.client_settings import ServerCommands, SettingsPiece, read_settings
from service.errors import AlreadyThere
from service.root.atomic_files import content_of, write_whole
from service.root.trust import roots_folder

#: Folder of the plugin files. The path is valid in a checkout and in an installed wheel.
SOURCE = Path(__file__).resolve().parents[2] / "plugin"
_SKILLS = ("wfctl-stages", "wfctl-machines", "wfctl-history")
_SERVER = {"command": "wfctl", "args": ["mcp"]}


@dataclass(slots=True)
class InstallRecord:
    """The installed files with their SHA-256, and the folders that were created.

    ``has_server`` is true if a command of the client added the MCP server to its settings.
    """

    files: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    has_server: bool = False


def record_path(client: str, project: Path | None) -> Path:
    """Return the path of the installation record of a client.

    There is one record for each project. If ``project`` is None, it is the record of the user
    account.
    """
    where = sha256(os.fsencode(project or "")).hexdigest()[:32]
    return roots_folder().with_name("installed") / f"{client}-{where}.json"


def load_record(path: Path) -> InstallRecord | None:
    """Return the installation record at ``path``, or None if the file does not exist."""
    content = content_of(path)
    if content is None:
        return None
    found = json.loads(content)
    return InstallRecord(found["files"], found["folders"], found.get("has_server", False))


def save_record(path: Path, record: InstallRecord) -> None:
    """Write the installation record to ``path``, creating its folder if needed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(record)).encode())


class Kit(NamedTuple):
    """The plugin files of a client, and texts for the user to paste into settings.

    ``server`` is the settings text for the MCP server. If ``commands`` is not None, these commands
    of the client can add the server instead. If ``server`` is None, a plugin file configures the
    server.
    """

    files: dict[Path, bytes]
    pieces: tuple[SettingsPiece, ...] = ()
    server: SettingsPiece | None = None
    commands: ServerCommands | None = None

    def all_pieces(self) -> tuple[SettingsPiece, ...]:
        """Return all settings texts, that for the MCP server first."""
        return (*([self.server] if self.server else []), *self.pieces)


class ClientFolders(NamedTuple):
    """The folders in which a client looks for its files.

    If ``project`` is None, they belong to the user account instead of a project.
    """

    home: Path
    project: Path | None
    environ: Mapping[str, str] = {}

    def find_folder(self, project: str, account: str, variable: str = "") -> Path:
        """Return a folder of the client, in the project or in the user account.

        The folder in the user account is below the home folder. The environment variable named
        ``variable`` may give another folder.
        """
        if self.project is not None:
            return self.project / project
        named = self.environ.get(variable)
        return Path(named) if named else self.home / account


def kit_of(client: str, places: ClientFolders) -> Kit:
    """Return the plugin files, commands and settings texts for a client."""
    return _KITS[client](places)


def _build_claude_kit(places: ClientFolders) -> Kit:
    base = places.find_folder(".claude", ".claude", "CLAUDE_CONFIG_DIR") / "skills/wfctl"
    names = (".claude-plugin/plugin.json", ".mcp.json", "hooks/hooks.json", "hooks/hook.sh")
    return Kit(
        {
            **{base / name: _read_source(name) for name in names},
            **_list_skill_files(base / "skills"),
        }
    )


def _build_codex_kit(places: ClientFolders) -> Kit:
    base = places.find_folder(".codex", ".codex", "CODEX_HOME")
    skills = places.find_folder(".agents/skills", ".agents/skills")
    config, script = base / "config.toml", base / "wfctl/hooks/hook.sh"
    # `codex mcp` can change only the settings of the user account. In a project, the user has to
    # paste the text.
    commands = _server_commands("codex", (), ("--", "wfctl", "mcp"), places.home)
    hooks = [
        f'[[hooks.{name}]]\n\n[[hooks.{name}.hooks]]\ntype = "command"\n'
        f"command = {json.dumps(command)}\ntimeout = 30\n"
        for name, command in _hook_commands(script, "codex", ("SessionStart", "PreCompact", "Stop"))
    ]
    return Kit(
        {script: _read_source("hooks/hook.sh"), **_list_skill_files(skills)},
        (SettingsPiece(config, "\n".join(hooks)), _agents_md((places.project or base), "AGENTS")),
        SettingsPiece(config, '[mcp_servers.wfctl]\ncommand = "wfctl"\nargs = ["mcp"]\n'),
        commands if places.project is None else None,
    )


def _build_gemini_kit(places: ClientFolders) -> Kit:
    base = places.find_folder(".gemini", ".gemini")
    settings, script = base / "settings.json", base / "wfctl/hooks/hook.sh"
    hooks = {
        name: [{"hooks": [{"type": "command", "command": command, "timeout": 30_000}]}]
        for name, command in _hook_commands(
            script, "gemini", ("SessionStart", "PreCompress", "AfterAgent")
        )
    }
    scope = ("--scope", "user" if places.project is None else "project")
    return Kit(
        {script: _read_source("hooks/hook.sh"), **_list_skill_files(base / "skills")},
        (_json_piece(settings, {"hooks": hooks}), _agents_md((places.project or base), "GEMINI")),
        _json_piece(settings, {"mcpServers": {"wfctl": _SERVER}}),
        _server_commands("gemini", scope, ("wfctl", "mcp"), places.project or places.home),
    )


def _build_opencode_kit(places: ClientFolders) -> Kit:
    base = places.find_folder(".opencode", ".config/opencode")
    config = places.project or base
    commented = config / "opencode.jsonc"
    settings = commented if commented.exists() else config / "opencode.json"
    server = {"type": "local", "command": ["wfctl", "mcp"], "enabled": True}
    files = {
        base / "wfctl/hooks/hook.sh": _read_source("hooks/hook.sh"),
        base / "plugins/wfctl.js": _read_source("opencode/wfctl.js"),
        **_list_skill_files(base / "skills"),
    }
    piece = _json_piece(settings, {"mcp": {"wfctl": server}})
    return Kit(files, (_agents_md(config, "AGENTS"),), piece)


_KITS: dict[str, Callable[[ClientFolders], Kit]] = {
    "claude": _build_claude_kit,
    "codex": _build_codex_kit,
    "gemini": _build_gemini_kit,
    "opencode": _build_opencode_kit,
    "other": lambda places: Kit({}, (_agents_md(places.project or places.home, "AGENTS"),)),
}


def _read_source(name: str) -> bytes:
    return (SOURCE / name).read_bytes()


def _list_skill_files(folder: Path) -> dict[Path, bytes]:
    return {folder / name / "SKILL.md": _read_source(f"skills/{name}/SKILL.md") for name in _SKILLS}


def _agents_md(folder: Path, name: str) -> SettingsPiece:
    return SettingsPiece(folder / f"{name}.md", _read_source("AGENTS.md").decode())


def _json_piece(path: Path, value: Mapping[str, object]) -> SettingsPiece:
    return SettingsPiece(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _hook_commands(script: Path, client: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the client's name for each hook, and the command line that the hook runs."""
    turns = ("session-start", "before-compact", "before-stop")
    for name, turn in zip(names, turns, strict=True):
        yield name, f'sh "{script}" {turn} {client}'


def _server_commands(
    program: str, scope: tuple[str, ...], server: tuple[str, ...], folder: Path
) -> ServerCommands:
    add = (program, "mcp", "add", *scope, "wfctl", *server)
    return ServerCommands(add, (program, "mcp", "remove", *scope, "wfctl"), folder)


@dataclass(slots=True)
class InstallPlan:
    """The planned file changes of an installation or removal.

    ``writes`` maps paths to their content, or to None for files to remove. ``record`` is the
    installation record afterwards. ``left`` maps the files that stay to the reason.
    """

    writes: dict[Path, bytes | None] = field(default_factory=dict)
    record: InstallRecord = field(default_factory=InstallRecord)
    left: dict[str, str] = field(default_factory=dict)


def plan_install(kit: Kit, before: InstallRecord) -> InstallPlan:
    """Plan to install the files of a kit, and to remove files of an earlier version.

    ``before`` is the current installation record. Raises `AlreadyThere` if a path is taken by a
    different file that wfctl did not install.
    """
    stale = {name: sha for name, sha in before.files.items() if Path(name) not in kit.files}
    plan = plan_removal(kit, InstallRecord(stale))
    for path, content in kit.files.items():
        name, found = str(path), content_of(path)
        known = before.files.get(name)
        if found is not None and known is None:
            if found != content:
                raise AlreadyThere(path)
        elif found is not None and _compute_digest(found) not in (known, _compute_digest(content)):
            plan.left[name] = "edited since"
            plan.record.files[name] = str(known)
        else:
            plan.writes[path] = content
            plan.record.files[name] = _compute_digest(content)
    plan.record.has_server = before.has_server
    parents = {parent for path in kit.files for parent in path.parents}
    created = {str(parent) for parent in parents if not parent.exists()}
    plan.record.folders = sorted({*before.folders, *created})
    return plan


def plan_removal(kit: Kit, record: InstallRecord) -> InstallPlan:
    """Plan to remove the files of an installation record.

    Files that the user edited stay. Files that the client's settings still name stay too, because a
    hook whose script is missing could stop the client at each step.
    """
    plan = InstallPlan()
    texts = {piece.path: read_settings(piece.path) for piece in kit.all_pieces()}
    for name, digest in record.files.items():
        found = content_of(Path(name))
        user = next((path for path, text in texts.items() if name in text), None)
        if found is None:
            continue
        if _compute_digest(found) != digest:
            plan.left[name] = "edited since"
        elif user is not None:
            plan.left[name] = f"{user} uses it: remove the entry there, and run the command again"
            plan.record.files[name] = digest
        else:
            plan.writes[Path(name)] = None
    plan.record.folders = record.folders if plan.record.files else []
    return plan


def _compute_digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def apply_install_plan(plan: InstallPlan) -> None:
    """Write and remove files as planned.

    Files that already have the planned content are not written again.
    """
    for path, content in plan.writes.items():
        if content is None:
            path.unlink(missing_ok=True)
        elif content_of(path) != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)


def remove_empty_folders(folders: Iterable[str]) -> None:
    """Remove the folders that wfctl created if they are empty, the innermost first."""
    for name in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            Path(name).rmdir()
