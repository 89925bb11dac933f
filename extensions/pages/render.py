"""Parse requests of web pages, and render HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from eventstore.event import RecordedEvent
from extensions.exports.markup import build_environment
from lifecycle.state.workflow import Workflow
from projections.drawing import svg
from projections.files.progress_log import format_line_without_time
from projections.words.stage_progress import describe_stage_progress, list_bar_parts
from service.errors import InvalidOption, NotFound


@cache
def _build_environment() -> Environment:
    loaders = [PackageLoader("extensions.pages"), PackageLoader("extensions.exports")]
    made = build_environment(ChoiceLoader(loaders))
    made.filters.update(segment=lambda text: quote(str(text), ""))
    made.filters.update(query=lambda values: urlencode({k: v for k, v in values.items() if v}))
    made.filters.update(progress=describe_stage_progress, bar_parts=list_bar_parts)
    made.globals["sentence"] = describe_event
    return made


def render_page(template: str, **values: Any) -> bytes:
    """Return the HTML page that a template produces, as UTF-8."""
    text = _build_environment().get_template(template).render(**values)
    return text.encode("utf-8", "replace")


@cache
def render_style() -> bytes:
    """Return the CSS style sheet of all pages."""
    colors = Markup(svg.format_color_variables(":root"))
    return render_page("pages.css.j2", colors=colors)


def describe_event(event: RecordedEvent, state: Workflow) -> str:
    """Return a sentence that describes an event. ``state`` may be a later state."""
    data = event.data
    aside = next((one for one in state.set_aside if one["version"] == event.version), None)
    if aside is not None:
        return f"{event.type}: this event is ignored, {aside['why']}"
    if event.type == "session.ended":
        return f"Session ended. Next: {data.get('next') or data.get('reason')}"
    if event.type == "cost.charged":
        return f"{data.get('stage')}: cost {data.get('weight')} ({data.get('work_class')})"
    stage = data.get("stage")
    if stage is not None and stage not in state.stages:
        return event.type
    return format_line_without_time(event, state) or event.type


#: Maximum number of characters of a requested address.
_LONGEST = 8000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a requested path, and its query parameters.

    If a parameter is repeated, its last value is used.
    """

    path: str
    parts: tuple[str, ...]
    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a query parameter, or None if it is missing or empty."""
        return self.values.get(name, "").strip() or None

    def number(self, name: str) -> int | None:
        """Return a query parameter as a whole number, or None if it is missing.

        Raises `InvalidOption` if the value is not a number of at least 0.
        """
        text = self.text(name)
        if text is None:
            return None
        if not (text.isdecimal() and text.isascii() and len(text) < 16):
            raise InvalidOption(f"{name}: expected a whole number, found {text!r:.80}")
        return int(text)


def parse_request(target: str) -> PageRequest:
    """Return the path and the query parameters of a requested address.

    Raises `NotFound` or `InvalidOption` if the address is not valid.
    """
    if len(target) > _LONGEST or not target.startswith("/"):
        raise NotFound("expected the path of a page")
    split = urlsplit(target)
    try:
        values = parse_qs(split.query, errors="strict", max_num_fields=40)
        parts = tuple(unquote(part, errors="strict") for part in split.path.split("/")[1:])
    except ValueError as error:
        raise InvalidOption(
            f"the address of the page is not valid UTF-8 ({error}). Open the page through the "
            "list of workflows"
        ) from error
    return PageRequest(split.path, parts, {name: found[-1] for name, found in values.items()})
