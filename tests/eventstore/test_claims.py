"""A command takes effect once, on every engine."""

import pytest

from eventstore.errors import (
    CommandConflict,
    EventIdReused,
    TransferConflict,
    WrongExpectedVersion,
)
from eventstore.store import Cargo, Claim, Claimed, EventStore, Expected
from tests.eventstore.support import claim, claim_of, note, notes


class TestClaims:
    """A command takes effect once."""

    def test_a_repeated_command_gets_the_first_answer(self, store: EventStore) -> None:
        """Even though the stream moved on and the expectation is stale."""
        asked = claim()
        first = store.append("w", notes(2), expected=0, claim=asked)
        store.append("w", notes(1), expected=2, claim=claim())
        again = store.append("w", notes(2), expected=0, claim=asked)
        assert (again.events, again.repeated) == (first.events, True)
        assert len(list(store.read("w"))) == 3

    def test_another_content_under_the_same_id_is_a_conflict(self, store: EventStore) -> None:
        """It is refused by name."""
        store.append("w", notes(1), expected=0, claim=Claim("k", "one"))
        with pytest.raises(CommandConflict) as caught:
            store.append("w", notes(1), expected=1, claim=Claim("k", "two"))
        assert (caught.value.command_id, caught.value.stream) == ("k", "w")
        with pytest.raises(CommandConflict):
            store.claimed(Claim("k", "two"))

    def test_the_same_id_on_another_stream_is_a_conflict(self, store: EventStore) -> None:
        """One command belongs to one stream."""
        store.append("w", notes(1), expected=0, claim=Claim("k", "one"))
        with pytest.raises(CommandConflict):
            store.append("x", notes(1), expected=0, claim=Claim("k", "one"))

    def test_a_claim_can_be_looked_up_before_deciding(self, store: EventStore) -> None:
        """Nothing for a new one, the first answer for a known one."""
        asked = claim()
        assert store.claimed(asked) is None
        first = store.append("w", notes(2), expected=0, claim=asked)
        known = store.claimed(asked)
        assert known is not None
        assert (known.events, known.repeated) == (first.events, True)

    def test_the_claim_of_a_command_can_be_read(self, store: EventStore) -> None:
        """For a hand-over: what was done stays done elsewhere."""
        asked = claim()
        assert store.claim(asked.command_id) is None
        store.append("w", notes(2), expected=0, claim=asked)
        assert store.claim(asked.command_id) == asked

    def test_a_refused_append_claims_nothing(self, store: EventStore) -> None:
        """The same command may come again with what it should have expected."""
        store.append("w", notes(2), expected=0, claim=claim())
        asked = claim()
        with pytest.raises(WrongExpectedVersion):
            store.append("w", notes(1), expected=1, claim=asked)
        assert store.claimed(asked) is None
        again = store.append("w", notes(1), expected=2, claim=asked)
        assert (again.repeated, [found.version for found in again.events]) == (False, [3])


class TestCommandsThatAreOneEvent:
    """A command whose one event bears its id takes effect once, as any other does."""

    @pytest.fixture(autouse=True)
    def begun(self, store: EventStore) -> None:
        """Two such commands, so that the store knows where it goes on."""
        self.first = note()
        for version, new in enumerate([self.first, note()]):
            store.append("w", [new], expected=version, claim=claim_of(new))

    def test_their_claims_are_found(self, store: EventStore) -> None:
        """One by one and in order, with the version of the event."""
        store.append("w", notes(2), expected=2, claim=Claim("other", "d"))
        ids = [event.event_id for event in store.read("w", upto=2)]
        kept = [Claimed(id_, "w", "content", n, n) for n, id_ in enumerate(ids, 1)]
        assert list(store.commands()) == sorted([*kept, Claimed("other", "w", "d", 3, 4)])
        assert store.claim(self.first.event_id) == claim_of(self.first)
        known = store.claimed(claim_of(self.first))
        assert known is not None
        assert (known.repeated, [event.version for event in known.events]) == (True, [1])

    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_a_repeated_one_gets_the_first_answer(self, store: EventStore, number: int) -> None:
        """With its event or with others."""
        for events in ([self.first], notes(number)):
            again = store.append("w", events, expected=0, claim=claim_of(self.first))
            assert (again.repeated, [event.version for event in again.events]) == (True, [1])
        assert len(list(store.read("w"))) == 2

    def test_another_content_or_stream_is_a_conflict(self, store: EventStore) -> None:
        """Whatever events come with it."""
        for events in ([self.first], notes(2)):
            with pytest.raises(CommandConflict):
                store.append("w", events, expected=2, claim=claim_of(self.first, "other"))
            with pytest.raises(CommandConflict):
                store.append("x", events, expected=0, claim=claim_of(self.first))
        with pytest.raises(CommandConflict):
            store.claimed(claim_of(self.first, "other"))

    def test_a_command_that_was_claimed_otherwise_is_known(self, store: EventStore) -> None:
        """An event that bears its id does not make it another."""
        for number, known in enumerate((claim(), claim(), claim())):
            first = store.append("x", notes(number), expected=Expected.ANY, claim=known)
            own = [note(event_id=known.command_id)]
            again = store.append("x", own, expected=Expected.ANY, claim=known)
            assert (again.repeated, again.events) == (True, first.events)
        assert list(store.verify()) == []

    def test_an_event_of_another_command_is_no_command(self, store: EventStore) -> None:
        """Its id cannot be used for one that is its event, but for one that is not."""
        member = note()
        store.append("w", [note(), member], expected=2, claim=claim())
        assert store.claimed(claim_of(member)) is None
        with pytest.raises(EventIdReused):
            store.append("w", [member], expected=4, claim=claim_of(member))
        done = store.append("w", notes(1), expected=4, claim=claim_of(member))
        assert (done.repeated, [event.version for event in done.events]) == (False, [5])

    def test_it_is_not_taken_in_a_second_time(self, store: EventStore) -> None:
        """From another log that knows the command."""
        again = Claimed(self.first.event_id, "x", "content", 1, 0)
        with pytest.raises(TransferConflict):
            store.take_in(Cargo(commands=[again]))
        assert len(list(store.commands())) == 2
