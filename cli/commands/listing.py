"""``wfctl list``: every workflow of this login, and on a server of the group."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.frame.options import option
from cli.frame.workspace import opened, reading_of, settings_of
from cli.settings import Settings
from cli.terminal.output import Output
from cli.terminal.table import TableColumn, table
from eventstore.private import is_server
from projections.words.account import waits
from projections.words.text import utc_seconds
from service.root.known_logs import known_roots
from service.root.root import WORKFLOW, Root, find_root, kept, read_config

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow

Record = dict[str, Any]
#: Files below a root that are counted; a root with more is told as at least so large.
_FILES = 20_000
_UNITS = ("B", "kB", "MB", "GB", "TB")
#: What waits, of one workflow, that is named.
_WAITS = 5


def list_(
    context: typer.Context,
    limit: int = option("-n", "--limit", "N", "The newest N.", min=1, default=50),
    size: bool = option("--size/--no-size", "Add up what is on disk.", default=True),
) -> None:
    """All workflows of this login, with what waits for whom; on a server those of the group.

    A server is asked where --database-url or the configuration of a root names it.
    """
    settings = settings_of(context)
    found = sorted(_all(settings), key=lambda record: record["updated"] or "", reverse=True)
    shown = [_with_size(record) if size else record for record in found[:limit]]
    data = {"workflows": shown, "left_out": len(found) - len(shown)}
    output = Output(settings)
    output.result(data, lambda: _text(output, data))


def _all(settings: Settings) -> Iterator[Record]:
    """Yield a record of each workflow, each once; of what cannot be read, why."""
    plain = replace(settings, root=None, database_url=None)
    servers = [settings.database_url] if is_server(settings.database_url or "") else []
    seen: set[tuple[str | None, str]] = set()
    for root in known_roots():
        record, url = _of_root(replace(plain, root=root), root)
        servers += [url] if url is not None and is_server(url) else []
        seen.add((kept(url) if url else None, str(record["workflow"])))
        yield record
    for server in dict.fromkeys(filter(None, servers)):
        yield from _of_server(server, {name for url, name in seen if url == kept(server)})


def _of_root(settings: Settings, root: Path) -> tuple[Record, str | None]:
    """Return what there is to tell of a root, and where its log is, if it says so."""
    url = None
    try:
        url = read_config(find_root(root)).database_url
        with reading_of(settings) as workflow:
            if workflow.config.workflow is None:
                return _record(root, None, note="machines alone"), url
            return _record(root, workflow.state()), url
    except Exception as error:  # noqa: BLE001 - one root that is broken hides no other
        message = str(getattr(error, "message", error))
        return _record(root, None, note=message[:200]), None


def _of_server(url: str, known: set[str]) -> Iterator[Record]:
    from service.reading.log import WorkflowLog

    try:
        store = opened(Root(Path.cwd(), url), read_only=True)
    except Exception as error:  # noqa: BLE001 - a server that is away hides no root
        message = str(getattr(error, "message", error))
        yield {**_record(None, None, note=message[:200]), "database": kept(url)}
        return
    try:
        for stream in store.streams():
            name = stream.removeprefix(WORKFLOW)
            if name == stream or name in known:
                continue
            state = WorkflowLog(store, stream, Path.cwd()).current()
            yield {**_record(None, state), "database": kept(url)}
    finally:
        store.close()


def _record(root: Path | None, state: Workflow | None, note: str | None = None) -> Record:
    record: Record = {
        "workflow": state.id if state else None,
        "root": str(root) if root else None,
        "database": None,
        "status": (state.workflow_status or "active") if state else None,
        "purpose": state.purpose if state else None,
        "stages": {},
        "waits": [],
        "updated": state.updated if state else None,
        "bytes": None,
        "note": note,
    }
    if state is not None:
        counts = Counter(stage.status.value for stage in state.stages.values())
        told = [str(wait) for wait in waits(state)]
        told += ["its last session ended blocked; wfctl why"] if _is_blocked(state, told) else []
        record |= {"stages": dict(counts), "waits": [text[:160] for text in told[:_WAITS]]}
    return record


def _is_blocked(state: Workflow, told: list[str]) -> bool:
    """Whether a session found nothing more to do, and nothing that is told here says why."""
    over = state.workflow_status is not None or state.session.is_open
    return not told and not over and state.session.exit_reason == "blocked"


def _with_size(record: Record) -> Record:
    if record["root"] is None:
        return record
    total, whole = _on_disk(Path(record["root"]))
    return {**record, "bytes": total, "bytes_are_all": whole}


def _on_disk(root: Path) -> tuple[int, bool]:
    total = counted = 0
    for folder, _, names in os.walk(root):
        for name in names:
            counted += 1
            if counted > _FILES:
                return total, False
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue  # it went away meanwhile
    return total, True


def _text(output: Output, data: Record) -> str:
    lines = [table(output, data["workflows"], _COLUMNS)]
    if data["left_out"]:
        lines.append(f"and {data['left_out']} older (`-n N` shows more)")
    return "\n".join(lines)


def _stages(record: Record) -> str:
    counts = record["stages"]
    return f"{counts.get('completed', 0)}/{sum(counts.values())}" if counts else "-"


def _size(record: Record) -> str:
    size = record.get("bytes")
    if size is None:
        return "-"
    step = 0
    while size >= 1000 and step < len(_UNITS) - 1:
        size, step = size / 1000, step + 1
    return f"{'' if record.get('bytes_are_all', True) else '>'}{size:.3g} {_UNITS[step]}"


_COLUMNS = (
    TableColumn("WORKFLOW", lambda r: r["workflow"] or "-", 32),
    TableColumn("STATUS", lambda r: r["status"] or "-"),
    TableColumn("DONE", _stages),
    TableColumn("SIZE", _size),
    TableColumn("UPDATED", lambda r: utc_seconds(r["updated"]) or "-"),
    TableColumn("WAITS FOR A PERSON", lambda r: "; ".join(r["waits"]) or r["note"] or "-", 48),
    TableColumn("WHERE", lambda r: r["root"] or r["database"] or "-", 60),
)
