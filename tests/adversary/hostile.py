"""Generate archives, folders and plans from seeds, so that a failure can be reproduced."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from tests.adversary.archives import Body, forged

#: Hostile strings: they lead out of a folder, end a quoted value, contain control codes, or are far
#: too long.
TEXTS: list[Any] = [
    "../../escaped", "/tmp/escaped", "~/.bash_login", ".bash_login", "a/../../b", "a\nb", "a\0b",
    ".git/hooks/x", "x" * 5_000, "\u202eoverride", "\x1b[2J", "\ud800", "", ".", "..", "-rf", "a b",
    "$(touch escaped)", "`touch escaped`", "';touch escaped;'", '"\n[x]\na = "', "stage-1/../../x",
    "stage-99", "stage-0", "att-0001", "amend-1", ".wfctl/config.toml", "progress.log", "con", "é",
]  # fmt: skip
VALUES: list[Any] = [
    *TEXTS, None, True, 0, -1, 1 << 70, -(1 << 63), 1e308, 0.5, [], {}, [[]], {"": {}}, ["../x"],
]  # fmt: skip
TYPES = [
    "workflow.completed", "session.started", "session.ended", "drift.detected", "drift.reverted",
    "outputs.archived", "outputs.recorded", "attempt.started", "stage.launched", "stage.failed",
    "stage.completed", "note.logged", "checkpoint.recorded", "state.imported", "line.imported",
    "workflow.created", "amendment.proposed", "amendment.approved", "cost.charged", "no.such",
]  # fmt: skip
FIELDS = [
    "report", "kept_as", "stage", "attempt", "outputs", "file", "work_dir", "submission", "wrapper",
    "number", "session", "text", "document", "version", "weight", "reason", "stages", "detected",
    "checkpoint", "error", "amendment", "mode", "root", "kind", "source", "raw", "id", "changes",
]  # fmt: skip
NAMES = ["workflow-state.json", "progress.log", "docs", "stage-1", ".wfctl", "init.sh"]


def spoilt(value: Any, random: Random, depth: int = 0) -> Any:
    """Return a JSON value in which one part is replaced, removed or added."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        name = random.choice(list(value))
        changed = {**value, name: spoilt(value[name], random, depth + 1)}
        if random.random() < 0.1:
            del changed[name]
        if random.random() < 0.1:
            changed[random.choice([*FIELDS, *(t for t in TEXTS if t)])] = random.choice(VALUES)
        return changed
    if isinstance(value, list) and value and random.random() < 0.85:
        place = random.randrange(len(value))
        return [*value[:place], spoilt(value[place], random, depth + 1), *value[place + 1 :]]
    return random.choice(VALUES)


def archive(honest: Path, target: Path, random: Random) -> Path:
    """Write an archive with valid hashes and with damaged or invented events."""
    workflow = random.choice(TEXTS) if random.random() < 0.15 else None

    def edit(bodies: list[Body]) -> list[Body]:
        for _ in range(random.randint(0, 2)):
            place = random.randrange(len(bodies))
            bodies[place]["data"] = spoilt(bodies[place]["data"], random)
        for _ in range(random.randint(0, 2)):
            bodies.append(_made_up(bodies[-1], len(bodies), random))
        if random.random() < 0.2:
            field = random.choice(["type", "actor", "session", "occurred_at", "schema_version"])
            bodies[-1][field] = random.choice(VALUES)
        return bodies

    forged(honest, target, edit, workflow)
    if random.random() < 0.2:
        _manifest_spoilt(target, random)
    return target


def _made_up(last: Body, number: int, random: Random) -> Body:
    fields = random.sample(FIELDS, random.randint(0, 4))
    data = {name: random.choice(VALUES) for name in fields}
    own = f"forged-{number}"
    more = {"type": random.choice(TYPES), "data": data, "schema_version": random.randint(1, 2)}
    return {**last, "event_id": own, "command_id": own, "causation_id": None, **more}


def _manifest_spoilt(file: Path, random: Random) -> None:
    with ZipFile(file) as source:
        files = {name: source.read(name) for name in source.namelist()}
    manifest = spoilt(json.loads(files["manifest.json"]), random)
    with ZipFile(file, "w", ZIP_DEFLATED) as made:
        for name, content in files.items():
            shown = json.dumps(manifest) if name == "manifest.json" else content
            made.writestr(name, shown)


def plan(honest: dict[str, Any], folder: Path, random: Random) -> Path:
    """Write a damaged plan as JSON, YAML or TOML."""
    value = honest
    for _ in range(random.randint(1, 3)):
        value = spoilt(value, random)
    path = folder / f"plan{random.choice(['.json', '.yaml', '.toml'])}"
    text = json.dumps(value)
    if path.suffix == ".toml":
        text = _toml(value)
    if random.random() < 0.2:
        place = random.randrange(len(text) + 1)
        text = text[:place] + random.choice(["[" * 500, "\0", "*a", "{", '"', "\\"]) + text[place:]
    path.write_text(text, "utf-8", errors="surrogatepass")
    return path


def _toml(value: Any) -> str:
    if not isinstance(value, dict):
        return "a = [[["
    return "\n".join(f"{json.dumps(key)} = {json.dumps(child)}" for key, child in value.items())


def folder(honest: dict[str, Any], path: Path, outside: Path, random: Random) -> Path:
    """Create a workflow folder to import, with hostile content, links and FIFOs."""
    path.mkdir()
    state = spoilt(honest, random) if random.random() < 0.7 else honest
    (path / "workflow-state.json").write_text(json.dumps(state))
    (path / "progress.log").write_text(f"[2026-01-01] stage-1 (a): status -> {TEXTS[4]}\n")
    if random.random() < 0.4:
        (path / ".wfctl").mkdir()
        words = {"workflow": random.choice(TEXTS[:20]), "database_url": random.choice(_URLS)}
        lines = (f"{key} = {json.dumps(value)}" for key, value in words.items())
        text = "\n".join(lines)
        (path / ".wfctl/config.toml").write_text(text, "utf-8", errors="surrogatepass")
    for name in random.sample(NAMES, random.randint(0, 2)):
        _put(path / name, outside, random)
    return path


_URLS = ["postgresql://127.0.0.1:9/x", "sqlite:///../../escaped.db", "http://x", "sqlite:///", ""]


def _put(place: Path, outside: Path, random: Random) -> None:
    """Replace a file with a link, a FIFO or a folder."""
    if place.is_dir():
        return
    place.unlink(missing_ok=True)
    ways: list[Callable[[], None]] = [
        lambda: place.symlink_to(outside / "precious"),
        lambda: place.symlink_to(outside),
        lambda: place.symlink_to("/etc/passwd"),
        lambda: place.symlink_to(place.name),
        lambda: os.mkfifo(place),
        place.mkdir,
    ]
    random.choice(ways)()
