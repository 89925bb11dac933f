"""Conversion between events and stored text: old versions are upgraded, invalid data is refused."""

from datetime import UTC, date, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.chain import canonical_json
from eventstore.errors import (
    DamagedEvent,
    InvalidData,
    MissingUpcaster,
    NewerEventSchema,
    UnknownStoredType,
)
from eventstore.schema import Schema


def stored(type_: str, schema_version: int, **data: Any) -> bytes:
    """Return the stored text of an event in stream w at version 7."""
    body = {
        "type": type_,
        "schema_version": schema_version,
        "stream": "w",
        "version": 7,
        "data": data,
    }
    return canonical_json(body)


def renamed(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade data from version one to two, which renames the key of the stage."""
    return {"stage": data["name"]}


def counted(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade data from version two to three, which adds the number of attempts."""
    return data | {"attempts": 0}


LIFTING = Schema({"moved": 3}, {("moved", 1): renamed, ("moved", 2): counted})


@pytest.mark.parametrize(
    ("version", "data"),
    [(1, {"name": "s"}), (2, {"stage": "s"}), (3, {"stage": "s", "attempts": 0})],
)
def test_old_versions_are_upgraded_step_by_step(version: int, data: dict[str, Any]) -> None:
    """Every stored version results in an event of the current version."""
    event = LIFTING.decode(1, "h", stored("moved", version, **data))
    assert (event.schema_version, event.data) == (3, {"stage": "s", "attempts": 0})


def test_missing_upgrade_step_is_reported() -> None:
    """If an upgrade step is missing, the error names type, version and position."""
    gappy = Schema({"moved": 3}, {("moved", 1): renamed})
    with pytest.raises(MissingUpcaster, match="w version 7") as caught:
        gappy.decode(1, "h", stored("moved", 1, name="s"))
    assert (caught.value.type, caught.value.found, caught.value.known) == ("moved", 2, 3)


def test_newer_version_asks_for_a_newer_program() -> None:
    """For an event of a newer version, the error states the stored and the known version."""
    with pytest.raises(NewerEventSchema, match="update wfctl") as caught:
        LIFTING.decode(1, "h", stored("moved", 4))
    assert (caught.value.found, caught.value.known) == (4, 3)


def test_unknown_event_type_is_reported() -> None:
    """The error names the type and the position in the log."""
    with pytest.raises(UnknownStoredType, match=r"w version 7.*'sung'"):
        LIFTING.decode(1, "h", stored("sung", 1))


@pytest.mark.parametrize("text", [b"no", b"[]", b"{}", b'{"type":"moved"}', b'"x"'])
def test_text_that_is_not_an_event_is_damaged(text: bytes) -> None:
    """The error of unreadable stored text states its position in the log."""
    with pytest.raises(DamagedEvent) as caught:
        LIFTING.decode(12, "h", text)
    assert caught.value.position == 12


@pytest.mark.parametrize("value", [datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), object()])
def test_value_that_is_not_json_is_refused(value: object) -> None:
    """Dates are refused too, because a stored date would come back as a string."""
    with pytest.raises(InvalidData):
        canonical_json({"x": value})


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
def test_json_round_trip_preserves_values(value: Any) -> None:
    """Encoding a decoded text gives the same bytes."""
    text = canonical_json(value)
    assert orjson.loads(text) == value
    assert canonical_json(orjson.loads(text)) == text
