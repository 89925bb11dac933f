"""Everything that is found in the sources of an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from service.adoption.change_findings import change_findings
from service.adoption.disk_findings import disk_findings
from service.adoption.finding import KINDS, ImportFinding
from service.adoption.log_entries import common_start
from service.adoption.log_findings import log_findings, time_findings
from service.adoption.state_findings import StateFindings
from service.adoption.versions import LOG, STATE, Sources, Version

_ORDER = {kind: place for place, kind in enumerate(KINDS)}


def survey(sources: Sources) -> list[ImportFinding]:
    """Return every finding: those that matter most first, of a kind the oldest version's, by place.

    The log of a version that the next one only appended to is judged with that one.
    """
    versions = sources.versions
    found = [*sources.unreadable, *_foreign(sources.foreign)]
    for number, version in enumerate(versions):
        before = versions[number - 1] if number else None
        here = _since(before, version)
        if number + 1 == len(versions) or _is_rewritten(version, versions[number + 1]):
            here += log_findings(version) + StateFindings(version, sources.zone).all()
        found += _sorted(here, version)
    found += _sorted(list(disk_findings(sources.last, sources.folder)), sources.last)
    return sorted(found, key=lambda finding: _ORDER[finding.kind])


def _foreign(versions: Sequence[Version]) -> Iterator[ImportFinding]:
    """Yield one finding for each workflow whose versions stand in the same place."""
    for name in dict.fromkeys(version.workflow for version in versions):
        own = [version for version in versions if version.workflow == name]
        line = own[0].state.line("/workflow_id")
        yield ImportFinding(
            "other_workflow", STATE, line, name, commit=own[0].commit, count=len(own)
        )


def _since(before: Version | None, now: Version) -> list[ImportFinding]:
    """Return what is new in a version: its lines' times, its changes of definitions."""
    if before is None:
        return time_findings(now.entries, now.known_at)
    start = common_start(before.entries, now.entries)
    found = time_findings(now.entries[start:], now.known_at)
    if _is_begun_anew(before, now):
        created = [version.state.document.get("created") for version in (before, now)]
        evidence = f"created {created[0]}, then {created[1]}; {len(before.entries)} entries before"
        return [*found, ImportFinding("begun_anew", STATE, now.state.line("/created"), evidence)]
    if _is_rewritten(before, now):
        gone = before.entries[start:]
        first = now.entries[start].line if start < len(now.entries) else 1
        evidence = f"{len(gone)} entries, the first: {gone[0].text:.100}"
        found.append(ImportFinding("rewritten_log", LOG, first, evidence, count=len(gone)))
    return found + change_findings(before.state, now.state)


def _is_begun_anew(before: Version, now: Version) -> bool:
    """Whether it is another life of the workflow: nothing of the log is left, or was for a while.

    Its definitions were made anew, and none of them was changed.
    """
    created = [version.state.document.get("created") for version in (before, now)]
    if created[0] == created[1]:
        return False
    return now.after_gap or common_start(before.entries, now.entries) == 0


def _is_rewritten(before: Version, now: Version) -> bool:
    return common_start(before.entries, now.entries) < len(before.entries)


def _sorted(found: Sequence[ImportFinding], version: Version) -> list[ImportFinding]:
    placed = [replace(finding, commit=finding.commit or version.commit) for finding in found]
    return sorted(placed, key=lambda f: (f.file, f.line))
