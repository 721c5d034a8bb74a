from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fcfg.causal.graph import CausalGraph, Partition
from refusal import refused

MIMIC = CausalGraph({"finding": ["age"], "age": [], "sex": [], "race": []})
NODES = list("abcdef")


@st.composite
def graphs(draw: st.DrawFn) -> CausalGraph:
    """Any directed acyclic graph over six nodes, given in any order."""
    order = draw(st.permutations(NODES))
    edges = draw(st.sets(st.sampled_from(list(itertools.combinations(range(6), 2)))))
    given_order = draw(st.permutations(NODES))
    parents = {node: [order[i] for i, j in sorted(edges) if order[j] == node] for node in NODES}
    return CausalGraph({node: parents[node] for node in given_order})


@given(graphs(), st.sets(st.sampled_from(NODES)))
def test_affected_are_the_targets_and_what_they_reach(graph: CausalGraph, targets: set) -> None:
    step = np.array([[int(a in graph.parents[b]) for b in NODES] for a in NODES])
    reach = np.linalg.matrix_power(np.eye(6, dtype=int) + step, 6) > 0
    expected = {b for b in NODES if any(reach[NODES.index(a), NODES.index(b)] for a in targets)}
    assert graph.affected(targets) == expected


@given(graphs())
def test_causes_come_first_in_the_order(graph: CausalGraph) -> None:
    position = {node: i for i, node in enumerate(graph.order)}
    assert sorted(position) == NODES
    for node, parents in graph.parents.items():
        assert all(position[parent] < position[node] for parent in parents)


@given(graphs(), st.sets(st.sampled_from(NODES)))
def test_groups_are_disjoint_and_cover(graph: CausalGraph, targets: set) -> None:
    for partition in (
        Partition.single(graph),
        Partition.by_attribute(graph),
        Partition.by_intervention(graph, targets),
    ):
        members = [member for name in partition for member in partition[name]]
        assert sorted(members) == NODES
        partition.check_covers(NODES)
        mask = np.array(partition.mask(NODES))
        assert (mask.sum(axis=0) == 1).all()
    two = Partition.by_intervention(graph, targets)
    assert two.names == ("affected", "invariant")
    assert set(two["affected"]) == graph.affected(targets)


@given(graphs())
def test_a_graph_comes_back_from_its_parents_and_from_networkx(graph: CausalGraph) -> None:
    assert CausalGraph(graph.parents) == graph
    digraph = nx.DiGraph(graph.parents).reverse()
    for node, parents in CausalGraph(digraph).parents.items():
        assert set(parents) == set(graph.parents[node])


def test_graphs_and_partitions_compare_by_content() -> None:
    partition = Partition.by_intervention(MIMIC, {"age"})
    assert partition.groups == {"affected": ("finding", "age"), "invariant": ("sex", "race")}
    for made in (MIMIC, Partition.single(MIMIC), partition):
        copy = eval(repr(made))
        assert (copy, hash(copy)) == (made, hash(made))
    assert CausalGraph({"age": []}) != MIMIC
    assert len(partition) == 2
    assert Partition.by_intervention(MIMIC, {"age", "sex", "race"})["invariant"] == ()


def test_illegal_graphs_and_names_are_refused() -> None:
    lists = ({}, {"a": ["b"]}, {"a": ["b", "b"], "b": []}, {"a": "b", "b": []}, {"a": None})
    for parents in (*lists, [("a", "b")], nx.path_graph(2), {"a": ["a"]}):
        refused("causal graph").by(CausalGraph, parents)
    with refused("causal graph", "a -> b -> c -> a", "remove one"):
        CausalGraph({"a": ["c"], "b": ["a"], "c": ["b"]})
    refused("name", "7").by(CausalGraph, nx.DiGraph({7: [8]}))
    refused("intervention", "'aeg'", "did you mean 'age'?").by(MIMIC.affected, {"aeg"})
    with refused("partition, group 'two'", "'sex', which is in 'one' already"):
        Partition({"one": ["age", "sex"], "two": ["sex"]})
    few, many = Partition({"one": ["age", "sex", "race"]}), Partition({"one": [*MIMIC.nodes, "x"]})
    refused("intervention").by(MIMIC.affected, "age")
    for wrong in ({"one": "age"}, [["age"]]):
        refused("partition").by(Partition, wrong)
    refused("partition").by(few.__getitem__, "tow")
    for partition in (few, many):
        refused("partition").by(partition.check_covers, MIMIC.nodes)
