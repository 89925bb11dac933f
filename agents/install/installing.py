"""Installing and uninstalling: planned as a whole before the first byte is written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from agents.install.clients import Kit, SettingsEdit
from agents.install.record import Changed, InstallRecord, cut, lacking, put, read_json
from service.errors import AlreadyThere, InvalidOption
from service.root.disk import content_of, write_whole


@dataclass(slots=True)
class InstallPlan:
    """What is to be written (None: removed), what is kept of it, and what stays though it is ours.

    ``left``: path → why it is left as it is.
    """

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
    plan.record.folders += _new_folders(plan)
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
        plan.left[str(path)] = "; ".join(_to_paste(key, edit.more[key]) for key in keys)
    if not _reader(path)(after):
        raise _unreadable(path, "what is to be added does not fit it")
    if pieces:
        plan.writes[path] = after.encode()
        plan.record.changed.append(Changed(str(path), pieces, made=found is None))


def _to_paste(key: str, entries: Mapping[str, Any]) -> str:
    shown = json.dumps(entries, ensure_ascii=False)
    return f"it has `{key}` already; put into it yourself: {shown[1:-1]}"


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
        _cut(plan, changed)
    return plan


def _cut(plan: InstallPlan, changed: Changed) -> None:
    path = Path(changed.path)
    found = content_of(path)
    if found is None:
        return
    text, left = cut(_text(path, found), changed.pieces, _reader(path))
    if left:
        plan.left[changed.path] = f"{len(left)} of {len(changed.pieces)} parts edited since"
    is_ours = changed.made and text.strip() in ("", "{}")
    plan.writes[path] = None if is_ours else text.encode()


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(path, str(error)) from None


def _reader(path: Path) -> Callable[[str], bool]:
    if path.suffix == ".toml":
        return lambda text: _reads(tomllib.loads, text)
    if path.suffix in (".json", ".jsonc"):
        return lambda text: not text.strip() or _reads(read_json, text)
    return lambda _text: True


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _new_folders(plan: InstallPlan) -> list[str]:
    """Return the folders that are not there yet, the outermost first."""
    wanted = {
        parent
        for path, content in plan.writes.items()
        if content is not None
        for parent in path.parents
    }
    known = set(plan.record.folders)
    return sorted(str(one) for one in wanted if not one.exists() and str(one) not in known)


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
