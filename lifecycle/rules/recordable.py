"""What is recorded can be read again: no event is planned that whoever folds would set aside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lifecycle.errors import InvalidPayload
from lifecycle.fold.foldable import State
from lifecycle.payload.shape import misfit
from lifecycle.words.bounds import too_much

if TYPE_CHECKING:
    from lifecycle.payload.base import Payload


def require_recordable(planned: Iterable[Payload], before: State | None, after: State) -> None:
    """Raise `InvalidPayload` for an event that would count for nothing, or that is too large.

    ``before`` and ``after`` are the states around the planned events.
    """
    for payload in planned:
        data = payload.as_json()
        why = misfit(payload.type, data) or too_much(payload.type, data)
        if why is not None:
            raise InvalidPayload(payload.type, [why])
    known = len(before.set_aside) if before is not None else 0
    for one in after.set_aside[known:]:
        raise InvalidPayload(one["type"], [one["why"]])
