"""The graph of stages: cycles, what lies downstream, and the definition that a result rests on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import is_sweep, without_result
from lifecycle.words.cause import wanted

Graph = Mapping[str, Sequence[str]]
"""Stage id → the ids it depends on."""


def find_cycle(graph: Graph) -> list[str] | None:
    """Return one cycle as ``[a, b, …, a]``, or None. Unknown ids are passed over."""
    done: set[str] = set()
    for start in graph:
        cycle = _cycle_from(start, graph, done)
        if cycle:
            return cycle
    return None


def _cycle_from(start: str, graph: Graph, done: set[str]) -> list[str] | None:
    path: list[str] = []
    stack: list[tuple[str, bool]] = [(start, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            done.add(path.pop())
        elif node in path:
            return [*path[path.index(node) :], node]
        elif node in graph and node not in done:
            path.append(node)
            stack.append((node, True))
            stack.extend((dep, False) for dep in reversed(graph[node]))
    return None


def downstream(graph: Graph, roots: Iterable[str]) -> set[str]:
    """Return every stage that depends, directly or not, on one of ``roots`` (roots left out)."""
    dependents: dict[str, list[str]] = {}
    for stage, needs in graph.items():
        for need in needs:
            dependents.setdefault(need, []).append(stage)
    found: set[str] = set()
    queue = list(roots)
    while queue:
        for stage in dependents.get(queue.pop(), ()):
            if stage not in found:
                found.add(stage)
                queue.append(stage)
    return found


def upstream(graph: Graph, stages: Iterable[str]) -> set[str]:
    """Return every stage on which one of ``stages`` depends, directly or not."""
    found: set[str] = set()
    queue = list(stages)
    while queue:
        for need in graph.get(queue.pop(), ()):
            if need not in found:
                found.add(need)
                queue.append(need)
    return found


#: Parameters of which a part alone is computed from, which stands beside them.
_IN_PART = frozenset({"resource_overrides", "environment"})
#: Resources by which a command finds other software.
_SOFTWARE = (
    "envs",
    "module_list",
    "module_unload_list",
    "source_list",
    "prepend_script",
    "append_script",
)


def basis_of(state: Workflow, stage: Stage) -> str:
    """Return the SHA-256 in hex of command, parameters, inputs, outputs and software of a stage."""
    profile, parameters = state.profile(stage), stage.parameters
    aside = without_result(parameters) | _IN_PART
    resources: dict[str, object] = {}
    for given in (profile.get("resource_defaults"), parameters.get("resource_overrides")):
        resources |= given if isinstance(given, dict) else {}
    known = {
        "parameters": {name: parameters[name] for name in parameters if name not in aside},
        "inputs": stage.inputs,
        "outputs": stage.declared_outputs,
        "environment": wanted(profile, parameters) or parameters.get("environment"),
        "resources": {name: resources[name] for name in _SOFTWARE if resources.get(name)},
    }
    return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def needed_by(state: Workflow, stage: Stage) -> list[str]:
    """Return the inputs of a stage, and what the completed ones that it depends on have left."""
    done = [state.stages[id_] for id_ in stage.depends_on]
    left = [path for one in done if one.status is Status.COMPLETED for path in one.outputs]
    return list(dict.fromkeys([*stage.inputs, *left]))


def reusable(state: Workflow, stage: Stage) -> list[Attempt]:
    """Return the good attempts that computed by the present definition, the newest first.

    Their inputs may be others. Tasks of a sweep count each for itself, and what no command
    computed may rest on anything.
    """
    if is_sweep(stage.parameters) or not stage.parameters.get("command"):
        return []
    good = [one for one in stage.attempts if one.results and not one.is_refuted]
    basis = basis_of(state, stage) if good else ""
    return [one for one in reversed(good) if one.basis == basis and not one.taken_over]


def has_results_kept(stage: Stage) -> bool:
    """Whether the stage is ready and an attempt of it left results, by whatever definition."""
    return stage.status is Status.READY and any(one.results for one in stage.attempts)


def is_judged_alone(state: Workflow, stage: Stage) -> bool:
    """Whether there is something to judge anew where no more than the verdict on it has changed.

    Tasks of a sweep are looked at each; of other stages kept outputs are, unless nobody may.
    """
    may = state.session_config.get("reuse", "offer") != "never"
    return is_sweep(stage.parameters) or (may and bool(reusable(state, stage)))
