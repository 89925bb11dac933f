"""Read a plan in JSON, YAML or TOML, and report errors with their line and column."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eventstore.regular_files import NotRegular, read_regular
from lifecycle.errors import InvalidPlan
from service.documents.bounds import LARGEST, describe_exceeded_limit
from service.errors import NotFound, UnreadablePlan


def read_plan(source: str) -> Any:
    """Read and decode a plan file. The name ``-`` means standard input, in JSON or YAML.

    Raises `NotFound` if the file does not exist, `UnreadablePlan` if it cannot be parsed or if
    standard input is empty, and `InvalidPlan` if it contains a value that the log cannot store.
    """
    text = _read_source_text(source)
    if source == "-" and not text.strip():
        why = "the standard input is empty or closed"
        raise UnreadablePlan(source, "JSON or YAML", why, None, None)
    plan = decode(source, text)
    problems = list(_find_unstorable_values(plan, ""))
    if problems:
        raise InvalidPlan(problems)
    return plan


def decode(source: str, text: str) -> Any:
    """Decode a document as TOML, YAML or JSON, depending on the suffix of its file name.

    Without the suffix ``.toml``, ``.yaml`` or ``.yml``, it is JSON. Text from standard input may
    also be YAML. Raises `UnreadablePlan` if the document is invalid, too deep or too large.
    """
    suffix = Path(source).suffix.lower()
    if suffix == ".toml":
        return _toml(source, text)
    if suffix in (".yaml", ".yml") or (source == "-" and not text.lstrip().startswith(("{", "["))):
        return _yaml(source, text)
    return decode_json(source, text)


def _read_source_text(source: str) -> str:
    try:
        if source == "-":
            raw: bytes = sys.stdin.buffer.read(LARGEST + 1)
        elif source.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
            with Path(source).open("rb") as file:
                raw = file.read(LARGEST + 1)
        else:
            raw = read_regular(source, LARGEST)
        if len(raw) > LARGEST:
            why = f"expected at most {LARGEST >> 20} MiB, found more"
            raise UnreadablePlan(source, "plan", why, None, None)
        return raw.decode("utf-8-sig")
    except NotRegular as error:
        raise UnreadablePlan(source, "plan", str(error.strerror), None, None) from error
    except FileNotFoundError:
        raise NotFound(
            f"the plan file {source} does not exist. Name a JSON, YAML or TOML file"
        ) from None
    except IsADirectoryError:
        raise NotFound(f"the plan {source} is a folder. Name a JSON, YAML or TOML file") from None
    except UnicodeDecodeError as error:
        raise UnreadablePlan(source, "UTF-8", f"byte {error.start}", None, None) from error


def decode_json(source: str, text: str) -> Any:
    """Return the value of a JSON document.

    Raises `UnreadablePlan` if the JSON is invalid, or if it contains NaN or duplicate keys.
    """
    try:
        found = json.loads(
            text,
            parse_constant=_reject_json_constant,
            object_pairs_hook=_build_dict_with_unique_keys,
        )
    except json.JSONDecodeError as error:
        raise UnreadablePlan(source, "JSON", error.msg, error.lineno, error.colno) from error
    except (ValueError, RecursionError) as error:
        raise UnreadablePlan(source, "JSON", str(error), None, None) from error
    return _require_within_limits(source, "JSON", found)


def _reject_json_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _build_dict_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return found


def _require_within_limits(source: str, kind: str, value: Any) -> Any:
    why = describe_exceeded_limit(value)
    if why is not None:
        raise UnreadablePlan(source, kind, why, None, None)
    return value


def _toml(source: str, text: str) -> Any:
    try:
        return _convert_times_to_strings(
            _require_within_limits(source, "TOML", tomllib.loads(text))
        )
    except RecursionError as error:
        raise UnreadablePlan(source, "TOML", str(error), None, None) from error
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        lines = text.splitlines() or [""]
        end = len(lines), len(lines[-1]) + 1
        line, column = (int(place[1]), int(place[2])) if place else end
        why = re.sub(r" \(at .*\)$", "", str(error))
        raise UnreadablePlan(source, "TOML", why, line, column) from error


def _yaml(source: str, text: str) -> Any:
    import yaml  # needed only for a YAML plan

    from service.documents.strict_yaml import load

    try:
        return _convert_times_to_strings(_require_within_limits(source, "YAML", load(text)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise UnreadablePlan(source, "YAML", error.problem or "?", line, column) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadablePlan(source, "YAML", str(error), None, None) from error


def _convert_times_to_strings(value: Any) -> Any:
    """Return the value with dates and times converted to ISO 8601 strings."""
    if isinstance(value, dict):
        return {str(key): _convert_times_to_strings(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_convert_times_to_strings(child) for child in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _find_unstorable_values(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _find_unstorable_values(key, f"{place}: a key")
            yield from _find_unstorable_values(child, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_unstorable_values(child, f"{place}[{index}]")
    elif isinstance(value, str) and not value.isprintable():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            yield (
                f"{place}: not valid text: the surrogate at character {error.start} cannot be "
                "stored as UTF-8"
            )
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield (
            f"{place}: the number {value!r:.40} has more than 64 bits; write the number as a string"
        )
