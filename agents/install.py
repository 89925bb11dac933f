"""Tools, skills and hooks put into an agent's client, and taken out without a trace.

Each client is given files of ours and pieces of its settings, all from plugin/. What is done is
planned as a whole before the first byte is written.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from service.errors import AlreadyThere, InvalidOption
from service.root.disk import content_of, write_whole
from service.root.trust import folder

_COMMA = re.compile(r"\s*,")
_TEXT = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])")
#: All before the first member of an object.
_BEGIN = re.compile(r"\ufeff?(?:\s|//[^\n]*|/\*.*?\*/)*\{", re.DOTALL)


class SettingsPiece(NamedTuple):
    """A text, and where it was put: its first character's place in the text of then."""

    at: int
    text: str


def put(text: str, piece: SettingsPiece) -> str:
    """Return the text with the piece in its place."""
    return text[: piece.at] + piece.text + text[piece.at :]


def block(text: str, body: str, begin: str, end: str) -> list[SettingsPiece]:
    """Return the piece that puts marked lines at the end of a text; none where they are there."""
    if begin in text:
        return []
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return [SettingsPiece(len(text), f"{gap}{begin}\n{body.strip()}\n{end}\n")]


def read_json(text: str) -> Any:
    """Return a document of JSON that may have comments; raises `ValueError`."""
    plain = _COMMENT.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
    try:
        return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", plain))
    except RecursionError:
        raise ValueError("expected fewer levels") from None


def members(text: str, more: Mapping[str, Any]) -> list[SettingsPiece]:
    """Return the piece that puts in what an object lacks of ``more``; raises `ValueError`."""
    if not text.strip():
        return [SettingsPiece(len(text), json.dumps(more, indent=2, ensure_ascii=False) + "\n")]
    there = read_json(text)
    begin = _BEGIN.match(text)
    if not isinstance(there, dict) or begin is None:
        raise ValueError("expected an object")
    new = {key: value for key, value in more.items() if key not in there}
    if not new:
        return []
    lines = json.dumps(new, indent=2, ensure_ascii=False).removeprefix("{").removesuffix("\n}")
    return [SettingsPiece(begin.end(), lines + ("," if there else "\n"))]


def lacking(text: str, more: Mapping[str, Any]) -> list[str]:
    """Return the keys of ``more`` whose values in an object do not hold all of ours."""
    there = read_json(text)
    return [key for key, value in more.items() if not _holds(there.get(key), value)]


def _holds(there: Any, ours: Any) -> bool:
    if isinstance(ours, Mapping) and isinstance(there, dict):
        return all(_holds(there.get(key), value) for key, value in ours.items())
    if isinstance(ours, list) and isinstance(there, list):
        return all(one in there for one in ours)
    return bool(there == ours)


def cut(
    text: str, pieces: Sequence[SettingsPiece], is_whole: Callable[[str], bool]
) -> tuple[str, list[SettingsPiece]]:
    """Return the text without the pieces, and those that are not in it as they were put.

    They are cut in the reverse order. ``is_whole`` says whether a text can be read as what its file
    is: what somebody wrote behind a piece may have needed its comma.
    """
    left: list[SettingsPiece] = []
    for piece in reversed(pieces):
        # Somebody who writes behind it may take its last newline away.
        part = piece.text if piece.text in text else piece.text.rstrip()
        at = piece.at if text.startswith(part, piece.at) else text.find(part)
        is_clear = at == piece.at or (at >= 0 and text.find(part, at + 1) < 0)
        before, behind = text[:at], text[at + len(part) :]
        comma = _COMMA.match(behind)
        ways = [before + behind, *([before + behind[comma.end() :]] if comma else [])]
        found = next((way for way in ways if is_whole(way)), None) if is_clear else None
        if found is None:
            left.append(piece)
        else:
            text = found
    return text, left[::-1]


@dataclass(slots=True)
class Changed:
    """A file of the user's: what was put into it; ``made``: it was not there before."""

    path: str
    pieces: list[SettingsPiece]
    made: bool


