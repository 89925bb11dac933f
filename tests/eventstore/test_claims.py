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
    """A command takes effect once."""

    def test_repeated_command_gets_the_first_answer(self, store: EventStore) -> None:
        """The expected version does not matter, because the claim is checked first."""
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
        """A command belongs to one stream."""
        store.append("w", notes(1), expected=0, claim=Claim("k", "one"))
        with pytest.raises(CommandConflict):
            store.append("x", notes(1), expected=0, claim=Claim("k", "one"))

    def test_claim_is_looked_up_before_a_decision(self, store: EventStore) -> None:
        """The lookup returns None for a new claim and the first answer for a known one."""
        asked = claim()
        assert store.find_executed_command(asked) is None
        first = store.append("w", notes(2), expected=0, claim=asked)
        known = store.find_executed_command(asked)
        assert known is not None
        assert (known.events, known.repeated) == (first.events, True)

    def test_claim_of_a_command_is_readable(self, store: EventStore) -> None:
        """A transfer needs the claims, so that a command is not repeated in the new log."""
        asked = claim()
        assert store.claim(asked.command_id) is None
        store.append("w", notes(2), expected=0, claim=asked)
        assert store.claim(asked.command_id) == asked

    def test_refused_append_records_no_claim(self, store: EventStore) -> None:
        """The same command can be repeated with the correct expected version."""
        store.append("w", notes(2), expected=0, claim=claim())
        asked = claim()
        with pytest.raises(WrongExpectedVersion):
            store.append("w", notes(1), expected=1, claim=asked)
        assert store.find_executed_command(asked) is None
        again = store.append("w", notes(1), expected=2, claim=asked)
        assert (again.repeated, [found.version for found in again.events]) == (False, [3])


class TestCommandsThatAreOneEvent:
    """A command whose only event has the id of the command takes effect once, as any other."""

    @pytest.fixture(autouse=True)
    def begun(self, store: EventStore) -> None:
        """Append two such commands, so that the store knows the head."""
        self.first = note()
        for version, new in enumerate([self.first, note()]):
            store.append("w", [new], expected=version, claim=claim_of(new))

    def test_claims_of_one_event_commands_are_listed(self, store: EventStore) -> None:
        """The claims are in order and state the version of the event."""
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
        """The repetition may have the same event, other events, or none."""
        for events in ([self.first], notes(number)):
            again = store.append("w", events, expected=0, claim=claim_of(self.first))
            assert (again.repeated, [event.version for event in again.events]) == (True, [1])
        assert len(list(store.read("w"))) == 2

    def test_other_content_or_stream_is_a_conflict(self, store: EventStore) -> None:
        """The conflict does not depend on the events of the command."""
        for events in ([self.first], notes(2)):
            with pytest.raises(CommandConflict):
                store.append("w", events, expected=2, claim=claim_of(self.first, "other"))
            with pytest.raises(CommandConflict):
                store.append("x", events, expected=0, claim=claim_of(self.first))
        with pytest.raises(CommandConflict):
            store.find_executed_command(claim_of(self.first, "other"))

    def test_command_with_a_separate_claim_is_recognized(self, store: EventStore) -> None:
        """An event with the command's id does not turn it into another command."""
        for number, known in enumerate((claim(), claim(), claim())):
            first = store.append("x", notes(number), expected=Expected.ANY, claim=known)
            own = [note(event_id=known.command_id)]
            again = store.append("x", own, expected=Expected.ANY, claim=known)
            assert (again.repeated, again.events) == (True, first.events)
        assert list(store.verify()) == []

    def test_event_of_another_command_claims_no_command(self, store: EventStore) -> None:
        """The event id is free as a command id, unless the command reuses it as an event id."""
        member = note()
        store.append("w", [note(), member], expected=2, claim=claim())
        assert store.find_executed_command(claim_of(member)) is None
        with pytest.raises(EventIdReused):
            store.append("w", [member], expected=4, claim=claim_of(member))
        done = store.append("w", notes(1), expected=4, claim=claim_of(member))
        assert (done.repeated, [event.version for event in done.events]) == (False, [5])

    def test_known_one_event_command_is_not_imported_again(self, store: EventStore) -> None:
        """The import of another log with the same command raises an error."""
        again = ExecutedCommand(self.first.event_id, "x", "content", 1, 0)
        with pytest.raises(TransferConflict):
            store.import_batch(ImportBatch(commands=[again]))
        assert len(list(store.commands())) == 2
