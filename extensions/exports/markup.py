"""Convert values to safe HTML.

Text from outside wfctl is escaped, and invisible characters are made visible.
"""

from __future__ import annotations

import json
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from projections.words import amendments as amendment_words
from projections.words.text import (
    describe_waiting_reason,
    mark_invisible_in_each_line,
    name_approver,
    truncate_utc_to_seconds,
)


def build_environment(loader: BaseLoader) -> Environment:
    """Return the Jinja environment for the templates of exports and web pages."""
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=reveal_control_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        seconds=truncate_utc_to_seconds,
        words=split_identifier,
        pretty=format_pretty,
        flat=format_flat,
    )
    made.filters.update(changes=amendment_words.format_changes, waiting=describe_waiting_reason)
    made.filters.update(approver=name_approver)
    return made


def reveal_control_characters(value: Any) -> Any:
    """Return a value for an HTML page, with invisible and control characters made visible.

    Markup that wfctl generated stays unchanged.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return mark_invisible_in_each_line(value)


def split_identifier(value: str) -> str:
    """Return an identifier as words separated by spaces."""
    return value.replace("_", " ").replace("post processing", "post-processing")


def format_flat(value: Any) -> str:
    """Return a value on one line. Strings stay unchanged, and other values become JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def format_pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)
