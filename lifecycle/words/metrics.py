"""The metrics of a stage: the place of each number in its output files, and reference values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from lifecycle.words.values import is_base_folder_or_inside

#: Name of the parameter that contains the metrics of a stage.
METRICS = "metrics"
#: Name of the field of a plan that lists its main numbers and files.
RESULTS = "results"
#: Largest integer that is accepted as a metric.
_LARGEST = 10**300
_FIELDS = ("at", "error", "unit", "better", "reference")
_REFERENCE = ("value", "error", "source")
_FILES = (".json", ".csv", ".tsv")


class Metric(NamedTuple):
    """A named number in an output file of a stage or task.

    ``path`` is the file, relative to the folder of the stage or task, and ``pointer`` the place of
    the number in the file. ``error`` is the place of its standard error in the same file.
    ``reference`` is a known value with ``value``, ``error`` and ``source``. ``unit`` and ``better``
    (lower or higher) may be empty.
    """

    name: str
    path: str
    pointer: str
    error: str = ""
    unit: str = ""
    better: str = ""
    reference: Mapping[str, Any] | None = None


def parse_valid_metrics(parameters: Mapping[str, Any]) -> dict[str, Metric]:
    """Return the valid metrics of a stage by name.

    If the parameter ``metrics`` is not an object, it belongs to the command and is ignored here.
    """
    given = parameters.get(METRICS)
    if not isinstance(given, dict):
        return {}
    return {
        name: _build_metric(name, one)
        for name, one in given.items()
        if not [*_find_metric_problems(one)]
    }


def _build_metric(name: str, given: Any) -> Metric:
    """Return the metric that a valid entry of the plan describes."""
    fields = {"at": given} if isinstance(given, str) else given
    path, _, pointer = fields["at"].partition("#")
    reference = fields.get("reference")
    if reference is not None and not isinstance(reference, dict):
        reference = {"value": reference}
    return Metric(
        name,
        path,
        pointer,
        error=fields.get("error", "").partition("#")[2],
        unit=fields.get("unit", ""),
        better=fields.get("better", ""),
        reference=reference,
    )


def metric_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the metrics of a stage."""
    given = parameters.get(METRICS)
    for name, one in given.items() if isinstance(given, dict) else ():
        place = f"parameters.{METRICS}.{name}"
        if not name or not name.isprintable() or set("/#.") & set(name):
            yield f"{place}: expected a name without a slash, dot or number sign"
        yield from (f"{place}{problem}" for problem in _find_metric_problems(one))


def _find_metric_problems(given: Any) -> Iterator[str]:
    """Yield the problems of the definition of one metric."""
    if isinstance(given, str):
        yield from _find_place_problems(given, "")
        return
    if not isinstance(given, dict) or not isinstance(given.get("at"), str):
        yield (
            f': expected a place such as "fit.json#/tc", or an object with one as `at`, '
            f"found {given!r:.60}"
        )
        return
    for name in set(given) - set(_FIELDS):
        yield f".{name}: unknown field; expected {', '.join(_FIELDS)}"
    yield from _find_place_problems(given["at"], ".at")
    yield from _find_error_problems(given)
    unit = given.get("unit", "")
    if not (isinstance(unit, str) and unit.isprintable()):
        yield f".unit: expected text, found {unit!r:.60}"
    if given.get("better", "lower") not in ("lower", "higher"):
        yield f".better: expected lower or higher, found {given['better']!r:.60}"
    if given.get("reference") is not None:
        yield from _find_reference_problems(given["reference"])


def _find_place_problems(place: str, of: str) -> Iterator[str]:
    """Yield a problem unless the text names a file and a place in it, such as ``fit.json#/tc``."""
    path, _, pointer = place.partition("#")
    if not (path.endswith(_FILES) and is_base_folder_or_inside(path) and pointer.startswith("/")):
        yield (
            f"{of}: expected a JSON file and a place in it, such as fit.json#/tc, or a CSV file "
            f"and a column (its last row), such as fit.csv#/tc, found {place!r:.60}"
        )


def _find_error_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem unless ``error`` names a place in the same file as the metric."""
    error = given.get("error")
    if error is None:
        return
    path, sign, pointer = error.partition("#") if isinstance(error, str) else ("", "", "")
    same = path in ("", given["at"].partition("#")[0])
    if not (sign and same and pointer.startswith("/")):
        yield f".error: expected a place in the same file, such as #/error, found {error!r:.60}"


def _find_reference_problems(given: Any) -> Iterator[str]:
    """Yield the problems of the reference value of a metric."""
    fields = given if isinstance(given, dict) else {"value": given}
    for name in set(fields) - set(_REFERENCE):
        yield f".reference.{name}: unknown field; expected {', '.join(_REFERENCE)}"
    for name in ("value", "error"):
        wanted = name == "value" or fields.get(name) is not None
        if wanted and not is_number(fields.get(name)):
            yield f".reference.{name}: expected a number, found {fields.get(name)!r:.60}"
        elif wanted and name == "error" and fields[name] < 0:
            yield f".reference.error: expected 0 or more, found {fields[name]!r:.60}"
    source = fields.get("source", "")
    if not (isinstance(source, str) and source.isprintable()):
        yield f".reference.source: expected text on one line, found {source!r:.60}"


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= _LARGEST if isinstance(value, int) else isfinite(value)


def metric_file_path(stage: str, outputs: Sequence[str], metric: Metric) -> str:
    """Return the file that contains a stage's metric, relative to the root.

    A plan names the file relative to the stage's folder, or exactly like one of the ``outputs``.
    """
    as_named = any(lies_in(metric.path, path) for path in outputs)
    return metric.path if as_named else f"{stage}/{metric.path}"


def is_metric_file_output(stage: str, outputs: Sequence[str], metric: Metric) -> bool:
    """Return whether the file of a metric is an output of the stage, or inside an output folder."""
    path = metric_file_path(stage, outputs, metric)
    return any(lies_in(path, output) for output in outputs)


def lies_in(path: str, output: str) -> bool:
    """Return whether a path is the given output, or inside it if the output is a folder."""
    return path == output or path.startswith(f"{output.rstrip('/')}/")


def parse_result_entries(given: Any) -> list[str]:
    """Return the entries in the field ``results`` of a plan.

    Return an empty list if the field is not a list of strings.
    """
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        return []
    return given


def find_malformed_results(given: Any) -> Iterator[str]:
    """Yield a problem if the field ``results`` of a plan is not a list of strings."""
    if given != [] and not parse_result_entries(given):
        yield f'{RESULTS}: expected a list such as ["stage-2.tc"], found {given!r:.80}'


class ResultTarget(NamedTuple):
    """The metric or the file of a stage that an entry in ``results`` names."""

    text: str
    stage: str
    metric: Metric | None = None
    path: str = ""


def resolve_result(text: str, stages: Iterable[Any]) -> ResultTarget | None:
    """Return the metric or file that an entry in ``results`` names.

    Examples of entries are ``stage-2.tc`` and ``stage-2/fit.svg``. Return None if no stage has such
    a metric or output.
    """
    of, dot, name = text.rpartition(".")
    for stage in stages:
        metric = parse_valid_metrics(stage.parameters).get(name) if dot and stage.id == of else None
        if metric is not None:
            return ResultTarget(text, stage.id, metric)
        if any(lies_in(text, output) for output in stage.outputs):
            return ResultTarget(text, stage.id, path=text)
    return None
