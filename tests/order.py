"""Order the tests of a run so that slow tests start first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import pytest

One = TypeVar("One")


def slow_first(items: Sequence[pytest.Item], workers: int | None = None) -> list[pytest.Item]:
    """Return the tests in an order in which each worker starts with its share of slow tests.

    A worker gets a contiguous part of the list, and takes tests from the end of another part when
    it is done. Therefore the last tests of a run are short.
    """
    number = workers or int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [one for one in items if _takes_long(one)]
    short = [one for one in items if not _takes_long(one)]
    parts = zip(_parts(long, number), _parts(short, number), strict=True)
    return [one for part in parts for some in part for one in some]


def _takes_long(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("slow", "long"))


def _parts(items: Sequence[One], number: int) -> list[Sequence[One]]:
    bounds = [len(items) * part // number for part in range(number + 1)]
    return [items[start:end] for start, end in pairwise(bounds)]
