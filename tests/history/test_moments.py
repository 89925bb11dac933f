"""The options `--at` (what was true) and `--known-at` (what was recorded) show past states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle.payload import models as p
from projections.files.state_document import render_state
from service.errors import InvalidOption, NotFound
from service.reading.point_in_history import Moment, parse_moment
from service.root.atomic_files import utc_text
from tests.adoption import support as s
from tests.cli.support import Place
from tests.history.chronicle import BEGIN, CHRONICLES, DEEDS, Chronicle
from tests.history.support import imported_log
from tests.projections.story import attempt
from tests.service.test_any_history import plan

NOW = datetime(2026, 3, 31, 14, 0, tzinfo=UTC)
IN_A_ROW = plan((["stage-1"], ["stage-2"]))


def minute(number: int) -> str:
    """Return the time of the clock after the given number of commands."""
    return utc_text(BEGIN + timedelta(minutes=number))


def view(chronicle: Chronicle, moment: Moment) -> bytes:
    """Return the document as seen at a moment, or empty bytes before the workflow existed."""
    state = chronicle.log.state(moment)
    return render_state(state) if state is not None else b""


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("12", Moment(version=12)),
        ("session:3", Moment(session=3)),
        ("@{2 hours ago}", Moment(so_by="2026-03-31T12:00:00.000000Z")),
        ("@{an hour ago}", Moment(so_by="2026-03-31T13:00:00.000000Z")),
        ("@{yesterday}", Moment(so_by="2026-03-30T14:00:00.000000Z")),
        ("@{now}", Moment(so_by="2026-03-31T14:00:00.000000Z")),
        ("@{2026-03-31T11:00:00+02:00}", Moment(so_by="2026-03-31T09:00:00.000000Z")),
    ],
)
def test_moment_is_parsed_from_version_time_or_session(text: str, moment: Moment) -> None:
    """A moment is a version, a time such as git's `@{2 hours ago}`, or a session."""
    assert parse_moment(text, now=NOW) == moment


@pytest.mark.parametrize("text", ["@{}", "@{soon}", "@{2 fortnights ago}", "session:x", "@{1 day"])
def test_invalid_moment_is_refused(text: str) -> None:
    """The error for an invalid moment lists the accepted forms."""
    with pytest.raises(InvalidOption, match="session:3"):
        parse_moment(text, now=NOW)


