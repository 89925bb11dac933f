"""Between envelopes and stored text: what is lifted, what is refused."""

from datetime import UTC, date, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.chain import Schema, canonical
from eventstore.errors import (
    DamagedEvent,
    InvalidData,
    MissingUpcaster,
    NewerEventSchema,
    UnknownStoredType,
)


def stored(type_: str, schema_version: int, **data: Any) -> bytes:
    """The text of an event in stream w at version 7."""
    body = {
        "type": type_,
        "schema_version": schema_version,
        "stream": "w",
        "version": 7,
        "data": data,
    }
    return canonical(body)


def renamed(data: dict[str, Any]) -> dict[str, Any]:
    """From version one to two: the stage has its name under another key."""
    return {"stage": data["name"]}


def counted(data: dict[str, Any]) -> dict[str, Any]:
    """From version two to three: attempts are counted."""
    return data | {"attempts": 0}


LIFTING = Schema({"moved": 3}, {("moved", 1): renamed, ("moved", 2): counted})


@pytest.mark.parametrize(
    ("version", "data"),
    [(1, {"name": "s"}), (2, {"stage": "s"}), (3, {"stage": "s", "attempts": 0})],
)
def test_old_versions_are_lifted_step_by_step(version: int, data: dict[str, Any]) -> None:
    """All come out as the current one."""
    event = LIFTING.decode(1, "h", stored("moved", version, **data))
    assert (event.schema_version, event.data) == (3, {"stage": "s", "attempts": 0})


def test_a_gap_in_the_steps_names_type_version_and_place() -> None:
    """Nothing is guessed."""
    gappy = Schema({"moved": 3}, {("moved", 1): renamed})
    with pytest.raises(MissingUpcaster, match="w version 7") as caught:
        gappy.decode(1, "h", stored("moved", 1, name="s"))
    assert (caught.value.type, caught.value.found, caught.value.known) == ("moved", 2, 3)


def test_a_newer_version_asks_for_a_newer_program() -> None:
    """The error says both versions."""
    with pytest.raises(NewerEventSchema, match="update wfctl") as caught:
        LIFTING.decode(1, "h", stored("moved", 4))
    assert (caught.value.found, caught.value.known) == (4, 3)


def test_an_unknown_type_is_named() -> None:
    """With its place in the log."""
    with pytest.raises(UnknownStoredType, match=r"w version 7.*'sung'"):
        LIFTING.decode(1, "h", stored("sung", 1))


@pytest.mark.parametrize("text", [b"no", b"[]", b"{}", b'{"type":"moved"}', b'"x"'])
def test_a_text_that_is_no_event_is_damaged(text: bytes) -> None:
    """The position is in the error."""
    with pytest.raises(DamagedEvent) as caught:
        LIFTING.decode(12, "h", text)
    assert caught.value.position == 12


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), object()])
def test_what_is_no_json_is_refused(value: object) -> None:
    """Dates too: their text would come back as another type."""
    with pytest.raises(InvalidData):
        canonical({"x": value})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcé€"), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_comes_back_as_it_was_and_canonical_again(value: Any) -> None:
    """Encoding what was decoded gives the same bytes."""
    text = canonical(value)
    assert orjson.loads(text) == value
    assert canonical(orjson.loads(text)) == text
