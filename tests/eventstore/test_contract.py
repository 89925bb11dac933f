"""The contract of the event store, tested with every engine."""

import json
from collections.abc import Callable
from hashlib import sha256

import pytest

from eventstore.chain import ZERO, Link
from eventstore.errors import (
    EventIdReused,
    InvalidData,
    NewerEventSchema,
    OlderEventSchema,
    StoreClosed,
    UnknownStoredType,
    WrongExpectedVersion,
)
from eventstore.event import Actor, NewEvent
from eventstore.store import Claim, EventStore, Expected, StoredFold
from tests.eventstore.support import REFUSAL, SOMEONE, claim, note, notes


def put(store: EventStore, stream: str, number: int) -> None:
    """Append the given number of notes, each in its own append."""
    for event in notes(number):
        store.append(stream, [event], expected=Expected.ANY, claim=claim())


class TestAppending:
    """Events are appended at the end of a stream, all or none."""

    def test_versions_of_a_stream_start_at_one_and_have_no_gap(self, store: EventStore) -> None:
        """Two appends of two events make the versions 1 to 4."""
        store.append("w", notes(2), expected=0, claim=claim())
        store.append("w", notes(2), expected=2, claim=claim())
        assert [event.version for event in store.read("w")] == [1, 2, 3, 4]

    def test_all_streams_share_the_positions(self, store: EventStore) -> None:
        """Positions count the events of all streams, in the order of commits."""
        for stream in "aba":
            store.append(stream, notes(1), expected=Expected.ANY, claim=claim())
        seen = [(event.position, event.stream) for event in store.read_all()]
        assert seen == [(1, "a"), (2, "b"), (3, "a")]

    def test_append_returns_the_events_that_a_read_returns(self, store: EventStore) -> None:
        """The events that an append returns equal those that a reader gets."""
        answer = store.append("w", notes(3), expected=0, claim=claim())
        read = list(store.read("w"))
        assert list(answer.events) == read
        assert [event.body for event in answer.events] == [event.body for event in read]
        assert not answer.repeated

    def test_every_field_of_an_event_is_preserved(self, store: EventStore) -> None:
        """A reader gets all values of the event's envelope as they were written."""
        new = note("ö", session=3, causation_id="e0", correlation_id="c0", event_id="e1")
        store.append("w", [new], expected=0, claim=Claim("k", "d"))
        (event,) = store.read("w")
        assert (event.event_id, event.type, event.schema_version) == ("e1", "note.logged", 1)
        assert (event.session, event.causation_id, event.correlation_id) == (3, "e0", "c0")
        assert (event.actor, event.command_id, event.data) == (SOMEONE, "k", {"text": "ö"})
        assert event.occurred_at == new.occurred_at

    def test_time_is_utc_and_the_local_offset_is_kept(self, store: EventStore) -> None:
        """Twelve o'clock in summer is stored as ten o'clock UTC with the offset +02:00."""
        store.append("w", notes(1), expected=0, claim=claim())
        (event,) = store.read("w")
        assert event.recorded_at == "2026-07-01T10:00:00.000005Z"
        assert event.utc_offset == "+02:00"

    def test_command_without_events_is_claimed(self, store: EventStore) -> None:
        """A repeated command without events is recognized and records no event."""
        asked = claim()
        assert store.append("w", [], expected=0, claim=asked).events == ()
        again = store.append("w", notes(1), expected=0, claim=asked)
        assert again.repeated
        assert again.events == ()

    def test_invalid_stream_name_is_refused(self, store: EventStore) -> None:
        """Empty names and names with a null character raise an error."""
        for name in ("", "a\0b"):
            with pytest.raises(InvalidData):
                store.append(name, notes(1), expected=0, claim=claim())

    def test_reused_event_id_is_refused(self, store: EventStore) -> None:
        """An append that reuses an event id raises an error and records no event."""
        store.append("w", [note(event_id="e1")], expected=0, claim=claim())
        again = [note(), note(event_id="e1")]
        with pytest.raises(EventIdReused) as caught:
            store.append("x", again, expected=0, claim=claim())
        assert caught.value.stream == "x"
        assert store.head("x") is None

    def test_duplicate_event_id_within_an_append_is_refused(self, store: EventStore) -> None:
        """An append of two events with the same id raises an error."""
        with pytest.raises(EventIdReused):
            store.append("w", [note(event_id="e"), note(event_id="e")], expected=0, claim=claim())
        assert store.head("w") is None


