"""The causal graph over attributes, and the groups that guidance is factored by (Sec. 3).

The paper splits attributes into the *affected* group, which holds the attributes intervened on
and all their descendants, and the *invariant* group, which holds the rest (Sec. 3.3). Both follow
from the graph, without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import networkx as nx

from fcfg.support.errors import (
    InputError,
    check_among,
    check_is,
    complaint,
    nearest,
    quoted,
    short,
)
from fcfg.support.names import check_name

if TYPE_CHECKING:
    from fcfg.causal.attributes import AttributeSpace

    DiGraph: TypeAlias = nx.DiGraph[str]
    HasGraph: TypeAlias = Any  # a model of dowhy


class _Lists:
    """Lists of names by name, which are compared, hashed and written by their contents."""

    def __init__(self, subject: str, kind: str, lists: Mapping[str, Iterable[str]]) -> None:
        check_is(subject, lists, Mapping, f"lists by {kind}")
        self._lists = {
            check_name(name): _names(f"{subject}, {kind} '{name}'", members)
            for name, members in lists.items()
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._lists == other._lists

    def __hash__(self) -> int:
        return hash(frozenset(self._lists.items()))

    def __repr__(self) -> str:
        lists = {name: list(members) for name, members in self._lists.items()}
        return f"{type(self).__name__}({lists})"


def _directed_graph(graph: object) -> DiGraph | None:
    """Return the graph of networkx that an object is, or has as dowhy's have; None otherwise."""
    if isinstance(graph, nx.DiGraph):
        return graph
    inner = getattr(graph, "graph", getattr(graph, "_graph", None))
    return None if inner is None else _directed_graph(inner)


class CausalGraph(_Lists):
    """A directed acyclic graph over attributes.

    >>> graph = CausalGraph({"finding": ["age"], "age": [], "sex": [], "race": []})
    >>> sorted(graph.affected({"age"}))
    ['age', 'finding']
    >>> graph.order
    ('age', 'finding', 'sex', 'race')

    Args:
        parents: List of parents of every node, or a graph of networkx, pgmpy or dowhy, whose
            edges point from cause to effect.
    """

    def __init__(self, parents: Mapping[str, Sequence[str]] | DiGraph | HasGraph) -> None:
        drawn = _directed_graph(parents)
        if drawn is not None:
            hidden = [
                node for node, data in drawn.nodes(data=True) if data.get("observed") == "no"
            ]
            if hidden:
                expected, do = "observed nodes only", "leave hidden causes out"
                raise InputError("causal graph", expected=expected, got=quoted(hidden), do=do)
            parents = {node: list(drawn.predecessors(node)) for node in drawn}
        super().__init__("causal graph", "node", cast("Mapping[str, Sequence[str]]", parents))
        if not self._lists:
            raise InputError(
                "causal graph", expected="at least one node", got="none", do="list the attributes"
            )
        for node, causes in self._lists.items():
            unknown = [p for p in causes if p not in self._lists]
            if unknown or len(set(causes)) < len(causes):
                subject, got = f"causal graph, node '{node}'", repr(list(causes))
                expected = "a list of other nodes as parents, each once"
                do = "name every parent once"
                if unknown:
                    do = f"add {quoted(unknown)} as nodes of their own, with [] if they are roots"
                raise InputError(subject, expected=expected, got=got, do=do)
        graph: DiGraph = nx.DiGraph()
        graph.add_nodes_from(self._lists)
        graph.add_edges_from((p, node) for node, causes in self._lists.items() for p in causes)
        if not nx.is_directed_acyclic_graph(graph):
            cycle = [edge[0] for edge in nx.find_cycle(graph)]
            got, do = f"the cycle {' -> '.join([*cycle, cycle[0]])}", "remove one of its edges"
            raise InputError("causal graph", expected="no cycle", got=got, do=do)
        self._graph = nx.freeze(graph)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes in the given order."""
        return tuple(self._lists)

    @property
    def order(self) -> tuple[str, ...]:
        """Nodes in topological order, causes first; ties in the given order."""
        position = {node: i for i, node in enumerate(self._lists)}
        return tuple(nx.lexicographical_topological_sort(self._graph, key=position.__getitem__))

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """Parents of every node; a graph made from them equals this graph."""
        return dict(self._lists)

    def affected(self, targets: Iterable[str]) -> set[str]:
        """Return the nodes that an intervention can change: targets and their descendants."""
        reached: set[str] = set()
        for target in _names("intervention", targets):
            check_among("intervention", target, self._lists)
            reached |= {target} | nx.descendants(self._graph, target)
        return reached


class Partition(_Lists):
    """Named, disjoint groups of attributes, by which guidance is factored (Sec. 3.2).

    >>> Partition({"demography": ["sex", "age"], "disease": ["finding"]}).names
    ('demography', 'disease')

    A group may be empty; it then has no effect and no cost.
    """

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        super().__init__("partition", "group", groups)
        group_of: dict[str, str] = {}
        for name, members in self._lists.items():
            for member in members:
                if member in group_of:
                    raise InputError(
                        f"partition, group '{name}'",
                        expected="attributes that are in no other group",
                        got=f"'{member}', which is in '{group_of[member]}' already",
                        do="leave it in one group",
                    )
                group_of[check_name(member)] = name

    @classmethod
    def single(cls, graph: CausalGraph) -> Partition:
        """One group 'all': ordinary classifier-free guidance (M = 1)."""
        return cls({"all": graph.nodes})

    @classmethod
    def by_intervention(cls, graph: CausalGraph, targets: Iterable[str]) -> Partition:
        """Two groups, 'affected' and 'invariant' (Sec. 3.3); either may be empty."""
        affected = graph.affected(targets)
        reached = [node for node in graph.nodes if node in affected]
        others = [node for node in graph.nodes if node not in affected]
        return cls({"affected": reached, "invariant": others})

    @classmethod
    def by_attribute(cls, graph: CausalGraph) -> Partition:
        """One group for each attribute (M = K), with its name."""
        return cls({node: [node] for node in graph.nodes})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups in order."""
        return tuple(self._lists)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Attributes of every group."""
        return dict(self._lists)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        check_among("partition", name, self._lists)
        return self._lists[name]

    def check_covers(self, names: Iterable[str]) -> None:
        """Refuse a partition that does not hold exactly these attributes."""
        names = tuple(names)
        members = {member for group in self._lists.values() for member in group}
        missing = [name for name in names if name not in members]
        unknown = sorted(members - set(names))
        if missing or unknown:
            expected = f"groups that cover exactly {quoted(names)}"
            got = complaint(("no group for", missing), ("the unknown", unknown))
            do = nearest(unknown[0], names) if unknown else "put every attribute in one group"
            raise InputError("partition", expected=expected, got=got, do=do)

    def mask(self, names: Iterable[str]) -> list[list[bool]]:
        r"""Return the factors :math:`\delta_i^{(m)}` of the masked embedding, (groups, names)."""
        names = tuple(names)
        return [[name in members for name in names] for members in self._lists.values()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)


def _names(subject: str, names: Iterable[str]) -> tuple[str, ...]:
    """Freeze a list of names; a single string is not a list."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(subject, expected="a list of names", got=short(names), do="use [...]")
    return tuple(names)


def check_graph(space: AttributeSpace, graph: CausalGraph) -> None:
    """Refuse a graph whose nodes are not exactly the attributes of a space."""
    if set(space.names) != set(graph.nodes):
        expected = f"exactly the attributes {list(space.names)} as nodes"
        do = "add missing attributes with [] as their parents, remove the rest"
        raise InputError("causal graph", expected=expected, got=list(graph.nodes), do=do)
