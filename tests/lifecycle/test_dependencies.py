"""Functions on the dependency graph of stages, tested with random graphs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.state.conditions import downstream, find_cycle


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw a graph in which a stage depends only on earlier ones."""
    size = draw(st.integers(1, 12))
    names = [f"stage-{number}" for number in range(1, size + 1)]
    return {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }


@given(acyclic())
def test_acyclic_graph_has_no_cycle(graph: dict[str, list[str]]) -> None:
    """`find_cycle` returns None for every graph in which stages depend only on earlier stages."""
    assert find_cycle(graph) is None


@given(acyclic(), st.data())
def test_added_back_edge_is_found_as_a_cycle(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """If a stage depends on one of its dependents, `find_cycle` returns a cycle of the graph."""
    start = data.draw(st.sampled_from(list(graph)))
    end = data.draw(st.sampled_from(sorted(downstream(graph, [start]) | {start})))
    cyclic = {**graph, start: [*graph[start], end]}
    cycle = find_cycle(cyclic)
    assert cycle is not None
    assert cycle[0] == cycle[-1]
    assert all(need in cyclic[stage] for stage, need in pairwise(cycle))


@given(acyclic(), st.data())
def test_downstream_stages_depend_on_the_root(
    graph: dict[str, list[str]], data: st.DataObject
) -> None:
    """`downstream` returns exactly the stages that directly or indirectly depend on a stage."""
    root = data.draw(st.sampled_from(list(graph)))
    found = downstream(graph, [root])
    for stage, needs in graph.items():
        assert (stage in found) == any(need == root or need in found for need in needs)
