"""Check the definition of a sweep: its points, and the outputs and limits of its tasks.

A stage with an object as ``parameters.map`` is a sweep: its command runs once for each point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from lifecycle.sweeps.replicates import (
    REPLICATE,
    REPLICATES,
    SEED,
    count_replicates,
    find_replicates_problem,
    replicate_points,
)
from lifecycle.words.mandates import TIME_LIMIT
from lifecycle.words.metrics import METRICS, Metric, parse_valid_metrics
from lifecycle.words.resources import RESOURCES
from lifecycle.words.values import is_base_folder_or_inside

MAP = "map"
#: Parameter with values that only the verify commands get, and not the command.
VERIFY_PARAMETERS = "verify_parameters"
#: Name of the folder, inside the folder of a sweep stage, with a folder for each finished task.
DONE = "tasks"
#: Prefixes of the failure reason of a task whose command succeeded but whose results failed the
#: check.
NO_NUMBER = "metrics: "
VERDICTS = ("task_verify: ", NO_NUMBER)
#: The ways to define points. Each map must use exactly one of them.
WAYS = ("points", "grid", "zip", "file", "like")
#: Parameters for all tasks of a sweep. A change of any of them, except `task_outputs`, requires no
#: new computation.
OF_SWEEP = ("task_outputs", "task_verify", "task_retries", "tolerate", "at_once", "metrics")
#: Parameters of any stage that do not influence its results.
OF_ANY = frozenset(
    {"verify", VERIFY_PARAMETERS, "expected_seconds", "bring_back_limit", "carry"}
    | {TIME_LIMIT, RESOURCES}
)
#: Parameters of the execution. A change ends a running attempt, so that it takes effect at once.
HOW_RUN = frozenset({"at_once", "resource_overrides", TIME_LIMIT})
#: Parameters whose change lets a running attempt continue, without any new check of its results.
#: Requested resources apply only to the next attempt.
OF_NEXT_ATTEMPT = frozenset({"expected_seconds", RESOURCES})
#: Default number of tasks that run at the same time.
AT_ONCE = 8
#: Field of a map: the number of tasks that must succeed before the other tasks start.
FIRST = "first"
#: Maximum number of points of a sweep, and therefore of its first tasks.
_MAX_FIRST = 100_000
_OPTIONS = frozenset({*WAYS, "sha256", "order", "folders", FIRST, REPLICATES})
#: Parameters that are not allowed in a sweep.
_PLAIN_STAGE_PARAMETERS = ("backward_files", "carry")
#: Further columns of the task table of a sweep. A metric cannot have one of these names.
_RESERVED_COLUMNS = ("cpu_seconds", "memory")
_HEX = frozenset("0123456789abcdef")


class TaskRules(NamedTuple):
    """The rules for the tasks of a sweep: outputs, checks and limits.

    ``first`` is the number of tasks that must succeed before the other tasks start.
    The paths of outputs and metrics are relative to the folder of a task.
    """

    outputs: tuple[str, ...] = ()
    verify: str | None = None
    retries: int = 0
    tolerate: float = 0.0
    at_once: int = 1
    first: int = 0
    metrics: Mapping[str, Metric] = MappingProxyType({})


def is_sweep(parameters: Mapping[str, Any]) -> bool:
    """Return whether a stage is a sweep: its command runs once for each point of its map."""
    return isinstance(parameters.get(MAP), dict)


def earlier_task_basis(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that earlier versions used to decide whether a task is out of date.

    Unlike today, they included the verify command of the tasks.
    """
    aside = {MAP, "verify", VERIFY_PARAMETERS, "expected_seconds", "resource_overrides", *OF_SWEEP}
    aside -= {"task_outputs", "task_verify"}
    return {name: value for name, value in parameters.items() if name not in aside}


