"""Cells of CSV tables: harmless to the spreadsheet that opens them."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?", re.ASCII)
#: How a formula begins, also where the letter is a full-width or a small one.
_FORMULA = "=+-@\N{MINUS SIGN}"


def shown(value: Any) -> str:
    """Return a value for a cell: nothing for null, text as it is, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def inert(text: str) -> str:
    """Return the text led by an apostrophe where a spreadsheet might take it for a formula.

    One that begins with a line end or a tab is split or trimmed first, whatever comes behind it.
    """
    if not text or _NUMBER.fullmatch(text):
        return text
    start = next((letter for letter in text if not _is_passed_over(letter)), "")
    is_formula = unicodedata.normalize("NFKC", start)[:1] in _FORMULA if start else False
    return f"'{text}" if is_formula or text[0] in "\t\r\n" else text


def _is_passed_over(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "ZC"
