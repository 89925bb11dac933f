"""The work of a stage: one command, or one command for each point of a map. Pure.

`PlainWork` and `MappedWork` have the same properties and methods, so a caller need not know which
of them a stage has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from lifecycle.sweeps import definition
from lifecycle.sweeps.definition import (
    AT_ONCE,
    DONE,
    MAP,
    OF_ANY,
    OF_SWEEP,
    VERIFY_PARAMETERS,
    TaskRules,
    is_sweep,
    table_of,
)
from lifecycle.words.metrics import METRICS, Metric, metrics_of

if TYPE_CHECKING:
    from lifecycle.sweeps.points import Point


class RecordedTasks(Protocol):
    """An attempt whose newest record of tasks can be read."""

    @property
    def tasks(self) -> dict[str, Any] | None:
        """Return the newest record of the tasks, as `TasksObserved`, or None."""


@dataclass(frozen=True, slots=True)
class PlainWork:
    """One command, which runs in the stage's folder and writes the stage's outputs."""

    stage: str
    parameters: Mapping[str, Any]

    #: The tables of tasks and the folder of tasks, relative to the root. wfctl writes them.
    tables: ClassVar[tuple[str, ...]] = ()
    task_folders: ClassVar[tuple[str, ...]] = ()
    #: The stage whose points this stage takes, and the files that list its points.
    like: ClassVar[str | None] = None
    points_files: ClassVar[tuple[str, ...]] = ()
    #: Numbers of which each task has a value.
    task_metrics: ClassVar[Mapping[str, Metric]] = {}
    #: Outputs, numbers and limits of each task.
    task_rules: ClassVar[TaskRules] = TaskRules()
    #: Parameters that the result of each task depends on, in addition to its point and the inputs.
    task_basis: ClassVar[Mapping[str, Any] | None] = None
    #: Parameters that check each task after its computation.
    task_verdict: ClassVar[Mapping[str, Any]] = {}
    #: Whether a round adds tasks to those of earlier rounds, which stay in place.
    grows_by_rounds: ClassVar[bool] = False
    #: Parameters that an amendment from a given round on must not change.
    fixed_in_rounds: ClassVar[frozenset[str]] = frozenset()
    #: Phrase for one run with one set of values, for use in sentences.
    run_name: ClassVar[str] = "the command"

    @property
    def command_folder(self) -> str:
        """Return the folder in which the command runs, relative to the root."""
        return self.stage

    @property
    def place_name(self) -> str:
        """Return the place where the command runs, as a sentence names it."""
        return f"a scratch copy of {self.stage}/"

    @property
    def output_command(self) -> Any:
        """Return the command that writes the stage's outputs, or None."""
        return self.parameters.get("command")

    @property
    def output_metrics(self) -> Mapping[str, Metric]:
        """Return by name the numbers that are read from the stage's outputs."""
        return metrics_of(self.parameters)

    @property
    def command_parameters(self) -> dict[str, Any]:
        """Return the parameters that the command sees."""
        return dict(self.parameters)

    @property
    def verify_values(self) -> dict[str, Any]:
        """Return the values by name that only the verify commands get."""
        return _verify_parameter_values(self.parameters)

    @property
    def ignored_parameters(self) -> frozenset[str]:
        """Return the parameters that no result depends on."""
        return OF_ANY | {METRICS} if self.output_metrics else OF_ANY

    @property
    def verdict_parameters(self) -> frozenset[str]:
        """Return the parameters that change neither a result nor a file that other stages read."""
        return self.ignored_parameters

    @property
    def verify_folders(self) -> dict[str, str]:
        """Return, by parameter, the folder in which a verify command of the stage runs."""
        return {"verify": ""}

    def job_outputs(self, outputs: Sequence[str]) -> Sequence[str]:
        """Return those of the stage's outputs that its jobs write."""
        return outputs

    def task_inputs(
        self, inputs: Sequence[dict[str, Any]], points_files: Collection[str]
    ) -> list[dict[str, Any]]:
        """Return the inputs of the tasks, without the files that list points."""
        return []

    def keeps_tasks(self, changed: Work) -> bool:
        """Return whether finished tasks stay valid under a changed definition."""
        return False

    def listed_points(self) -> tuple[Point, ...]:
        """Return the points that the definition itself lists. Raises UnusableMap."""
        return ()

    def value_names(self) -> set[str] | None:
        """Return the names of the values of each point, or None if the definition has no list."""
        return set()

    def progress(self, attempts: Sequence[RecordedTasks]) -> dict[str, Any] | None:
        """Return the newest record of the tasks, as `TasksObserved`, or None."""
        return None

    def problems(self, outputs: list[str]) -> Iterator[str]:
        """Yield the problems of the map and of the parameters of tasks."""
        return iter(())


