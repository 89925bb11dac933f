"""Options of ``wfctl events`` and ``wfctl log`` that select events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cli.frame.options import OptionGroup, Text, Texts, option
from cli.frame.record_output import Record
from service.reading.point_in_history import Moment, parse_moment
from service.reading.selection import Selection

if TYPE_CHECKING:
    from cli.frame.workspace import OpenedWorkflow

_WANTED = {
    "type_": Annotated[
        Texts,
        option(
            "--type",
            "Show only events of this type, for example stage.failed, or stage.* for all "
            "stage events.",
        ),
    ],
    "stage": Annotated[
        Texts, option("--stage", "Show only entries about this stage, for example stage-2.")
    ],
    "session": Annotated[
        int | None, option("--session", "Show only entries recorded during working session N.")
    ],
    "status": Annotated[
        Text,
        option(
            "--status", "Show only entries that changed a stage to this status, for example failed."
        ),
    ],
    "amendment": Annotated[
        Text,
        option(
            "--amendment",
            "Show only entries about this amendment (a proposed change to the plan), for "
            "example amend-1.",
        ),
    ],
    "since": Annotated[
        Text,
        option(
            "MOMENT",
            "Show only entries recorded after this moment: an event number (12) or a time "
            "(@{2 hours ago}).",
        ),
    ],
    "until": Annotated[
        Text,
        option(
            "MOMENT",
            "Show only entries recorded up to this moment: an event number (12) or a time "
            "(@{2 hours ago}).",
        ),
    ],
    "grep": Annotated[
        Text,
        option("--grep", "TEXT", "Show only entries that contain this text, ignoring case."),
    ],
}
Newest = Annotated[
    int | None,
    option("-n", "--limit", "N", "Show only the N newest entries. Default: all entries.", min=1),
]
Reverse = Annotated[bool, option("--reverse", "Print the newest entries first.")]
Follow = Annotated[
    bool, option("--follow", "Keep running, and print new entries as they are recorded.")
]


class EventOptions(NamedTuple):
    """The options that select events, for example by type, stage, session or time."""

    types: list[str] | None = None
    stages: list[str] | None = None
    session: int | None = None
    status: str | None = None
    amendment: str | None = None
    since: str | None = None
    until: str | None = None
    grep: str | None = None

    def build_selection(self, root: OpenedWorkflow) -> Selection:
        """Return the selection of events that these options describe."""
        return Selection(
            types=tuple(self.types or ()),
            stages=tuple(self.stages or ()),
            actor=root.output.settings.actor,
            session=self.session,
            status=self.status,
            amendment=self.amendment,
            since=_resolve_bound(root, self.since),
            until=_resolve_bound(root, self.until),
        )


def _resolve_bound(root: OpenedWorkflow, text: str | None) -> Moment | None:
    """Return the moment at which a range of events starts or ends, or None for no limit.

    A session means the last log version of the session.
    """
    if text is None:
        return None
    moment = parse_moment(text)
    if root.is_of_all_machines:
        from cli.frame.machine_history import check_moment_for_all_machines

        check_moment_for_all_machines(moment)
        return moment
    return root.log.resolved(moment)


ALL = EventOptions()
Wanted = Annotated[
    EventOptions, OptionGroup(EventOptions, {name: (kind, None) for name, kind in _WANTED.items()})
]


def select_newest(records: Iterable[Record], limit: int | None, reverse: bool) -> Iterable[Record]:
    """Return the newest ``limit`` records, or all records if ``limit`` is None.

    The order is oldest first, or newest first with ``reverse``. At most ``limit`` records are kept
    in memory.
    """
    if not (limit or reverse):
        return records
    found = deque(records, maxlen=limit)
    return reversed(found) if reverse else found


def filter_records(records: Iterable[Record], grep: str | None) -> Iterator[Record]:
    """Yield the records that contain the text ``grep`` in any of their values."""
    if grep is None:
        return iter(records)
    wanted = grep.casefold()
    return (record for record in records if wanted in _join_texts(record).casefold())


def _join_texts(value: Any) -> str:
    inner = value.values() if isinstance(value, dict) else value
    return "\n".join(map(_join_texts, inner)) if isinstance(value, (dict, list)) else str(value)
