"""The points of a map and ranges of numbers, as pure functions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.sweeps.definition import count_of, numbers_of, text_of
from lifecycle.sweeps.points import points

VALUES = st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True)


@given(st.sets(st.integers(0, 3000)))
def test_ranges_hold_the_numbers_that_they_were_made_of(numbers: set[int]) -> None:
    """And say how many without spelling them out."""
    assert numbers_of(text_of(numbers)) == numbers
    assert count_of(text_of(numbers)) == len(numbers)


@given(st.dictionaries(st.sampled_from(["T", "L", "seed"]), VALUES, min_size=1))
def test_a_point_has_one_key_however_the_names_are_ordered(columns: dict[str, list[int]]) -> None:
    """An amendment may state them in another order, and nothing is computed again for that."""
    turned = dict(reversed(columns.items()))
    keys = {point.key for point in points({"grid": columns})}
    assert keys == {point.key for point in points({"grid": turned})}
    rows = [dict(point.values) for point in points({"grid": columns})]
    assert keys == {point.key for point in points({"points": rows})}


@given(st.integers(-5, 5), st.integers(1, 40), st.sampled_from([0.1, 0.25, 1, 3]))
def test_a_range_has_both_ends_where_the_step_meets_the_last(
    first: int, count: int, step: float
) -> None:
    """In decimal numbers, as they are written."""
    last = round(first + step * count, 6)
    found = [
        p.values["T"] for p in points({"grid": {"T": {"from": first, "to": last, "step": step}}})
    ]
    assert len(found) == count + 1
    assert (found[0], found[-1]) == (first, last)
