"""What a stage says of its tasks, beside its map: their outputs, limits and numbers. Pure.

A stage with an object as ``parameters.map`` is a sweep: its command is run once for each point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lifecycle.words.mandates import TIME_LIMIT
from lifecycle.words.metrics import METRICS, Metric, metrics_of
from lifecycle.words.values import stays_below

MAP = "map"
#: The folder in a stage's folder that holds a folder for each task that is done.
DONE = "tasks"
#: How the reason of a task begins that was computed and has not passed.
NO_NUMBER = "metrics: "
VERDICTS = ("task_verify: ", NO_NUMBER)
#: The ways to name points, of which a map has one.
WAYS = ("points", "grid", "zip", "file", "like")
#: What is said of all tasks; but for the outputs, an amendment of these alone computes nothing.
OF_SWEEP = ("task_outputs", "task_verify", "task_retries", "tolerate", "at_once", "metrics")
#: Parameters of any stage that change no result: how it is judged, waited for and brought back.
_OF_ANY = frozenset({"verify", "expected_seconds", "bring_back_limit", "carry", TIME_LIMIT})
#: Those that say how it is run: what is under way took them from the definition when it began.
HOW_RUN = frozenset({"at_once", "resource_overrides", TIME_LIMIT})
#: Parameters of a sweep by which each of its tasks is judged.
_JUDGING = ("task_verify", "metrics")
#: Tasks that run at once if nobody says how many.
AT_ONCE = 8
_OPTIONS = frozenset({*WAYS, "sha256", "order", "folders"})
#: Parameters of a stage that mean nothing for one with a map.
_OF_ONE = ("backward_files", "carry")
#: Columns of the table of tasks beside those that no value of a map may be called by.
_USED = ("cpu_seconds", "memory")
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Sweep:
    """What holds for every task of a sweep; ``outputs`` and ``metrics`` are below its folder."""

    outputs: tuple[str, ...]
    verify: str | None
    retries: int
    tolerate: float
    at_once: int
    metrics: Mapping[str, Metric]


def is_sweep(parameters: Mapping[str, Any]) -> bool:
    """Whether a stage's command is run once for each point of a map."""
    return isinstance(parameters.get(MAP), dict)


def sweep_of(parameters: Mapping[str, Any]) -> Sweep:
    """Return what holds for every task of a stage, whose parameters were found usable."""
    return Sweep(
        outputs=tuple(parameters.get("task_outputs") or ()),
        verify=parameters.get("task_verify"),
        retries=parameters.get("task_retries") or 0,
        tolerate=parameters.get("tolerate") or 0.0,
        at_once=parameters.get("at_once") or AT_ONCE,
        metrics=metrics_of(parameters),
    )


def own_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that every task sees: all but what steers the sweep."""
    if not is_sweep(parameters):
        return dict(parameters)
    return {k: v for k, v in parameters.items() if k != MAP and k not in OF_SWEEP}


def without_result(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters by which no result of a stage changes; all others are computed from.

    What an amendment is said to bring about and what it brings about both come from here.
    """
    if not is_sweep(parameters):
        return _OF_ANY | {METRICS} if metrics_of(parameters) else _OF_ANY
    return _OF_ANY | {"resource_overrides", *OF_SWEEP} - {"task_outputs"}


def basis_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task's result rests on, its point and the inputs aside."""
    aside = {MAP} | without_result(parameters)
    return {name: value for name, value in parameters.items() if name not in aside}