READS = {
    "status": ["status"],
    "show": ["show", "stage-1"],
    "log": ["log"],
    "events": ["events"],
    "replay": ["replay"],
    "why": ["why", "stage-1"],
    "blame": ["blame", "stage-1.status"],
    "export": ["export", "state"],
    "sql": ["audit", "sql", "SELECT 1"],
    **{name: ["audit", name] for name in (
        "transitions", "retries", "attempts", "times", "queue", "costs", "amendments", "bypasses",
        "refused", "drift",
    )},
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_future_version_is_not_found(place: Place, name: str) -> None:
    """`--at` with a version after the end of the log is an error. Version 0 is empty."""
    answer = place.json(*READS[name], "--at", "999")
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert answer.error["message"].startswith(
        "version 999 does not exist, because the log ends at version "
    )
    assert place.json(*READS[name], "--at", "0").code in (0, 3)


@pytest.mark.parametrize("moment", ["--at 0", "--at 2020-01-01", "--known-at 2020-01-01"])
def test_moment_before_the_first_event_is_an_error(place: Place, moment: str) -> None:
    """The error gives the time of the first event and does not suggest `init`."""
    first = place.done("events")[0]
    answer = place.json("status", *moment.split())
    assert (answer.code, answer.error["code"]) == (3, "no_workflow_yet")
    assert "the log has no event before" in answer.error["message"]
    assert "init" not in answer.error["message"]
    times = [answer.error["data"][name] for name in ("occurred_at", "recorded_at")]
    assert times == [first["occurred_at"], first["recorded_at"]]


@pytest.mark.parametrize("year", ["0030", "0300", "1000"])
def test_early_years_are_compared_correctly(year: str) -> None:
    """A year such as 30 gets leading zeros, because times are compared as strings."""
    chronicle = Chronicle(IN_A_ROW)
    for moment in (parse_moment(f"{year}-01-01"), parse_moment(None, f"{year}-01-01")):
        assert chronicle.log.state(moment) is None


def test_at_and_known_at_are_combined() -> None:
    """Both options together select events by their time and by their recording."""
    noon = "2026-03-31T12:00:00.000000Z"
    assert parse_moment("7", "2026-03-31T12:00:00Z") == Moment(7, known_by=noon)
    assert parse_moment("7", "5") == Moment(version=5)


def discovered() -> Chronicle:
    """Return a workflow in which the end of the first stage was recorded an hour late."""
    chronicle = Chronicle(IN_A_ROW)
    assert chronicle.do(attempt("stage-1", 1, "sync"))
    chronicle.now += timedelta(hours=1)
    assert chronicle.do(p.StageComputed(stage="stage-1", attempt="att-0001", exit_code=0), 60)
    return chronicle


def test_late_discovery_is_visible_by_at_and_not_by_known_at() -> None:
    """``--at`` shows an end that was recorded later, and ``--known-at`` does not."""
    log = discovered().log
    so, known = parse_moment(minute(3)), parse_moment(None, minute(3))
    assert log.current(so).stages["stage-1"].status == "post_processing"
    assert log.current(known).stages["stage-1"].status == "preparing"
    both = parse_moment(minute(3), minute(3))
    assert log.current(both).stages["stage-1"].status == "preparing"


@settings(max_examples=60)
@given(CHRONICLES, st.lists(DEEDS, max_size=5), st.data())
def test_later_events_do_not_change_known_at_views(
    chronicle: Chronicle, deeds: list[Any], data: st.DataObject
) -> None:
    """Later events do not change what was known before, whatever time they refer to."""
    passed = (chronicle.now - BEGIN) // timedelta(minutes=1)
    moment = Moment(known_by=minute(data.draw(st.integers(0, passed))))
    before = view(chronicle, moment)
    for command, minutes in deeds:
        chronicle.do(command, minutes)
    assert view(chronicle, moment) == before


@settings(max_examples=60)
@given(CHRONICLES, st.integers(-100, 40), st.integers(-1, 40))
def test_every_view_can_be_folded(chronicle: Chronicle, so: int, known: int) -> None:
    """For any pair of `--at` and `--known-at`, the selected events give a valid state."""
    moment = Moment(so_by=minute(so), known_by=minute(known))
    folded = list(chronicle.log.steps(upto=moment))
    assert all(event.occurred_at <= minute(so) for event, _ in folded)
    assert all(event.recorded_at <= minute(known) for event, _ in folded)
    assert [event.version for event, _ in folded] == sorted(event.version for event, _ in folded)


@settings(max_examples=40)
@given(CHRONICLES)
def test_view_from_the_far_future_equals_the_current_state(chronicle: Chronicle) -> None:
    """With times in the far future, both options together select every event."""
    last = Moment(so_by=minute(10_000), known_by=minute(10_000))
    assert view(chronicle, last) == render_state(chronicle.log.current())


def test_clock_set_back_does_not_change_earlier_views() -> None:
    """If the clock is set back, a later event counts as recorded after earlier ones."""
    chronicle = Chronicle(IN_A_ROW)
    chronicle.do(p.NoteLogged(text="at one minute"))
    latest = chronicle.now
    before = [view(chronicle, Moment(known_by=minute(n))) for n in range(2)]
    chronicle.now -= timedelta(minutes=30)
    chronicle.do(attempt("stage-1", 1, "sync"))
    assert [view(chronicle, Moment(known_by=minute(n))) for n in range(2)] == before
    just_after = Moment(known_by=utc_text(latest + timedelta(microseconds=1)))
    assert view(chronicle, just_after) == render_state(chronicle.log.current())


def test_session_as_moment_means_its_end() -> None:
    """`session:N` is the state at the end of session N. An unknown session is an error."""
    chronicle = Chronicle(IN_A_ROW)
    ended = p.SessionEnded(reason="waiting")
    for command in (p.SessionStarted(), p.NoteLogged(text="one"), ended, p.NoteLogged(text="two")):
        assert chronicle.do(command)
    assert chronicle.do(p.SessionStarted())
    assert chronicle.do(p.NoteLogged(text="three"))
    heads = [chronicle.log.current(parse_moment(f"session:{n}")).head for n in (1, 2)]
    events = list(chronicle.log.events())
    (end,) = (event.version for event in events if event.type == "session.ended")
    assert heads == [end, chronicle.head]
    with pytest.raises(NotFound, match="no session 3"):
        chronicle.log.current(parse_moment("session:3"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [s.STATES[4], s.STATES[6]])
def test_imported_history_can_be_viewed_at_any_of_its_moments(name: str, tmp_path: Path) -> None:
    """Later moments never show fewer events, and before the import nothing is known."""
    with imported_log(name, tmp_path) as log:
        events = list(log.events())
        times = sorted({event.occurred_at for event in events})
        seen = [len(list(log.steps(upto=Moment(so_by=time)))) for time in times]
        assert seen == sorted(seen)
        assert seen[-1] == len(events)
        assert log.state(Moment(known_by=events[0].occurred_at)) is None
