"""From values to HTML: all that others wrote is escaped, and what cannot be seen becomes a sign."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.drawing import palette
from projections.files.progress_log import message
from projections.words import amendments as amendment_words
from projections.words.signs import marked
from projections.words.times import utc_seconds


@cache
def _environment() -> Environment:
    made = Environment(
        loader=ChoiceLoader(
            [PackageLoader("pages"), PackageLoader("projections", "exports/templates")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(seconds=utc_seconds, words=words, pretty=pretty, flat=flat)
    made.filters.update(changes=amendment_words.changes, segment=lambda text: quote(str(text), ""))
    made.filters.update(query=lambda values: urlencode({k: v for k, v in values.items() if v}))
    made.globals["sentence"] = sentence
    return made


def page(template: str, **values: Any) -> bytes:
    """Return a page as UTF-8."""
    text = _environment().get_template(template).render(**values)
    return text.encode("utf-8", "replace")


@cache
def style() -> bytes:
    """Return the one style sheet."""
    colors = Markup(palette.variables(":root"))
    return page("pages.css.j2", colors=colors)


def shown(value: Any) -> Any:
    """Return what a page shows: letters that steer or cannot be seen as signs, lines as they are.

    Markup of ours stays as it is.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if value.isprintable() and value.isascii():
        return value
    lines = value.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(map(marked, lines))


def words(value: str) -> str:
    """Return a name of ours as words."""
    return value.replace("_", " ").replace("post processing", "post-processing")


def flat(value: Any) -> str:
    """Return a value on a line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def sentence(event: RecordedEvent, state: Workflow) -> str:
    """Return what an event says, by itself: ``state`` may be a later one."""
    data = event.data
    aside = next((one for one in state.set_aside if one["version"] == event.version), None)
    if aside is not None:
        return f"{event.type}: counts for nothing, {aside['why']}"
    if event.type == "session.ended":
        return f"Session ended. Next: {data.get('next') or data.get('reason')}"
    if event.type == "cost.charged":
        return f"{data.get('stage')}: cost {data.get('weight')} ({data.get('work_class')})"
    stage = data.get("stage")
    if stage is not None and stage not in state.stages:
        return event.type
    return message(event, state) or event.type
