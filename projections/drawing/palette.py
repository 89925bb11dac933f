"""The colours of the pictures and of the report, for light and dark.

Every text colour has a contrast of 4.5 or more on every ground that it is used on (WCAG 2.2,
1.4.3); a test computes it from what a browser rendered.
"""

from __future__ import annotations

_LIGHT = {
    "ground": "#f6f8fa",
    "card": "#ffffff",
    "ink": "#1f2328",
    "soft": "#57606a",
    "line": "#d0d7de",
    "edge": "#818b98",
    "completed": "#116329",
    "running": "#0550ae",
    "preparing": "#0550ae",
    "post_processing": "#6639ba",
    "ready": "#0a6b74",
    "failed": "#a40e26",
    "invalidated": "#7d4e00",
    "pending": "#57606a",
    "skipped": "#57606a",
    "queue": "#8c959f",
    "person": "#bf8700",
}
_DARK = {
    "ground": "#0d1117",
    "card": "#161b22",
    "ink": "#e6edf3",
    "soft": "#9ea7b3",
    "line": "#30363d",
    "edge": "#6e7681",
    "completed": "#56d364",
    "running": "#79c0ff",
    "preparing": "#79c0ff",
    "post_processing": "#d2a8ff",
    "ready": "#56d4dd",
    "failed": "#ffa198",
    "invalidated": "#e3b341",
    "pending": "#9ea7b3",
    "skipped": "#9ea7b3",
    "queue": "#6e7681",
    "person": "#d29922",
}


def variables(selector: str) -> str:
    """Return CSS that gives ``selector`` the colours as ``--name``; paper is always light."""
    light, dark = _declared(_LIGHT), _declared(_DARK)
    return (
        f"{selector}{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    )


def light(name: str) -> str:
    """Return the colour for what knows no other theme, as ``#rrggbb``."""
    return _LIGHT[name]


def _declared(colors: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colors.items())
