"""Build archives as a stranger could forge them: every hash, digest and size is consistent."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from tests.amendments.support import canonical

Body = dict[str, Any]
Edit = Callable[[list[Body]], list[Body]]


def forged(file: Path, target: Path, edit: Edit, workflow: str | None = None) -> Path:
    """Copy the archive ``file`` to ``target`` with edited events and, if given, another id."""
    with ZipFile(file) as source:
        files = {name: source.read(name) for name in source.namelist()}
    manifest = json.loads(files.pop("manifest.json"))
    stream = manifest["streams"][0]
    bodies = [_body(line) for line in files[stream["file"]].splitlines()]
    commands = {body["command_id"] for body in bodies}
    if workflow is not None:
        manifest["workflow"], stream["name"] = workflow, f"workflow-{workflow}"
        bodies[0]["data"]["document"]["workflow_id"] = workflow
    bodies = edit(bodies)
    lines, head = _chained(bodies, stream["name"])
    stream["version"], stream["head"] = len(bodies), head
    files[stream["file"]] = lines
    claims = {str(body["command_id"]): "" for body in bodies}
    others = [
        line
        for line in files["claims.jsonl"].splitlines(keepends=True)
        if json.loads(line)["command_id"] not in commands
    ]
    files["claims.jsonl"] = b"".join(others) + b"".join(
        json.dumps(_claim(command, stream["name"], bodies)).encode() + b"\n" for command in claims
    )
    manifest["files"] = {
        name: {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        for name, content in files.items()
    }
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr("manifest.json", json.dumps(manifest))
    return target


def _body(line: bytes) -> Body:
    return {k: v for k, v in json.loads(line).items() if k not in ("hash", "position")}


def _claim(command: str, stream: str, bodies: list[Body]) -> Body:
    versions = [body["version"] for body in bodies if body["command_id"] == command]
    return {
        "command_id": command,
        "digest": "",
        "stream": stream,
        "first_version": versions[0],
        "last_version": versions[-1],
    }


def _chained(bodies: list[Body], stream: str) -> tuple[bytes, str]:
    previous, lines = "0" * 64, b""
    for version, body in enumerate(bodies, 1):
        body |= {"version": version, "prev_hash": previous, "stream": stream}
        text = canonical(body).encode("utf-8", "surrogatepass")
        previous = sha256(text).hexdigest()
        lines += text[:-1] + f',"hash":"{previous}","position":{version}}}\n'.encode()
    return lines, previous


def added(type_: str, data: Any, **envelope: Any) -> Edit:
    """Return a function that appends one event to the events of an archive."""

    def edit(bodies: list[Body]) -> list[Body]:
        own = f"forged-{len(bodies)}"
        more = {"type": type_, "data": data, "schema_version": 1, "event_id": own}
        return [
            *bodies,
            {**bodies[-1], "causation_id": None, "command_id": own, **more, **envelope},
        ]

    return edit


def completed(report: str) -> Edit:
    """Return a function that adds a workflow completion with a report path to an archive."""
    return added("workflow.completed", {"stages": 2, "report": report})
