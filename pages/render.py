"""From values to HTML: all that others wrote is escaped, and what cannot be seen becomes a sign."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.drawing import palette
from projections.exports.markup import environment
from projections.files.progress_log import message


@cache
def _environment() -> Environment:
    loaders = [PackageLoader("pages"), PackageLoader("projections", "exports/templates")]
    made = environment(ChoiceLoader(loaders))
    made.filters.update(segment=lambda text: quote(str(text), ""))
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