class TestExpectations:
    """A writer states the version that it expects the stream to have."""

    @pytest.mark.parametrize(
        ("length", "expected"),
        [
            (0, 0),
            (2, 2),
            (0, Expected.NO_STREAM),
            (2, Expected.STREAM_EXISTS),
            (0, Expected.ANY),
            (2, Expected.ANY),
        ],
    )
    def test_met_expectation_allows_the_append(
        self, store: EventStore, length: int, expected: int | Expected
    ) -> None:
        """If the stream has the expected version, the event becomes its next version."""
        put(store, "w", length)
        (event,) = store.append("w", notes(1), expected=expected, claim=claim()).events
        assert event.version == length + 1

    @pytest.mark.parametrize(
        ("length", "expected", "said"),
        [
            (0, 1, "version 1"),
            (2, 1, "version 1"),
            (2, 3, "version 3"),
            (2, 0, "version 0"),
            (2, Expected.NO_STREAM, "no stream"),
            (0, Expected.STREAM_EXISTS, "an existing stream"),
        ],
    )
    def test_missed_expectation_records_nothing(
        self, store: EventStore, length: int, expected: int | Expected, said: str
    ) -> None:
        """The error states both versions, and the command id can be used again."""
        put(store, "w", length)
        asked = claim()
        with pytest.raises(WrongExpectedVersion, match=said) as caught:
            store.append("w", notes(1), expected=expected, claim=asked)
        assert (caught.value.stream, caught.value.found) == ("w", length)
        assert len(list(store.read_all())) == length
        assert store.find_executed_command(asked) is None


class TestReading:
    """Readers get the recorded events in order."""

    def test_unknown_stream_is_empty(self, store: EventStore) -> None:
        """The stream has no events and no head."""
        assert list(store.read("w")) == []
        assert store.head("w") is None
        assert list(store.streams()) == []

    @pytest.mark.parametrize(
        ("after", "upto", "seen"),
        [(0, None, [1, 2, 3, 4]), (2, None, [3, 4]), (1, 3, [2, 3]), (4, None, []), (0, 0, [])],
    )
    def test_part_of_a_stream_is_read(
        self, store: EventStore, after: int, upto: int | None, seen: list[int]
    ) -> None:
        """A read starts after a given version and includes the given last version."""
        put(store, "w", 4)
        assert [event.version for event in store.read("w", after=after, upto=upto)] == seen

    @pytest.mark.parametrize(("after", "seen"), [(0, [1, 2, 3]), (1, [2, 3]), (3, [])])
    def test_part_of_the_whole_log_is_read(
        self, store: EventStore, after: int, seen: list[int]
    ) -> None:
        """A read of the whole log starts after a given position."""
        put(store, "a", 2)
        put(store, "b", 1)
        assert [event.position for event in store.read_all(after=after)] == seen

    def test_events_of_several_fetches_are_in_order(self, store: EventStore) -> None:
        """A reader that fetches events in several batches gets all of them in order."""
        store.append("w", notes(2500), expected=0, claim=claim())
        assert [event.version for event in store.read("w")] == list(range(1, 2501))
        assert [event.position for event in store.read_all()] == list(range(1, 2501))

    def test_head_is_the_last_event(self, store: EventStore) -> None:
        """`head` returns the version, position and hash of the stream's last event."""
        put(store, "x", 1)
        put(store, "w", 2)
        last = list(store.read("w"))[-1]
        assert store.head("w") == (2, 3, last.hash)

    def test_streams_are_listed_in_order(self, store: EventStore) -> None:
        """Each stream appears once, however many events it has."""
        for stream in ("m", "a", "z", "a"):
            put(store, stream, 1)
        assert list(store.streams()) == ["a", "m", "z"]

    def test_only_a_server_store_has_a_database_user(
        self, store: EventStore, request: pytest.FixtureRequest
    ) -> None:
        """A store on a server names its database user, and a SQLite store names none."""
        is_on_server = request.node.callspec.params["store"] == "postgresql"
        assert store.session_user() == ("postgres" if is_on_server else None)

    def test_closed_store_raises_an_error(self, store: EventStore) -> None:
        """Closing a store twice is harmless, and using it afterwards is an error."""
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            store.append("w", notes(1), expected=0, claim=claim())
        with pytest.raises(StoreClosed):
            list(store.read("w"))