def basis_before(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `basis_of` returned while a task rested on its verify command as well."""
    aside = {MAP, "verify", "expected_seconds", "resource_overrides", *OF_SWEEP}
    aside -= {"task_outputs", "task_verify"}
    return {name: value for name, value in parameters.items() if name not in aside}


def verdict_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each task of a sweep is judged by, once it was computed."""
    return {name: parameters[name] for name in _JUDGING if parameters.get(name)}


def table_of(stage: str) -> tuple[str, str]:
    """Return the table of a sweep's tasks, as CSV and as JSON, relative to the root."""
    return f"{stage}/tasks.csv", f"{stage}/tasks.json"


def problems(stage: str, parameters: Mapping[str, Any], outputs: list[str]) -> Iterator[str]:
    """Say what is wrong with the map of a stage and what stands with it; nothing without a map."""
    if not is_sweep(parameters):
        return
    given = parameters[MAP]
    wrong = [*_of_map(given)]
    yield from wrong
    yield from _of_points(given, parameters) if not wrong else ()
    yield from _of_tasks(parameters)
    if not parameters.get("command"):
        yield "parameters.map: expected a command beside it, which is run for each point"
    for name in _OF_ONE:
        if parameters.get(name) is not None:
            yield f"parameters.{name}: it has no meaning beside a map; leave it out"
    tables = table_of(stage)
    if not outputs or not set(outputs) <= set(tables):
        yield (
            f"outputs: expected {tables[0]} or {tables[1]}, the table of all tasks; what one task "
            "leaves belongs into parameters.task_outputs"
        )


def _of_map(given: Mapping[str, Any]) -> Iterator[str]:
    ways = [way for way in WAYS if way in given]
    if len(ways) != 1:
        found = ", ".join(ways) or "none"
        yield f"parameters.map: expected one of {', '.join(WAYS)}, found {found}"
    for name in set(given) - _OPTIONS:
        yield f"parameters.map.{name}: unknown field; expected {', '.join(sorted(_OPTIONS))}"
    if given.get("folders", "named") not in ("named", "digest"):
        yield f"parameters.map.folders: expected named or digest, found {given['folders']!r}"
    if "like" in given and "folders" in given:
        yield "parameters.map.folders: the folders are called as those of the stage in like"
    for name in ("file", "like", "order"):
        if name in given and not (isinstance(given[name], str) and given[name]):
            yield f"parameters.map.{name}: expected text, found {given[name]!r:.60}"
    yield from _of_file(given)


def _of_file(given: Mapping[str, Any]) -> Iterator[str]:
    digest, path = given.get("sha256"), given.get("file")
    if "file" not in given:
        if digest is not None:
            yield "parameters.map.sha256: it has no meaning without file"
        return
    if isinstance(path, str) and not path.endswith((".csv", ".jsonl")):
        yield f"parameters.map.file: expected a name that ends with .csv or .jsonl, found {path}"
    if isinstance(path, str) and not stays_below(path):
        yield f"parameters.map.file: expected a path below the root, found {path}"
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - _HEX:
        yield (
            "parameters.map.sha256: expected the digest of the file, 64 hexadecimal digits, as "
            f"`sha256sum {path}` prints it"
        )


def _of_points(given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[str]:
    if "file" in given or "like" in given:
        return
    from lifecycle.sweeps.points import UnusableMap, points  # only where a definition is written

    try:
        found = points(given)
    except UnusableMap as error:
        yield f"parameters.map: {error}"
        return
    names = columns_of(parameters)
    for name in found[0].values:
        if name in parameters:
            yield f"parameters.{name}: the map gives {name} to each task; expected it in one place"
        if name in names:
            yield f"parameters.metrics: {name} is a value of the map; choose another name"


def _of_tasks(parameters: Mapping[str, Any]) -> Iterator[str]:
    outputs = parameters.get("task_outputs")
    if outputs is not None and not (
        isinstance(outputs, list)
        and all(isinstance(path, str) and path and stays_below(path) for path in outputs)
    ):
        yield f"parameters.task_outputs: expected paths in a task's folder, found {outputs!r:.80}"
    verify = parameters.get("task_verify")
    if verify is not None and not (isinstance(verify, str) and verify.strip()):
        yield f"parameters.task_verify: expected a command, found {verify!r:.60}"
    yield from _whole(parameters, "task_retries", 0, 10)
    yield from _whole(parameters, "at_once", 1, 1000)
    share = parameters.get("tolerate")
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    if share is not None and not (is_number and 0 <= share < 1):
        yield f"parameters.tolerate: expected a share from 0 to below 1, found {share!r:.60}"
    metrics = parameters.get(METRICS)
    if metrics is not None and not isinstance(metrics, dict):
        yield f"parameters.metrics: expected an object of names and places, found {metrics!r:.60}"
    from lifecycle.sweeps.points import COLUMNS  # only where a definition is written

    names = Counter([*COLUMNS, *_USED, *columns_of(parameters)])
    for name in (name for name, count in names.items() if count > 1):
        yield (
            f"parameters.metrics: {name} would be two columns of the table of tasks; choose "
            "another name"
        )


def columns_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the columns of the table of tasks that numbers and their errors have."""
    metrics = metrics_of(parameters)
    return [*metrics, *(f"{name}_error" for name, metric in metrics.items() if metric.error)]


def _whole(parameters: Mapping[str, Any], name: str, least: int, most: int) -> Iterator[str]:
    value = parameters.get(name)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and least <= value <= most):
        yield f"parameters.{name}: expected a whole number from {least} to {most}, found {value!r}"


def text_of(numbers: Iterable[int]) -> str:
    """Return numbers, in any order, as ranges."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def numbers_of(text: str) -> set[int]:
    """Return the numbers of ranges."""
    return {number for a, b in _pairs(text) for number in range(a, b + 1)}


def count_of(text: str) -> int:
    """Return how many numbers ranges hold, without spelling them out."""
    return sum(b - a + 1 for a, b in _pairs(text))


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        yield int(first), int(last or first)