@dataclass(slots=True)
class InstallRecord:
    """Files of ours by path with their SHA-256, files of the user's, and folders that were made."""

    files: dict[str, str] = field(default_factory=dict)
    changed: list[Changed] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def place_of(client: str, project: Path | None) -> Path:
    """Return where the record of a client in a project, or of this login, is kept."""
    where = sha256(os.fsencode(project or "")).hexdigest()[:32]
    return folder().with_name("installed") / f"{client}-{where}.json"


def load(path: Path) -> InstallRecord | None:
    """Return a record; None if there is no file."""
    content = content_of(path)
    if content is None:
        return None
    found = json.loads(content)
    changed = [
        Changed(one["path"], [SettingsPiece(*piece) for piece in one["pieces"]], one["made"])
        for one in found["changed"]
    ]
    return InstallRecord(found["files"], changed, found["folders"])


def save(path: Path, record: InstallRecord) -> None:
    """Keep a record."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(record)).encode())


#: Where the plugin lies, in a checkout and in an installed wheel.
SOURCE = Path(__file__).resolve().parents[1] / "plugin"
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
    names = ("SessionStart", "BeforeTool", "PreCompress", "AfterAgent")
    hooks = {
        turn: [
            {**matching, "hooks": [{"type": "command", "command": line, "timeout": seconds * 1000}]}
        ]
        for turn, matching, line, seconds in _turns(
            scripts, "gemini", names, "write_file|replace|run_shell_command"
        )
    }
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


_KITS: dict[str, Callable[[Places], Kit]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "other": lambda places: Kit({}, [_agents_md((places.project or places.home) / "AGENTS.md")]),
}


def _source(name: str) -> bytes:
    return (SOURCE / name).read_bytes()


def _skills(folder: Path) -> dict[Path, bytes]:
    return {folder / name / "SKILL.md": _source(f"skills/{name}/SKILL.md") for name in _SKILLS}


def _scripts(folder: Path) -> dict[Path, bytes]:
    return {folder / name: _source(f"hooks/{name}") for name in _SCRIPTS}


def _agents_md(path: Path) -> SettingsEdit:
    return SettingsEdit(path, lines=_source("AGENTS.md").decode())


def _turns(
    scripts: Path, client: str, names: Sequence[str], matcher: str
) -> Iterator[tuple[str, dict[str, str], str, int]]:
    """Yield each turn of a client: its name, the tools that it is for, the command, its seconds."""
    asked = ("session-start", None, "before-compact", "before-stop")
    for turn, ask in zip(names, asked, strict=True):
        if ask is None:
            yield turn, {"matcher": matcher}, f'sh "{scripts}/guard.sh"', 5
        else:
            yield turn, {}, f'sh "{scripts}/hook.sh" {ask} {client}', 30


def _toml(scripts: Path) -> str:
    """Return the tables that Codex is given."""
    names = ("SessionStart", "PreToolUse", "PreCompact", "Stop")
    lines = ["[mcp_servers.wfctl]", 'command = "wfctl"', 'args = ["mcp"]']
    for turn, matching, command, seconds in _turns(
        scripts, "codex", names, "Bash|apply_patch|Edit|Write"
    ):
        lines += ["", f"[[hooks.{turn}]]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in matching.items()]
        lines += ["", f"[[hooks.{turn}.hooks]]", 'type = "command"']
        lines += [f"command = {json.dumps(command)}", f"timeout = {seconds}"]
    return "\n".join(lines)


@dataclass(slots=True)
class InstallPlan:
    """What is to be written (None: removed), its record, and ``left``: path → why it stays."""

    writes: dict[Path, bytes | None] = field(default_factory=dict)
    record: InstallRecord = field(default_factory=InstallRecord)
    left: dict[str, str] = field(default_factory=dict)

    def now(self, path: Path) -> bytes | None:
        """Return what stands at a path once the plan is carried out."""
        return self.writes[path] if path in self.writes else content_of(path)


def installed(kit: Kit, before: InstallRecord | None) -> InstallPlan:
    """Return how a kit is put in, in place of what an earlier version put in.

    Raises `AlreadyThere` for a file of somebody else in the place of one of ours, and
    `InvalidOption` where settings cannot be read as what they are.
    """
    before = before or InstallRecord()
    kept = [changed for changed in before.changed if _holds_all(changed, kit)]
    plan = removed(replace(before, changed=[one for one in before.changed if one not in kept]))
    plan.record = InstallRecord(changed=kept, folders=list(before.folders))
    for path, content in kit.files.items():
        found = plan.now(path)
        if str(path) in plan.left:
            continue
        if found is not None and found != content:
            raise AlreadyThere(path)
        plan.writes[path] = content
        plan.record.files[str(path)] = sha256(content).hexdigest()
    for edit in kit.edits:
        _add(plan, edit)
    # Folders that are not there yet, the outermost first.
    wanted = {
        parent
        for path, content in plan.writes.items()
        if content is not None
        for parent in path.parents
    }
    known = set(plan.record.folders)
    new = (str(one) for one in wanted if not one.exists() and str(one) not in known)
    plan.record.folders += sorted(new)
    return plan


def _holds_all(changed: Changed, kit: Kit) -> bool:
    """Say whether settings hold all that the kit gives: they may, with pieces within members."""
    path = Path(changed.path)
    more = next((edit.more for edit in kit.edits if edit.path.resolve() == path), None)
    found = content_of(path)
    if more is None or found is None:
        return False
    with suppress(ValueError, InvalidOption):  # it is told as it is added to
        return not lacking(_text(path, found), more)
    return False


def _add(plan: InstallPlan, edit: SettingsEdit) -> None:
    path = edit.path.resolve()
    found = plan.now(path)
    # A new file of JSON begins as an empty object, so that each of its parts is a piece.
    empty = b"{}\n" if edit.more is not None else b""
    text = _text(path, empty if found is None else found)
    try:
        pieces = edit.pieces(text)
    except ValueError as error:
        raise _unreadable(path, str(error)) from None
    after = text
    for piece in pieces:
        after = put(after, piece)
    if edit.more is not None and (keys := lacking(after, edit.more)):
        asked = {key: json.dumps(edit.more[key], ensure_ascii=False)[1:-1] for key in keys}
        plan.left[str(path)] = "; ".join(
            f"it has `{key}` already; put into it yourself: {entries}"
            for key, entries in asked.items()
        )
    if not _reads(path, after):
        raise _unreadable(path, "what is to be added does not fit it")
    if pieces:
        plan.writes[path] = after.encode()
        plan.record.changed.append(Changed(str(path), pieces, made=found is None))


def _unreadable(path: Path, why: str) -> InvalidOption:
    return InvalidOption(
        f"expected settings of the client in {path} that can be added to; found: {why}. "
        "Nothing was written.",
        path=str(path),
    )


def removed(record: InstallRecord) -> InstallPlan:
    """Return how all of a record is taken out; what somebody edited since stays."""
    plan = InstallPlan()
    for name, digest in record.files.items():
        found = content_of(Path(name))
        if found is not None and sha256(found).hexdigest() != digest:
            plan.left[name] = "edited since"
        elif found is not None:
            plan.writes[Path(name)] = None
    for changed in record.changed:
        path = Path(changed.path)
        found = content_of(path)
        if found is None:
            continue
        text, left = cut(_text(path, found), changed.pieces, partial(_reads, path))
        if left:
            plan.left[changed.path] = f"{len(left)} of {len(changed.pieces)} parts edited since"
        is_ours = changed.made and text.strip() in ("", "{}")
        plan.writes[path] = None if is_ours else text.encode()
    return plan


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(path, str(error)) from None


def _reads(path: Path, text: str) -> bool:
    """Whether a text can be read as what its file is."""
    try:
        if path.suffix == ".toml":
            tomllib.loads(text)
        elif path.suffix in (".json", ".jsonc") and text.strip():
            read_json(text)
    except ValueError:
        return False
    return True


def carry_out(plan: InstallPlan) -> None:
    """Write what is planned; each file whole, with the mode that it had."""
    for path, content in plan.writes.items():
        if content is None:
            path.unlink(missing_ok=True)
        elif content_of(path) != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = path.stat().st_mode & 0o7777 if path.exists() else None
            write_whole(path, content)
            if mode is not None:
                path.chmod(mode)


def clear_folders(folders: Iterable[str]) -> None:
    """Remove folders that were made and hold nothing, the innermost first."""
    for name in sorted(folders, key=len, reverse=True):
        with suppress(OSError):
            Path(name).rmdir()
