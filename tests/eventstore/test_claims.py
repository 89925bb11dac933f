"""A command takes effect only once, with every engine."""

import pytest

from eventstore.errors import (
    CommandConflict,
    EventIdReused,
    TransferConflict,
    WrongExpectedVersion,
)
from eventstore.store import Claim, EventStore, ExecutedCommand, Expected, ImportBatch
from tests.eventstore.support import claim, claim_of, note, notes


class TestClaims:
    """A repeated command takes no effect, because its claim (id and digest) is recorded."""

    def test_repeated_command_gets_the_first_answer(self, store: EventStore) -> None:
        """A repeated command gets its first answer, even with an outdated version."""
        asked = claim()
        first = store.append("w", notes(2), expected=0, claim=asked)
        store.append("w", notes(1), expected=2, claim=claim())
        again = store.append("w", notes(2), expected=0, claim=asked)
        assert (again.events, again.repeated) == (first.events, True)
        assert len(list(store.read("w"))) == 3

    def test_other_content_under_the_same_id_is_a_conflict(self, store: EventStore) -> None:
        """The error names the command and the stream."""
        store.append("w", notes(1), expected=0, claim=Claim("k", "one"))
        with pytest.raises(CommandConflict) as caught:
            store.append("w", notes(1), expected=1, claim=Claim("k", "two"))
        assert (caught.value.command_id, caught.value.stream) == ("k", "w")
        with pytest.raises(CommandConflict):
            store.find_executed_command(Claim("k", "two"))

    def test_same_id_on_another_stream_is_a_conflict(self, store: EventStore) -> None:
        """A command belongs to one stream, so its id cannot be used for another stream."""
        store.append("w", notes(1), expected=0, claim=Claim("k", "one"))
        with pytest.raises(CommandConflict):
            store.append("x", notes(1), expected=0, claim=Claim("k", "one"))

    def test_claim_is_looked_up_before_a_decision(self, store: EventStore) -> None:
        """`claimed` returns None for a new claim, and the first answer for a known one."""
        asked = claim()
        assert store.find_executed_command(asked) is None
        first = store.append("w", notes(2), expected=0, claim=asked)
        known = store.find_executed_command(asked)
        assert known is not None
        assert (known.events, known.repeated) == (first.events, True)

    def test_claim_of_a_command_is_readable(self, store: EventStore) -> None:
        """`claim` returns the recorded claim, which a transfer copies to another log."""
        asked = claim()
        assert store.claim(asked.command_id) is None
        store.append("w", notes(2), expected=0, claim=asked)
        assert store.claim(asked.command_id) == asked

    def test_refused_append_records_no_claim(self, store: EventStore) -> None:
        """After a refusal, the same command succeeds with the correct expected version."""
        store.append("w", notes(2), expected=0, claim=claim())
        asked = claim()
        with pytest.raises(WrongExpectedVersion):
            store.append("w", notes(1), expected=1, claim=asked)
        assert store.find_executed_command(asked) is None
        again = store.append("w", notes(1), expected=2, claim=asked)
        assert (again.repeated, [found.version for found in again.events]) == (False, [3])


class TestCommandsThatAreOneEvent:
    """Commands with a single event that has the command's id, which take effect only once."""

    @pytest.fixture(autouse=True)
    def begun(self, store: EventStore) -> None:
        """Append two one-event commands, so that the store knows the last event."""
        self.first = note()
        for version, new in enumerate([self.first, note()]):
            store.append("w", [new], expected=version, claim=claim_of(new))

    def test_claims_of_one_event_commands_are_listed(self, store: EventStore) -> None:
        """The store lists the claims in order, each with the version of its event."""
        store.append("w", notes(2), expected=2, claim=Claim("other", "d"))
        ids = [event.event_id for event in store.read("w", upto=2)]
        kept = [ExecutedCommand(id_, "w", "content", n, n) for n, id_ in enumerate(ids, 1)]
        assert list(store.commands()) == sorted([*kept, ExecutedCommand("other", "w", "d", 3, 4)])
        assert store.claim(self.first.event_id) == claim_of(self.first)
        known = store.find_executed_command(claim_of(self.first))
        assert known is not None
        assert (known.repeated, [event.version for event in known.events]) == (True, [1])

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_repeated_one_event_command_gets_the_first_answer(
        self, store: EventStore, number: int
    ) -> None:
        """The repetition gets the first answer, even with other events or none."""
        for events in ([self.first], notes(number)):
            again = store.append("w", events, expected=0, claim=claim_of(self.first))
            assert (again.repeated, [event.version for event in again.events]) == (True, [1])
        assert len(list(store.read("w"))) == 2

    def test_other_content_or_stream_is_a_conflict(self, store: EventStore) -> None:
        """A repeated id with another digest or stream is a conflict, whatever its events."""
        for events in ([self.first], notes(2)):
            with pytest.raises(CommandConflict):
                store.append("w", events, expected=2, claim=claim_of(self.first, "other"))
            with pytest.raises(CommandConflict):
                store.append("x", events, expected=0, claim=claim_of(self.first))
        with pytest.raises(CommandConflict):
            store.find_executed_command(claim_of(self.first, "other"))

    def test_command_with_a_separate_claim_is_recognized(self, store: EventStore) -> None:
        """A repetition with an event that has the command's id gets the first answer."""
        for number, known in enumerate((claim(), claim(), claim())):
            first = store.append("x", notes(number), expected=Expected.ANY, claim=known)
            own = [note(event_id=known.command_id)]
            again = store.append("x", own, expected=Expected.ANY, claim=known)
            assert (again.repeated, again.events) == (True, first.events)
        assert list(store.verify()) == []

    def test_event_of_another_command_claims_no_command(self, store: EventStore) -> None:
        """The id of another command's event may be used as a command id."""
        member = note()
        store.append("w", [note(), member], expected=2, claim=claim())
        assert store.find_executed_command(claim_of(member)) is None
        with pytest.raises(EventIdReused):
            store.append("w", [member], expected=4, claim=claim_of(member))
        done = store.append("w", notes(1), expected=4, claim=claim_of(member))
        assert (done.repeated, [event.version for event in done.events]) == (False, [5])

    def test_known_one_event_command_is_not_imported_again(self, store: EventStore) -> None:
        """Importing a log with a command that the target already has raises an error."""
        again = ExecutedCommand(self.first.event_id, "x", "content", 1, 0)
        with pytest.raises(TransferConflict):
            store.import_batch(ImportBatch(commands=[again]))
        assert len(list(store.commands())) == 2
