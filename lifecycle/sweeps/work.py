"""The computation of a stage: one command, or one command for each point of a map.

The classes `PlainWork` and `MappedWork` have the same properties and methods, and callers do not
have to distinguish them. They do no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from lifecycle.sweeps import definition
from lifecycle.sweeps.definition import (
    AT_ONCE,
    DONE,
    FIRST,
    MAP,
    OF_ANY,
    OF_SWEEP,
    VERIFY_PARAMETERS,
    TaskRules,
    describe_first_tasks,
    is_sweep,
    points_table_path,
    task_table_paths,
)
from lifecycle.sweeps.replicates import count_replicates, replicate_points
from lifecycle.words.metrics import METRICS, Metric, parse_valid_metrics

if TYPE_CHECKING:
    from lifecycle.sweeps.points import Point


class RecordedTasks(Protocol):
    """The interface of an attempt that has a record of its tasks."""

    @property
    def tasks(self) -> dict[str, Any] | None:
        """Return the newest record of the tasks' states (`TasksObserved`), or None."""


class PlainWork:
    """The computation of an ordinary stage: one command, which writes the stage's outputs."""

    #: The task tables and the folder of tasks, relative to the root. wfctl itself writes the
    #: tables.
    tables: ClassVar[tuple[str, ...]] = ()
    task_folders: ClassVar[tuple[str, ...]] = ()
    #: The stage whose points this stage reuses, and the files that list its own points.
    like: ClassVar[str | None] = None
    points_files: ClassVar[tuple[str, ...]] = ()
    #: The number of tasks for each point.
    replicates: ClassVar[int] = 1
    #: Metrics that have a value for each task.
    task_metrics: ClassVar[Mapping[str, Metric]] = {}
    #: Outputs, metrics and limits of each task.
    task_rules: ClassVar[TaskRules] = TaskRules()
    #: Parameters that determine the result of each task, in addition to its point and the input
    #: files.
    task_basis: ClassVar[Mapping[str, Any] | None] = None
    #: Parameters of the check of each task's results.
    task_check_parameters: ClassVar[Mapping[str, Any]] = {}
    #: True if each round of a loop adds tasks, and the tasks of earlier rounds stay valid.
    grows_by_rounds: ClassVar[bool] = False
    #: Parameters that an amendment cannot change if it keeps the results of earlier loop rounds.
    fixed_in_rounds: ClassVar[frozenset[str]] = frozenset()
    #: Phrase for one run of the command, for use in messages.
    run_name: ClassVar[str] = "the command"

    def __init__(self, stage: str, parameters: Mapping[str, Any]) -> None:
        self.stage = stage
        self.parameters = parameters

    @property
    def command_folder(self) -> str:
        """Return the folder in which the command runs, relative to the root."""
        return self.stage

    @property
    def place_name(self) -> str:
        """Return a phrase for the place where the command runs, for use in messages."""
        return f"a scratch copy of {self.stage}/"

    @property
    def output_command(self) -> Any:
        """Return the command that writes the stage's outputs, or None if the plan gives none."""
        return self.parameters.get("command")

    @property
    def output_metrics(self) -> Mapping[str, Metric]:
        """Return the metrics that are read from the stage's outputs, by name."""
        return parse_valid_metrics(self.parameters)

    @property
    def command_parameters(self) -> dict[str, Any]:
        """Return the parameters that the command gets."""
        return dict(self.parameters)

    @property
    def verify_values(self) -> dict[str, Any]:
        """Return the values that only the verify commands get, by name."""
        return _verify_parameter_values(self.parameters)

    @property
    def ignored_parameters(self) -> frozenset[str]:
        """Return the parameters that do not influence any result of the stage."""
        return OF_ANY | {METRICS} if self.output_metrics else OF_ANY

    @property
    def verdict_parameters(self) -> frozenset[str]:
        """Return the parameters whose change requires at most a new check of the results.

        They change neither a result nor a file that other stages read.
        """
        return self.ignored_parameters

    @property
    def verify_folders(self) -> dict[str, str]:
        """Return the parameters with verify commands, each with its working folder."""
        return {"verify": ""}

    def job_outputs(self, outputs: Sequence[str]) -> Sequence[str]:
        """Return the outputs of the stage that its jobs write, and not wfctl itself."""
        return outputs

    def task_inputs(
        self, inputs: Sequence[dict[str, Any]], points_files: Collection[str]
    ) -> list[dict[str, Any]]:
        """Return the input files that the tasks of a sweep read. An ordinary stage has none."""
        return []

    def keeps_tasks(self, changed: Work) -> bool:
        """Return whether finished tasks stay valid if the parameters change.

        An ordinary stage has no tasks, so the answer is False.
        """
        return False

    def listed_points(self) -> tuple[Point, ...]:
        """Return the points that the plan itself lists. An ordinary stage has none."""
        return ()

    def describe_start(self, done: int = 0, total: int = 0) -> str | None:
        """Return a sentence on the tasks that start first, or None. An ordinary stage has none."""
        return None

    def value_names(self) -> set[str] | None:
        """Return the names of all points' values, or None if the plan does not list the points."""
        return set()

    def common_value_names(self) -> set[str] | None:
        """Return the names of the values that every point has, or None as `value_names` does."""
        return set()

    def progress(self, attempts: Sequence[RecordedTasks]) -> dict[str, Any] | None:
        """Return the newest record of the tasks' states (`TasksObserved`), or None."""
        return None

    def problems(self, outputs: list[str]) -> Iterator[str]:
        """Yield the problems of the definition of points and tasks. An ordinary stage has none."""
        return iter(())


