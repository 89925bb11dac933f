"""JSON and JSON lines, read as a stream of tokens, whatever their size."""

from __future__ import annotations

from decimal import Decimal
from typing import BinaryIO

import ijson

from reconciler.verification.outputs.reading import FileReading

#: The largest finite number of a double (IEEE 754); beyond it a reader finds an infinity.
_LARGEST = Decimal("1.7976931348623157e308")


def read(stream: BinaryIO, *, lines: bool = False) -> FileReading:
    """Read one document, or with ``lines`` any number of them, by RFC 8259: NaN is no JSON."""
    kind = "JSON lines" if lines else "JSON"
    values, not_finite = 0, None
    try:
        for event, value in ijson.basic_parse(stream, multiple_values=lines):
            values += event in ("number", "string", "boolean", "null")
            if event == "number" and abs(value) > _LARGEST and not_finite is None:
                not_finite = f"{value} is beyond what a double can hold"
    except (ijson.JSONError, UnicodeDecodeError) as error:
        return FileReading(kind, problem=_in_words(error), not_finite=not_finite)
    return FileReading(kind, f"{values} values", not_finite=not_finite, has_numbers=True)


def _in_words(error: Exception) -> str:
    """Return the parser's message in one line, without the arrow that it draws."""
    text = " ".join(str(error).split("(right here)")[0].split())
    hint = "; JSON knows no NaN or Infinity" if "NaN" in text or "Infinity" in text else ""
    return f"{text[:200]}{hint}"
