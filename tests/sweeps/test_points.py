"""Build the points of a map, and the keys and number ranges that name them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.sweeps.definition import count_range_numbers, format_ranges, parse_ranges
from lifecycle.sweeps.points import build_points

VALUES = st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True)


@given(st.sets(st.integers(0, 3000)))
def test_ranges_round_trip_preserves_numbers(numbers: set[int]) -> None:
    """Numbers written as ranges are read back unchanged, and their count is right."""
    assert parse_ranges(format_ranges(numbers)) == numbers
    assert count_range_numbers(format_ranges(numbers)) == len(numbers)


@given(st.dictionaries(st.sampled_from(["T", "L", "seed"]), VALUES, min_size=1))
def test_point_key_does_not_depend_on_the_order_of_names(columns: dict[str, list[int]]) -> None:
    """Therefore an amendment that only reorders the names recomputes no task."""
    turned = dict(reversed(columns.items()))
    keys = {point.key for point in build_points({"grid": columns})}
    assert keys == {point.key for point in build_points({"grid": turned})}
    rows = [dict(point.values) for point in build_points({"grid": columns})]
    assert keys == {point.key for point in build_points({"points": rows})}


@given(st.integers(-5, 5), st.integers(1, 40), st.sampled_from([0.1, 0.25, 1, 3]))
def test_range_includes_both_ends(first: int, count: int, step: float) -> None:
    """In decimal arithmetic, the steps of a range lead exactly to its last value."""
    last = round(first + step * count, 6)
    found = [
        p.values["T"]
        for p in build_points({"grid": {"T": {"from": first, "to": last, "step": step}}})
    ]
    assert len(found) == count + 1
    assert (found[0], found[-1]) == (first, last)