class MappedWork:
    """The computation of a sweep: one command for each point of a map, each in its own folder.

    wfctl writes the stage's outputs, the task tables. See `PlainWork` for the attributes.
    """

    output_command: ClassVar[str | None] = None
    output_metrics: ClassVar[Mapping[str, Metric]] = {}
    grows_by_rounds: ClassVar[bool] = True
    fixed_in_rounds: ClassVar[frozenset[str]] = frozenset({MAP, "task_outputs", "forward_files"})
    run_name: ClassVar[str] = "each point"

    def __init__(self, stage: str, parameters: Mapping[str, Any]) -> None:
        self.stage = stage
        self.parameters = parameters

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the paths of the sweep's tables, relative to the root."""
        means = (points_table_path(self.stage),) if self.replicates > 1 else ()
        return (*task_table_paths(self.stage), *means)

    @property
    def task_folders(self) -> tuple[str, ...]:
        """Return the folder that contains the folders of finished tasks."""
        return (f"{self.stage}/{DONE}",)

    @property
    def like(self) -> str | None:
        """Return the stage whose points this stage reuses, or None."""
        found = self.parameters[MAP].get("like")
        return found if isinstance(found, str) else None

    @property
    def replicates(self) -> int:
        """Return how many tasks the sweep has for each of its points."""
        return count_replicates(self.parameters[MAP])

    @property
    def points_files(self) -> tuple[str, ...]:
        """Return the files that list the points of the sweep."""
        found = self.parameters[MAP].get("file")
        return (found,) if isinstance(found, str) else ()

    @property
    def task_metrics(self) -> Mapping[str, Metric]:
        """Return the metrics that have a value for each task, by name."""
        return parse_valid_metrics(self.parameters)

    @property
    def task_rules(self) -> TaskRules:
        """Return the outputs, metrics and limits of each task. The parameters must be valid."""
        return TaskRules(
            outputs=tuple(self.parameters.get("task_outputs") or ()),
            verify=self.parameters.get("task_verify"),
            retries=self.parameters.get("task_retries") or 0,
            tolerate=self.parameters.get("tolerate") or 0.0,
            at_once=self.parameters.get("at_once") or AT_ONCE,
            first=self.parameters[MAP].get(FIRST) or 0,
            metrics=self.task_metrics,
        )

    @property
    def task_basis(self) -> Mapping[str, Any] | None:
        """Return the parameters that determine the result of each task."""
        aside = {MAP} | self.ignored_parameters
        return {name: value for name, value in self.parameters.items() if name not in aside}

    @property
    def task_check_parameters(self) -> Mapping[str, Any]:
        """Return the parameters of the check of each task's results."""
        seen = [VERIFY_PARAMETERS] if self.parameters.get("task_verify") else []
        judging = ("task_verify", METRICS, *seen)
        return {name: self.parameters[name] for name in judging if self.parameters.get(name)}

    @property
    def command_folder(self) -> str:
        """Return a made-up path that represents the folder of any task."""
        return f"{self.stage}/{DONE}/any"

    @property
    def place_name(self) -> str:
        """Return a phrase for the place where the commands run, for use in messages."""
        return f"a folder for each task, in a scratch copy of {self.stage}/"

    @property
    def command_parameters(self) -> dict[str, Any]:
        """Return the parameters that the command of each task gets.

        Parameters that define points or control tasks are not included.
        """
        return {k: v for k, v in self.parameters.items() if k != MAP and k not in OF_SWEEP}

    @property
    def verify_values(self) -> dict[str, Any]:
        """Return the values that only the verify commands get, by name."""
        return _verify_parameter_values(self.parameters)

    @property
    def ignored_parameters(self) -> frozenset[str]:
        """Return the parameters that do not influence the result of any task."""
        return OF_ANY | {"resource_overrides", *OF_SWEEP} - {"task_outputs"}

    @property
    def verdict_parameters(self) -> frozenset[str]:
        """Return the parameters whose change requires at most a new check of the results.

        Metrics are not included, because they change the columns of the task table.
        """
        return self.ignored_parameters - {METRICS}

    @property
    def verify_folders(self) -> dict[str, str]:
        """Return the parameters with verify commands, each with its working folder.

        The check of a task runs in a copy of the task's folder.
        """
        return {"verify": "", "task_verify": self.command_folder}

    def job_outputs(self, outputs: Sequence[str]) -> Sequence[str]:
        """Return an empty list, because wfctl writes the table after the tasks have ended."""
        return ()

    def task_inputs(
        self, inputs: Sequence[dict[str, Any]], points_files: Collection[str]
    ) -> list[dict[str, Any]]:
        """Return the input files of the tasks, without the files that list points."""
        return [one for one in inputs if one["path"] not in points_files]

    def keeps_tasks(self, changed: Work) -> bool:
        """Return whether finished tasks stay valid if the stage changes to ``changed``.

        They do if the parameters that determine their results are equal.
        """
        return self.task_basis == changed.task_basis

    def listed_points(self) -> tuple[Point, ...]:
        """Return the points that the plan itself lists.

        Return an empty tuple if a file or another stage defines the points.
        """
        given = self.parameters[MAP]
        if "file" in given or "like" in given:
            return ()
        from lifecycle.sweeps.points import build_points  # imports readers of files

        return build_points(given)

    def describe_start(self, done: int = 0, total: int = 0) -> str | None:
        """Return a sentence on the tasks that must succeed first, or None if all tasks may start.

        ``done`` tasks of ``total`` are done. If ``total`` is 0, the points of the plan are counted.
        """
        first = self.task_rules.first - done
        if first < 1:
            return None
        total = total or self._count_listed_points()
        return describe_first_tasks(first, total - done - first if total else None)

    def _count_listed_points(self) -> int:
        from lifecycle.sweeps.points import UnusableMap  # imports readers of files

        try:
            return len(self.listed_points()) * self.replicates
        except UnusableMap:
            return 0

    def value_names(self) -> set[str] | None:
        """Return the names of all points' values.

        A point may lack some of these values. Return None if the plan does not list valid points.
        """
        found = self._listed_value_names()
        return set.union(*found) if found else None

    def common_value_names(self) -> set[str] | None:
        """Return the names of the values that every point has, or None as `value_names` does."""
        found = self._listed_value_names()
        return set.intersection(*found) if found else None

    def _listed_value_names(self) -> list[set[str]]:
        """Return the names of each point's values, or [] if the plan lists no valid points."""
        from lifecycle.sweeps.points import UnusableMap  # imports readers of files

        try:
            points = replicate_points(self.parameters[MAP], self.listed_points())
            return [{*point.values} for point in points]
        except UnusableMap:
            return []

    def progress(self, attempts: Sequence[RecordedTasks]) -> dict[str, Any] | None:
        """Return the newest record of the tasks' states (`TasksObserved`), or None."""
        return next((one.tasks for one in reversed(attempts) if one.tasks), None)

    def problems(self, outputs: list[str]) -> Iterator[str]:
        """Yield the problems of the definition of points and of the parameters of tasks."""
        return definition.find_map_problems(self.stage, self.parameters, outputs)


def _verify_parameter_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    found = parameters.get(VERIFY_PARAMETERS)
    return dict(found) if isinstance(found, dict) else {}


Work: TypeAlias = PlainWork | MappedWork


def build_work(stage: str, parameters: Mapping[str, Any]) -> Work:
    """Return the computation that the parameters of a stage define."""
    return (MappedWork if is_sweep(parameters) else PlainWork)(stage, parameters)
