"""The fold leaves what it was given alone, and a change of what it does is told by its version."""

from __future__ import annotations

from copy import deepcopy

import pytest

from lifecycle.fold.evolve import REDUCER, evolve
from tests.golden.events_on_file import OnFile
from tests.golden.fold_on_file import CREATED, OnDisk, digests, fact, in_order, is_told, kept, rich

EVERY = [example for example in in_order() if example.type != CREATED]
HOW = "raise REDUCER in lifecycle/fold/evolve.py, then python -m tests.golden.fold_on_file"


def ids(example: OnFile) -> str:
    """Return the name of an example's file."""
    return example.path.stem


@pytest.mark.parametrize("example", EVERY, ids=ids)
def test_an_event_leaves_the_state_it_was_folded_into_as_it_was(example: OnFile) -> None:
    """What follows changes the new state alone: no list or object is shared between the two."""
    before = rich()
    untouched = deepcopy(before)
    one = fact(example, before.head + 1)
    after = evolve(before, [one], {one.hash})
    for later in EVERY:
        assert after is not None
        more = fact(later, after.head + 1)
        after = evolve(after, [more], {more.hash})
        assert before == untouched, f"{later.type} reaches the state before {example.type}"


@pytest.mark.parametrize("example", EVERY, ids=ids)
def test_the_state_shares_nothing_with_the_data_of_an_event(example: OnFile) -> None:
    """Anyone who keeps the event, a reader or a cache, finds it as it was read."""
    before = rich()
    one = fact(example, before.head + 1)
    data = deepcopy(one.data)
    after = evolve(before, [one], {one.hash})
    for later in EVERY:
        assert after is not None
        more = fact(later, after.head + 1)
        after = evolve(after, [more], {more.hash})
    assert one.data == data


def test_the_life_of_the_examples_is_folded_almost_whole() -> None:
    """Else the tests above would look at nothing."""
    assert len(rich().set_aside) <= 5


def test_what_the_fold_does_has_not_changed_under_its_version() -> None:
    """A stored state of the fold before would be taken for one of the fold of today."""
    now = OnDisk(reducer=REDUCER, states=digests())
    assert is_told(kept(), now), HOW
    assert kept() == now, "write them anew: python -m tests.golden.fold_on_file"
