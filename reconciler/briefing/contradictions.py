"""Contradictions of a briefing, and ranges of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, cast

from reconciler.attempt.markers import Marker, SeenMarker
from reconciler.evidence.collect import Evidence, Presence

_NUMBERED = re.compile(r"(.*-)([1-9][0-9]*)")


def shortened(names: Iterable[str]) -> str:
    """Return names in one line: those with a number under their prefix, as ranges.

    A name without a number stands as it is; groups are parted by a space.
    """
    groups: dict[str, list[int]] = {}
    plain: list[str] = []
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            groups.setdefault(found[1], []).append(int(found[2]))
    return " ".join([*(f"{key}{_ranges(numbers)}" for key, numbers in groups.items()), *plain])


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    spelled = {0: "{0}", 1: "{0},{1}"}
    return ",".join(spelled.get(run[1] - run[0], "{0}..{1}").format(*run) for run in runs)


class BriefPart:
    """Fields that are told as plain JSON values: stages and subjects in one line."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        given = {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}
        return {
            name: shortened(value) if name in ("stages", "subjects") else in_json(value)
            for name, value in given.items()
        }


def in_json(value: Any) -> Any:
    """Return a field of a briefing as a plain JSON value."""
    if isinstance(value, tuple):
        return [in_json(one) for one in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


@dataclass(frozen=True, slots=True)
class Contradiction(BriefPart):
    """Things of one kind that do not fit; ``subjects`` are stages or files."""

    kind: str
    subjects: tuple[str, ...]
    text: str


def of_evidence(stage: str, evidence: Evidence) -> list[Contradiction]:
    """Return what does not fit together in the evidence on an attempt of the stage."""
    return [Contradiction(kind, (stage,), text) for kind, text, holds in _KINDS if holds(evidence)]


def _markers(evidence: Evidence) -> tuple[Marker, Marker]:
    return evidence.exit_marker, evidence.done_marker


def _is_elsewhere(evidence: Evidence) -> bool:
    return evidence.root_recorded not in (None, evidence.root_now) or (
        evidence.host_recorded not in (None, evidence.host_now)
    )


def _has_marker(seen: SeenMarker) -> Callable[[Evidence], bool]:
    return lambda evidence: any(marker.seen is seen for marker in _markers(evidence))


def _is_done_without_code(evidence: Evidence) -> bool:
    code, done = (marker.seen is SeenMarker.OWN for marker in _markers(evidence))
    return done and not code


def _disagrees_with_its_jobs(evidence: Evidence) -> bool:
    codes = [job.exit_code for job in evidence.jobs]
    marker = evidence.exit_marker
    if marker.seen is not SeenMarker.OWN or not codes or None in codes:
        return False
    return (marker.code == 0) is not all(code == 0 for code in codes)


def _is_older_than_its_launch(evidence: Evidence) -> bool:
    launched = evidence.launched_at
    times = [marker.mtime for marker in _markers(evidence) if marker.seen is SeenMarker.OWN]
    times += [job.ended_at for job in evidence.jobs]
    return launched is not None and any(time is not None and time < launched for time in times)


def _lacks_an_output(evidence: Evidence) -> bool:
    said_well = evidence.exit_marker.seen is SeenMarker.OWN and evidence.exit_marker.code == 0
    return said_well and any(o.presence is Presence.MISSING for o in evidence.outputs)


def _has_old_output(evidence: Evidence) -> bool:
    return any(o.presence is not Presence.MISSING and o.new is False for o in evidence.outputs)


_KINDS: tuple[tuple[str, str, Callable[[Evidence], bool]], ...] = (
    ("elsewhere", "it was launched in another root or on another host", _is_elsewhere),
    (
        "marker_of_another",
        "a marker of another attempt lies in its place",
        _has_marker(SeenMarker.OTHER),
    ),
    ("marker_unreadable", "a marker is empty or half-written", _has_marker(SeenMarker.UNREADABLE)),
    ("done_without_code", "it is marked as done without an exit code", _is_done_without_code),
    ("marker_disagrees", "its monitor and its job ended differently", _disagrees_with_its_jobs),
    ("clock", "something of it ended before it was launched", _is_older_than_its_launch),
    ("output_missing", "it ended well, but an output is missing", _lacks_an_output),
    ("output_old", "an output is older than its launch", _has_old_output),
)
