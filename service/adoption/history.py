"""From the versions of somebody else's files to the events of a stream."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from copy import deepcopy
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lifecycle.payload import models as p
from lifecycle.words.document import STAGE_FIELDS, layout_of, spelling_of
from service.adoption.log_entries import LogEntry, common_start, runs
from service.adoption.state_file import parse_time
from service.adoption.versions import LOG, STATE, ImportFinding, Sources, Version
from service.writing.stream_writer import Planned

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

#: What a stage has when nothing has happened to it yet.
_NOTHING_YET = frozenset(STAGE_FIELDS[STAGE_FIELDS.index("started_at") :])


def history(sources: Sources, findings: Sequence[ImportFinding], now: str, **facts: Any) -> Planned:
    """Return the events of an import, each with when it was so (UTC, the log's form).

    The first creates the workflow as it was before anything was said of it; then each version
    comes as its new lines and the state it held, so that the last event is the state on disk.
    No time is later than ``now``. ``facts`` are further fields of ``workflow.imported``.
    """
    told = list(_versions(sources, now))
    first = sources.versions[0].state.document
    begin = min([_created(sources, now), *(at for _, at in told)])
    beginning = p.WorkflowImported(
        document=_before_anything(first),
        layout=layout_of(first),
        events=len(told) + 1,
        source=_source(sources),
        findings=[finding.to_dict() for finding in findings],
        proposed=facts.get("consent") != "trust",
        **facts,
    )
    return ((beginning, begin), *told)


def _before_anything(document: dict[str, Any]) -> dict[str, Any]:
    new = deepcopy(document)
    new.pop("workflow_status", None)
    new["amendments"] = []
    for stage in new["stages"]:
        stage["status"] = "pending"
        for field in _NOTHING_YET & stage.keys():
            del stage[field]
    return new


def _source(sources: Sources) -> dict[str, Any]:
    last = sources.last
    offset = sources.zone.tzname(None) if sources.zone is not None else "local"
    return {
        "path": str(sources.folder),
        "times_without_offset": offset,
        "files": [_digest(STATE, last.state.content), _digest(LOG, last.log)],
        "commits": [v.commit for v in sources.versions if v.commit is not None],
    }


def _digest(name: str, content: bytes) -> dict[str, Any]:
    return {"path": name, "size": len(content), "sha256": sha256(content).hexdigest()}


def _created(sources: Sources, now: str) -> str:
    created = parse_time(sources.versions[0].state.document.get("created") or "", sources.zone)
    return created.moment if created is not None else now


def _versions(sources: Sources, now: str) -> Iterator[tuple[Payload, str]]:
    latest = _created(sources, now)
    for version, start, kept in _new_and_kept(sources.versions):
        lasting, gone = version.entries[start:kept], version.entries[max(start, kept) :]
        for entries, in_file in ((lasting, True), (gone, False)):
            for run in runs(entries):
                latest = run[0].time.moment if run[0].time is not None else latest
                yield _line(run, version, kept=in_file), min(latest, now)
        yield _state(version, sources), min(_state_time(version, sources, latest), now)


def _new_and_kept(versions: Sequence[Version]) -> list[tuple[Version, int, int]]:
    shared = [common_start(before.entries, now.entries) for before, now in pairwise(versions)]
    kept = [len(versions[-1].entries)]
    for common in reversed(shared):
        kept.insert(0, min(common, kept[0]))
    return list(zip(versions, [0, *shared], kept, strict=True))


def _line(run: Sequence[LogEntry], version: Version, *, kept: bool) -> p.LineImported:
    first, raw = run[0], [line for entry in run for line in entry.raw]
    is_text = all(_is_text(line) for line in raw)
    return p.LineImported(
        raw=[line.decode() if is_text else b64encode(line).decode() for line in raw],
        encoding="utf-8" if is_text else "base64",
        ended=run[-1].ended,
        text=first.text,
        typed_at=first.time.text if first.time is not None else None,
        line=first.line,
        count=len(run),
        kept=kept,
        commit=version.commit,
        stage=first.stage,
        statuses=[status.value for status in first.statuses],
        retry=first.retry,
        session=first.session,
        workflow_completed=first.workflow_completed,
    )


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _state(version: Version, sources: Sources) -> p.StateImported:
    document = version.state.document
    source = {
        **_digest(STATE, version.state.content),
        "file": STATE,
        "commit": version.commit,
        "known_at": version.known_at,
        "root": str(sources.folder),
    }
    spelling = spelling_of(version.state.content.decode("utf-8-sig"))
    layout = layout_of(document)
    return p.StateImported(document=document, layout=layout, spelling=spelling, source=source)


def _state_time(version: Version, sources: Sources, latest: str) -> str:
    """Return when a state was so: by its own word, but not before what led to it."""
    updated = parse_time(version.state.document.get("updated") or "", sources.zone)
    return max(latest, updated.moment) if updated is not None else latest
