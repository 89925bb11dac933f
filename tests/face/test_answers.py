"""What an answer holds: little, and never more than its bound."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agents.answers import BOUND, answer_of, fitted

TEXTS = st.one_of(st.text(max_size=30), st.integers(1, 9000).map(lambda n: "é" * n))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), TEXTS)
#: Long lists are of short texts: one in another would hold more bytes than any command prints.
MANY = st.tuples(st.text(max_size=30), st.integers(1, 3000)).map(lambda many: [many[0]] * many[1])
VALUES = st.recursive(
    st.one_of(LEAVES, MANY),
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(TEXTS, inner, max_size=8),
    ),
    max_leaves=12,
)


@given(data=VALUES)
def test_no_answer_is_longer_than_its_bound(data: object) -> None:
    """Whatever a command answers; what is cut is counted, what fits is whole."""
    text = fitted({"data": data, "version": 7})
    assert len(text.encode()) <= BOUND
    found = json.loads(text)
    assert found["version"] == 7
    assert found.get("left_out", 0) > 0 or found["data"] == data


def test_an_object_of_many_short_fields_is_cut_too() -> None:
    """Its first fields stay."""
    found = json.loads(fitted({"data": {f"stage-{n}": n for n in range(5000)}}))
    assert found["data"]["stage-0"] == 0
    assert found["left_out"] == 5000 - len(found["data"])


def test_a_command_that_ended_without_an_answer_is_told_as_such() -> None:
    """With the last line that it said."""
    answer = answer_of(-1, "", "one\nit broke\n", writes=False)
    assert answer.is_error
    assert json.loads(answer.text)["error"]["message"].endswith("the command was ended: it broke")
