"""From values to HTML: all that others wrote is escaped, and what cannot be seen becomes a sign."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from projections.words import amendments as amendment_words
from projections.words.text import in_lines, utc_seconds


def environment(loader: BaseLoader) -> Environment:
    """Return what templates are filled in with, here and in the pages."""
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(seconds=utc_seconds, words=words, pretty=pretty, flat=flat)
    made.filters.update(changes=amendment_words.changes)
    return made


def shown(value: Any) -> Any:
    """Return what a page shows: letters that steer or cannot be seen as signs, lines as they are.

    Markup of ours stays as it is.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return in_lines(value)


def words(value: str) -> str:
    """Return a name of ours as words."""
    return value.replace("_", " ").replace("post processing", "post-processing")


def flat(value: Any) -> str:
    """Return a value on a line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)
