"""The fold (which computes the state from events) does not change its input.

A change of its results needs a new version of the fold.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from lifecycle.fold.evolve import REDUCER, evolve
from tests.golden.events_on_file import OnFile
from tests.golden.fold_on_file import CREATED, OnDisk, digests, fact, in_order, is_told, kept, rich

EVERY = [example for example in in_order() if example.type != CREATED]
HOW = "raise REDUCER in lifecycle/fold/evolve.py, then python -m tests.golden.fold_on_file"


def ids(example: OnFile) -> str:
    """Return the file name of an example as the name of its test."""
    return example.path.stem


@pytest.mark.parametrize("example", EVERY, ids=ids)
def test_fold_does_not_change_the_previous_state(example: OnFile) -> None:
    """Folding an event leaves the earlier state unchanged."""
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
def test_state_shares_no_objects_with_event_data(example: OnFile) -> None:
    """A change of the state does not change the event from which it was computed."""
    before = rich()
    one = fact(example, before.head + 1)
    data = deepcopy(one.data)
    after = evolve(before, [one], {one.hash})
    for later in EVERY:
        assert after is not None
        more = fact(later, after.head + 1)
        after = evolve(after, [more], {more.hash})
    assert one.data == data


def test_nearly_all_examples_are_accepted_by_the_fold() -> None:
    """The fold accepts nearly all examples, so the other tests check something."""
    assert len(rich().set_aside) <= 5


def test_fold_change_requires_a_new_version() -> None:
    """If the fold gives another state, its version must be new."""
    now = OnDisk(reducer=REDUCER, states=digests())
    assert is_told(kept(), now), HOW
    assert kept() == now, "write them anew: python -m tests.golden.fold_on_file"
