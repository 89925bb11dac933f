"""Base classes of all errors: a stable code, a message for people, and structured data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, dataclass_transform

#: Maximum number of reasons that an error prints and stores.
MAX_REASONS = 20


class FirstReasons(list[str]):
    """A list of the first reasons of a refusal.

    If there are more reasons, the last item states their number.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        found = reasons if isinstance(reasons, list) else list(reasons)
        if isinstance(found, FirstReasons) or len(found) <= MAX_REASONS:
            super().__init__(found)
        else:
            more = f"… and {len(found) - MAX_REASONS:,} more"
            super().__init__([*found[:MAX_REASONS], more])


class CodedError(Exception):
    """An error with a stable ``code``, a ``message`` for people, and values in ``data``.

    The value ``problems`` contains the reasons of a refusal and is shortened by `FirstReasons`.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = {name: _plain(name, value) for name, value in data.items()}


@dataclass_transform()
class TemplatedError(CodedError):
    """An error whose message is built from a template and the values of its attributes.

    The annotated names of the class are its attributes. Their values are passed by position or
    name. All of them are also stored in ``data``, except those named in ``untold``. Paths are
    converted to strings and tuples to lists. The template ``text`` refers to attributes as in
    `str.format`. The format of a list is the separator between its items, for example ``{problems:;
    }``.
    """

    text: ClassVar[str] = ""
    untold: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._names = tuple(dict.fromkeys((*cls._names, *cls.__annotations__)))

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self._names, values, strict=False)) | named
        vars(self).update((name, _plain(name, value)) for name, value in given.items())
        told = {name: getattr(self, name) for name in self._names if name not in self.untold}
        super().__init__(self.text.format_map(_Parts(self)), **told)


class _Parts:
    """The values that a message template can refer to by name."""

    def __init__(self, error: TemplatedError) -> None:
        self._error = error

    def __getitem__(self, name: str) -> Any:
        value = getattr(self._error, name)
        return _Joined(value) if isinstance(value, list) else value


class _Joined(list[Any]):
    def __format__(self, between: str) -> str:
        return between.join(map(str, self)) if between else str(self)


def _plain(name: str, value: Any) -> Any:
    if name == "problems" and isinstance(value, list | tuple):
        return FirstReasons(value)
    if isinstance(value, tuple):
        return list(value)
    return value.__fspath__() if hasattr(value, "__fspath__") else value