def remove_first_field(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a stage without the field ``first`` of its map.

    This field decides only when the tasks start, so it does not influence any result.
    """
    given = parameters.get(MAP)
    if not isinstance(given, dict) or FIRST not in given:
        return dict(parameters)
    return {**parameters, MAP: {name: given[name] for name in given if name != FIRST}}


def is_only_first_changed(change: Mapping[str, Any]) -> bool:
    """Return whether the change of a map, from ``old`` to ``new``, affects only ``first``."""
    before, after = (remove_first_field({MAP: change.get(name)}) for name in ("old", "new"))
    return is_sweep(before) and before == after


def describe_first_tasks(first: int, others: int | None) -> str:
    """Return a sentence about a sweep whose first tasks have not succeeded yet.

    ``others`` is the number of the other tasks, or None if it is not known.
    """
    if others is None:
        rest = "the other tasks start"
    elif others < 1:
        return "every task must succeed, because all of them are first tasks"
    else:
        rest = "1 task starts" if others == 1 else f"{others:,} tasks start"
    if first == 1:
        return f"1 task first; {rest} when it has succeeded"
    return f"{first:,} tasks first; {rest} when they have succeeded"


def task_table_paths(stage: str) -> tuple[str, str]:
    """Return the paths of the task table of a sweep, as CSV and JSON, relative to the root."""
    return f"{stage}/tasks.csv", f"{stage}/tasks.json"


def points_table_path(stage: str) -> str:
    """Return the path of the table with the means over the replicates of each point."""
    return f"{stage}/points.csv"


def sweep_table_paths(stage: str) -> tuple[str, ...]:
    """Return the paths of all tables that wfctl can write for a sweep, relative to the root."""
    return (*task_table_paths(stage), points_table_path(stage))


def find_map_problems(
    stage: str, parameters: Mapping[str, Any], outputs: list[str]
) -> Iterator[str]:
    """Yield the problems of a sweep's map (the definition of its points) and task parameters."""
    given = parameters[MAP]
    wrong = [*_find_map_field_problems(given)]
    yield from wrong
    yield from _find_point_problems(given, parameters) if not wrong else ()
    yield from _find_task_parameter_problems(parameters)
    if not parameters.get("command"):
        yield (
            "parameters.map: a stage with a map also needs parameters.command, which runs for "
            "each point"
        )
    for name in _PLAIN_STAGE_PARAMETERS:
        if parameters.get(name) is not None:
            yield (
                f"parameters.{name}: a stage with a map cannot use this parameter; remove the "
                "parameter"
            )
    tables = task_table_paths(stage)
    means = [points_table_path(stage)] if count_replicates(given) > 1 else []
    if not outputs or not set(outputs) <= {*tables, *means}:
        also = f", or {means[0]}, the means over the replicates" if means else ""
        yield (
            f"outputs: expected {tables[0]} or {tables[1]}, the table of all tasks{also}. Name the "
            "files of a single task in parameters.task_outputs"
        )


def _find_map_field_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the fields of a map (the definition of a sweep's points)."""
    ways = [way for way in WAYS if way in given]
    if len(ways) != 1:
        found = ", ".join(ways) or "none"
        yield f"parameters.map: expected one of {', '.join(WAYS)}, found {found}"
    for name in set(given) - _OPTIONS:
        yield f"parameters.map.{name}: unknown field; expected {', '.join(sorted(_OPTIONS))}"
    if given.get("folders", "named") not in ("named", "digest"):
        yield f"parameters.map.folders: expected named or digest, found {given['folders']!r}"
    if "like" in given and "folders" in given:
        yield (
            "parameters.map.folders: a map with `like` cannot set folders, because it uses "
            "the folder names of the stage in `like`"
        )
    for name in ("file", "like", "order"):
        if name in given and not (isinstance(given[name], str) and given[name]):
            yield f"parameters.map.{name}: expected text, found {given[name]!r:.60}"
    problem = find_replicates_problem(given)
    if problem is not None:
        yield problem
    yield from (f"parameters.map.{line}" for line in _find_first_problems(given))
    yield from _find_file_problems(given)


def _find_first_problems(given: Mapping[str, Any]) -> Iterator[str]:
    found = _find_whole_number_problem(given, FIRST, 1, _MAX_FIRST)
    yield from (line.removeprefix("parameters.") for line in found)


def _find_file_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the points file that a map names."""
    digest, path = given.get("sha256"), given.get("file")
    if "file" not in given:
        if digest is not None:
            yield "parameters.map.sha256: the digest can be used only together with `file`"
        return
    if isinstance(path, str) and not path.endswith((".csv", ".jsonl")):
        yield f"parameters.map.file: expected a name that ends with .csv or .jsonl, found {path}"
    if isinstance(path, str) and not is_base_folder_or_inside(path):
        yield f"parameters.map.file: expected a path below the root, found {path}"
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - _HEX:
        yield (
            "parameters.map.sha256: expected the digest of the file, 64 hexadecimal digits, as "
            f"`sha256sum {path}` prints it"
        )


def _find_point_problems(given: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of points that a map contains directly."""
    if "file" in given or "like" in given:
        return
    from lifecycle.sweeps.points import (  # needed only when a definition is written
        UnusableMap,
        build_points,
        list_value_names,
    )

    try:
        found = replicate_points(given, build_points(given))
    except UnusableMap as error:
        yield f"parameters.map: {error}"
        return
    names = metric_column_names(parameters)
    found_names = list_value_names(point.values for point in found)
    for name in find_conflicting_parameters(given, parameters, found_names):
        yield (
            f"parameters.{name}: the map already gives {name} to each task; set {name} in "
            "only one place"
        )
    for name in found_names:
        if name in names:
            yield f"parameters.metrics: {name} is a value of the map; choose another name"


def find_conflicting_parameters(
    given: Mapping[str, Any], parameters: Mapping[str, Any], names: Iterable[str]
) -> list[str]:
    """Return the parameters of a stage that a map with values of these names does not allow.

    A parameter is allowed as the default of the points that lack a value. In a grid or a zip, no
    point lacks a value. The points cannot set parameters that wfctl itself uses.
    """
    from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL  # needed by few calls

    is_full = "grid" in given or "zip" in given
    return [one for one in names if one in parameters and (is_full or one in PARAMETERS_OF_WFCTL)]


def _find_task_parameter_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of parameters that control the tasks of a sweep."""
    outputs = parameters.get("task_outputs")
    if outputs is not None and not (
        isinstance(outputs, list)
        and all(
            isinstance(path, str) and path and is_base_folder_or_inside(path) for path in outputs
        )
    ):
        yield f"parameters.task_outputs: expected paths in a task's folder, found {outputs!r:.80}"
    verify = parameters.get("task_verify")
    if verify is not None and not (isinstance(verify, str) and verify.strip()):
        yield f"parameters.task_verify: expected a command, found {verify!r:.60}"
    yield from _find_whole_number_problem(parameters, "task_retries", 0, 10)
    yield from _find_whole_number_problem(parameters, "at_once", 1, 1000)
    share = parameters.get("tolerate")
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    if share is not None and not (is_number and 0 <= share < 1):
        yield f"parameters.tolerate: expected a share from 0 to below 1, found {share!r:.60}"
    metrics = parameters.get(METRICS)
    if metrics is not None and not isinstance(metrics, dict):
        yield f"parameters.metrics: expected an object of names and places, found {metrics!r:.60}"
    from lifecycle.sweeps.points import COLUMNS  # needed only when a definition is written

    numbered = (REPLICATE, SEED) if count_replicates(parameters[MAP]) > 1 else ()
    names = Counter([*COLUMNS, *_RESERVED_COLUMNS, *numbered, *metric_column_names(parameters)])
    for name in (name for name, count in names.items() if count > 1):
        yield (
            f"parameters.metrics: {name} would be the name of two columns in the table of tasks; "
            "choose another name"
        )


def metric_column_names(parameters: Mapping[str, Any]) -> list[str]:
    """Return the columns of a sweep's task table that contain metrics and their errors."""
    metrics = parse_valid_metrics(parameters)
    return [*metrics, *(f"{name}_error" for name, metric in metrics.items() if metric.error)]


def _find_whole_number_problem(
    parameters: Mapping[str, Any], name: str, least: int, most: int
) -> Iterator[str]:
    """Yield a problem unless the parameter is missing or an integer in the given range."""
    value = parameters.get(name)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and least <= value <= most):
        yield f"parameters.{name}: expected a whole number from {least} to {most}, found {value!r}"


def format_ranges(numbers: Iterable[int]) -> str:
    """Return numbers, in any order, as ranges such as ``0-99,103``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def parse_ranges(text: str) -> set[int]:
    """Return the numbers in a text with ranges, such as ``0-99,103``."""
    return {number for a, b in _parse_range_pairs(text) for number in range(a, b + 1)}


def count_range_numbers(text: str) -> int:
    """Return how many numbers a text with ranges, such as ``0-99,103``, contains."""
    return sum(b - a + 1 for a, b in _parse_range_pairs(text))


def _parse_range_pairs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each range in a text such as ``0-99,103``."""
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        yield int(first), int(last or first)
