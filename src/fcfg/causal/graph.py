"""The causal graph over attributes, and the groups that guidance is factored by (Sec. 3).

The paper splits attributes into the *affected* group, which holds the attributes intervened on
and all their descendants, and the *invariant* group, which holds the rest (Sec. 3.3). Both follow
from the graph, without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

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


class CausalGraph:
    """A directed acyclic graph over attributes.

    >>> graph = CausalGraph({"finding": ["age"], "age": [], "sex": [], "race": []})
    >>> sorted(graph.affected({"age"}))
    ['age', 'finding']
    >>> graph.order
    ('age', 'finding', 'sex', 'race')

    Args:
        parents: List of parents of every node, or a ``networkx.DiGraph`` whose edges point from
            cause to effect.
    """

    def __init__(self, parents: Mapping[str, Sequence[str]] | DiGraph) -> None:
        if isinstance(parents, nx.DiGraph):
            parents = {node: list(parents.predecessors(node)) for node in parents}
        check_is("causal graph", parents, Mapping, "lists of parents by node, or a DiGraph")
        self._parents = {
            check_name(node): _names(f"causal graph, node '{node}'", causes)
            for node, causes in parents.items()
        }
        self._check_parents()
        graph: DiGraph = nx.DiGraph()
        graph.add_nodes_from(self._parents)
        graph.add_edges_from((p, node) for node, causes in self._parents.items() for p in causes)
        if not nx.is_directed_acyclic_graph(graph):
            cycle = [edge[0] for edge in nx.find_cycle(graph)]
            raise InputError(
                "causal graph",
                expected="no cycle",
                got=f"the cycle {' -> '.join([*cycle, cycle[0]])}",
                do="remove one of its edges",
            )
        self._graph = nx.freeze(graph)

    def _check_parents(self) -> None:
        if not self._parents:
            raise InputError(
                "causal graph", expected="at least one node", got="none", do="list the attributes"
            )
        for node, causes in self._parents.items():
            unknown = [p for p in causes if p not in self._parents]
            if unknown or len(set(causes)) < len(causes):
                raise InputError(
                    f"causal graph, node '{node}'",
                    expected="a list of other nodes as parents, each once",
                    got=repr(list(causes)),
                    do=f"add {quoted(unknown)} as nodes of their own, with [] if they are roots"
                    if unknown
                    else "name every parent once",
                )

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes in the given order."""
        return tuple(self._parents)

    @property
    def order(self) -> tuple[str, ...]:
        """Nodes in topological order, causes first; ties in the given order."""
        position = {node: i for i, node in enumerate(self._parents)}
        return tuple(nx.lexicographical_topological_sort(self._graph, key=position.__getitem__))

    @property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """Parents of every node; a graph made from them equals this graph."""
        return dict(self._parents)

    def affected(self, targets: Iterable[str]) -> set[str]:
        """Return the nodes that an intervention can change: targets and their descendants."""
        reached: set[str] = set()
        for target in _names("intervention", targets):
            check_among("intervention", target, self._parents)
            reached |= {target} | nx.descendants(self._graph, target)
        return reached

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CausalGraph) and self._parents == other._parents

    def __hash__(self) -> int:
        return hash(frozenset(self._parents.items()))

    def __repr__(self) -> str:
        return f"CausalGraph({ {node: list(causes) for node, causes in self._parents.items()} })"


class Partition:
    """Named, disjoint groups of attributes, by which guidance is factored (Sec. 3.2).

    >>> Partition({"demography": ["sex", "age"], "disease": ["finding"]}).names
    ('demography', 'disease')

    A group may be empty; it then has no effect and no cost.

    Args:
        groups: Attributes of every group.
    """

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        check_is("partition", groups, Mapping, "lists of attributes by group")
        self._groups = {
            check_name(name): _names(f"partition, group '{name}'", members)
            for name, members in groups.items()
        }
        group_of: dict[str, str] = {}
        for name, members in self._groups.items():
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
        """Two groups, 'affected' and 'invariant' (Sec. 3.3); either may be empty.

        >>> graph = CausalGraph({"age": [], "finding": ["age"], "sex": []})
        >>> Partition.by_intervention(graph, {"age"})
        Partition({'affected': ['age', 'finding'], 'invariant': ['sex']})
        """
        affected = graph.affected(targets)
        return cls(
            {
                "affected": [node for node in graph.nodes if node in affected],
                "invariant": [node for node in graph.nodes if node not in affected],
            }
        )

    @classmethod
    def by_attribute(cls, graph: CausalGraph) -> Partition:
        """One group for each attribute (M = K), with its name."""
        return cls({node: [node] for node in graph.nodes})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups in order."""
        return tuple(self._groups)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Attributes of every group."""
        return dict(self._groups)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        check_among("partition", name, self._groups)
        return self._groups[name]

    def check_covers(self, names: Iterable[str]) -> None:
        """Refuse a partition that does not hold exactly these attributes."""
        names = tuple(names)
        members = {member for group in self._groups.values() for member in group}
        missing = [name for name in names if name not in members]
        unknown = sorted(members - set(names))
        if missing or unknown:
            raise InputError(
                "partition",
                expected=f"groups that cover exactly {quoted(names)}",
                got=complaint(("no group for", missing), ("the unknown", unknown)),
                do=nearest(unknown[0], names) if unknown else "put every attribute in one group",
            )

    def mask(self, names: Iterable[str]) -> list[list[bool]]:
        r"""Return the factors :math:`\delta_i^{(m)}` of the masked embedding.

        Args:
            names: Attributes in the order of their embedding blocks.

        Returns:
            A row for each group, which is true for the attributes that the group keeps.
        """
        names = tuple(names)
        return [[name in members for name in names] for members in self._groups.values()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self._groups == other._groups

    def __hash__(self) -> int:
        return hash(frozenset(self._groups.items()))

    def __repr__(self) -> str:
        return f"Partition({ {name: list(members) for name, members in self._groups.items()} })"


def _names(subject: str, names: Iterable[str]) -> tuple[str, ...]:
    """Freeze a list of names; a single string is not a list."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(subject, expected="a list of names", got=short(names), do="use [...]")
    return tuple(names)


def check_graph(space: AttributeSpace, graph: CausalGraph) -> None:
    """Refuse a graph whose nodes are not exactly the attributes of a space."""
    if set(space.names) != set(graph.nodes):
        raise InputError(
            "causal graph",
            expected=f"exactly the attributes {list(space.names)} as nodes",
            got=list(graph.nodes),
            do="add missing attributes with [] as their parents, remove the rest",
        )