class TestTheChain:
    """The hash chain proves that no event was changed."""

    def test_stored_text_is_canonical_and_hashed(self, store: EventStore) -> None:
        """The stored text of an event is UTF-8 with sorted keys and no spaces."""
        odd = note('"\\\n€', session=4, causation_id='"', correlation_id="\x01", event_id='ö"')
        odd = odd._replace(
            actor=Actor("user", 'a"b'), data={"z": [1.5, None], "a": {"c": 1, "b": 2}}
        )
        store.append('w"ö', [note("né"), odd], expected=0, claim=Claim('k"é', "d"))
        for raw in store.raw('w"ö'):
            assert sha256(raw.text.encode()).hexdigest() == raw.hash
            again = json.dumps(
                json.loads(raw.text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
            )
            assert raw.text == again

    def test_each_event_has_the_hash_of_the_previous_event(self, store: EventStore) -> None:
        """Each stream has its own chain of hashes, and its first event refers to zeros."""
        put(store, "w", 2)
        put(store, "x", 1)
        first, second = store.read("w")
        (other,) = store.read("x")
        assert (first.prev_hash, second.prev_hash, other.prev_hash) == (ZERO, first.hash, ZERO)

    def test_unchanged_log_has_no_findings(self, store: EventStore) -> None:
        """`verify` finds nothing in an unchanged log, also with a known hash."""
        put(store, "w", 3)
        put(store, "x", 1)
        head = store.head("w")
        assert head is not None
        assert list(store.verify()) == []
        assert list(store.verify("w", anchors={"w": Link(head.version, head.hash)})) == []

    def test_anchor_beyond_the_end_reveals_a_truncated_log(self, store: EventStore) -> None:
        """An anchor (a hash known from outside) reveals that the last events are missing."""
        put(store, "w", 2)
        (found,) = store.verify(anchors={"w": Link(4, "f" * 64)})
        assert (found.stream, found.version, found.kind) == ("w", 3, "cut_tail")

    def test_anchor_of_another_history_is_a_finding(self, store: EventStore) -> None:
        """A valid chain that differs from an anchor (a known hash) is a finding."""
        put(store, "w", 2)
        (found,) = store.verify("w", anchors={"w": Link(1, "f" * 64)})
        assert (found.version, found.kind) == (1, "anchor")

    def test_missing_stream_is_found_by_its_anchor(self, store: EventStore) -> None:
        """The finding for an anchor without a stream names the stream's first version."""
        (found,) = store.verify(anchors={"w": Link(2, "f" * 64)})
        assert (found.stream, found.version, found.kind) == ("w", 1, "cut_tail")


class TestWhatIsRefused:
    """The store refuses to write data that it could not read again."""

    @pytest.mark.parametrize(
        "data",
        [
            {"x": float("nan")},
            {"x": [1, {"y": float("inf")}]},
            {"x": (float("-inf"),)},
            {"x": 2**70},
            {1: "x"},
            {"x": {1, 2}},
            {"x": "\ud800"},
        ],
        ids=["nan", "inf", "minus inf", "long", "key", "set", "surrogate"],
    )
    def test_data_that_is_not_valid_json_is_refused(
        self, store: EventStore, data: dict[str, object]
    ) -> None:
        """The error names the event's type, and nothing is recorded."""
        with pytest.raises(InvalidData, match=r"note\.logged"):
            store.append("w", [note(), note(data=data)], expected=0, claim=claim())
        assert store.head("w") is None

    @pytest.mark.parametrize("field", ["event_id", "occurred_at", "causation_id"])
    def test_text_that_is_not_valid_utf8_is_refused(self, store: EventStore, field: str) -> None:
        """An unpaired surrogate is refused in every field of the envelope."""
        with pytest.raises(InvalidData):
            store.append("w", [note(**{field: "\ud800"})], expected=0, claim=claim())
        assert store.head("w") is None

    def test_null_is_stored_as_null(self, store: EventStore) -> None:
        """None and the string "null" are stored as different values."""
        store.append("w", [note(data={"x": None, "y": "null"})], expected=0, claim=claim())
        (event,) = store.read("w")
        assert event.data == {"x": None, "y": "null"}

    @pytest.mark.parametrize(
        ("event", "error"),
        [
            (note(type="note.sung"), UnknownStoredType),
            (note(schema_version=2), NewerEventSchema),
            (note(type="stage.moved", schema_version=2), OlderEventSchema),
        ],
        ids=["unknown", "newer", "older"],
    )
    def test_only_the_current_schema_version_is_written(
        self, store: EventStore, event: NewEvent, error: Callable[..., Exception]
    ) -> None:
        """An event of another schema version is refused, and the error names the event."""
        with pytest.raises(error, match=event.event_id):  # type: ignore[call-overload]
            store.append("w", [event], expected=0, claim=claim())
        assert store.head("w") is None


class TestKeptBeside:
    """Folds (computed states) and refusals are stored next to the log, not in it."""

    def test_fold_is_returned_for_its_reducer_version(self, store: EventStore) -> None:
        """A stored fold is returned only to the reducer version that computed it."""
        fold = StoredFold("w", "state", 2, 10, b'{"a":1}')
        store.save_fold(fold)
        assert store.load_fold("w", "state", 2) == fold
        assert store.load_fold("w", "state", 3) is None
        assert store.load_fold("w", "other", 2) is None

    def test_fold_replaces_the_previous_fold(self, store: EventStore) -> None:
        """The store has one fold for each stream and reducer."""
        store.save_fold(StoredFold("w", "state", 1, 10, b"old"))
        store.save_fold(StoredFold("w", "state", 2, 20, b"new"))
        assert store.load_fold("w", "state", 1) is None
        assert store.load_fold("w", "state", 2) == StoredFold("w", "state", 2, 20, b"new")

    def test_refusals_are_kept_in_order(self, store: EventStore) -> None:
        """Refusals are read for one stream or for all, and they add no events to the log."""
        other = REFUSAL._replace(stream="x")
        for refusal in (REFUSAL, other, REFUSAL):
            store.record_refusal(refusal)
        assert list(store.refusals()) == [REFUSAL, other, REFUSAL]
        assert list(store.refusals("x")) == [other]
        assert list(store.read_all()) == []
