"""The errors of the pages: each has a number of HTTP."""

from __future__ import annotations

from lifecycle.errors import NoWorkflow, UnknownAmendment, UnknownStage
from service.errors import InvalidOption, NotFound
from service.root.below import OutsideRoot

_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (NoWorkflow, 404),
    (UnknownStage, 404),
    (UnknownAmendment, 404),
    (OutsideRoot, 404),
    (FileNotFoundError, 404),
    (InvalidOption, 400),
)


def status_of(error: Exception) -> int:
    """Return the number with which an error is answered."""
    return next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