@dataclass(frozen=True, slots=True)
class MappedWork:
    """One command for each point of a map, in a folder for each point. wfctl writes the outputs.

    `PlainWork` describes the properties and methods.
    """

    stage: str
    parameters: Mapping[str, Any]

    output_command: ClassVar[str | None] = None
    output_metrics: ClassVar[Mapping[str, Metric]] = {}
    grows_by_rounds: ClassVar[bool] = True
    fixed_in_rounds: ClassVar[frozenset[str]] = frozenset({MAP, "task_outputs", "forward_files"})
    run_name: ClassVar[str] = "each point"

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables of tasks."""
        return table_of(self.stage)

    @property
    def task_folders(self) -> tuple[str, ...]:
        """Return the folder of tasks."""
        return (f"{self.stage}/{DONE}",)

    @property
    def like(self) -> str | None:
        """Return the stage whose points this stage takes."""
        found = self.parameters[MAP].get("like")
        return found if isinstance(found, str) else None

    @property
    def points_files(self) -> tuple[str, ...]:
        """Return the files that list the points."""
        found = self.parameters[MAP].get("file")
        return (found,) if isinstance(found, str) else ()

    @property
    def task_metrics(self) -> Mapping[str, Metric]:
        """Return by name the numbers of which each task has a value."""
        return metrics_of(self.parameters)

    @property
    def task_rules(self) -> TaskRules:
        """Return the outputs, numbers and limits of each task. The parameters must be valid."""
        return TaskRules(
            outputs=tuple(self.parameters.get("task_outputs") or ()),
            verify=self.parameters.get("task_verify"),
            retries=self.parameters.get("task_retries") or 0,
            tolerate=self.parameters.get("tolerate") or 0.0,
            at_once=self.parameters.get("at_once") or AT_ONCE,
            metrics=self.task_metrics,
        )

    @property
    def task_basis(self) -> Mapping[str, Any] | None:
        """Return the parameters that the result of each task depends on."""
        aside = {MAP} | self.ignored_parameters
        return {name: value for name, value in self.parameters.items() if name not in aside}

    @property
    def task_verdict(self) -> Mapping[str, Any]:
        """Return the parameters that check each task after its computation."""
        seen = [VERIFY_PARAMETERS] if self.parameters.get("task_verify") else []
        judging = ("task_verify", METRICS, *seen)
        return {name: self.parameters[name] for name in judging if self.parameters.get(name)}

    @property
    def command_folder(self) -> str:
        """Return a folder that stands for the folder of any task."""
        return f"{self.stage}/{DONE}/any"

    @property
    def place_name(self) -> str:
        """Return the place where the commands run, as a sentence names it."""
        return f"a folder for each task, in a scratch copy of {self.stage}/"

    @property
    def command_parameters(self) -> dict[str, Any]:
        """Return the parameters that each command sees, without those of the map and the tasks."""
        return {k: v for k, v in self.parameters.items() if k != MAP and k not in OF_SWEEP}

    @property
    def verify_values(self) -> dict[str, Any]:
        """Return the values by name that only the verify commands get."""
        return _verify_parameter_values(self.parameters)

    @property
    def ignored_parameters(self) -> frozenset[str]:
        """Return the parameters that no result of a task depends on."""
        return OF_ANY | {"resource_overrides", *OF_SWEEP} - {"task_outputs"}

    @property
    def verdict_parameters(self) -> frozenset[str]:
        """Return the ignored parameters without those that are columns of the table."""
        return self.ignored_parameters - {METRICS}

    @property
    def verify_folders(self) -> dict[str, str]:
        """Return the folders of the verify commands. A task is judged in a copy of its folder."""
        return {"verify": "", "task_verify": self.command_folder}

    def job_outputs(self, outputs: Sequence[str]) -> Sequence[str]:
        """Return an empty list, because wfctl writes the table after the tasks have ended."""
        return ()

    def task_inputs(
        self, inputs: Sequence[dict[str, Any]], points_files: Collection[str]
    ) -> list[dict[str, Any]]:
        """Return the inputs of the tasks."""
        return [one for one in inputs if one["path"] not in points_files]

    def keeps_tasks(self, changed: Work) -> bool:
        """Return whether the result of each task depends on the same parameters as before."""
        return self.task_basis == changed.task_basis

    def listed_points(self) -> tuple[Point, ...]:
        """Return the points of the map, or nothing if a file or another stage defines them."""
        given = self.parameters[MAP]
        if "file" in given or "like" in given:
            return ()
        from lifecycle.sweeps.points import build_points  # imports readers of files

        return build_points(given)

    def value_names(self) -> set[str] | None:
        """Return the names of the map's values, or None if no list of points can be read."""
        from lifecycle.sweeps.points import UnusableMap  # imports readers of files

        try:
            found = self.listed_points()
        except UnusableMap:
            return None
        return {*found[0].values} if found else None

    def progress(self, attempts: Sequence[RecordedTasks]) -> dict[str, Any] | None:
        """Return the newest record of the tasks."""
        return next((one.tasks for one in reversed(attempts) if one.tasks), None)

    def problems(self, outputs: list[str]) -> Iterator[str]:
        """Yield the problems of the map and of the parameters of tasks."""
        return definition.find_map_problems(self.stage, self.parameters, outputs)


def _verify_parameter_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    found = parameters.get(VERIFY_PARAMETERS)
    return dict(found) if isinstance(found, dict) else {}


Work: TypeAlias = PlainWork | MappedWork


def build_work(stage: str, parameters: Mapping[str, Any]) -> Work:
    """Return the work of a stage with these parameters."""
    return (MappedWork if is_sweep(parameters) else PlainWork)(stage, parameters)
