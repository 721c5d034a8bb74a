r"""The structural causal model over attributes: :math:`a_k := f_k(pa_k, u_k)` (Sec. 2).

The noise of a root is its own value, so there is nothing to fit. A node with parents has a
mechanism of :mod:`fcfg.causal.mechanisms`.

Counterfactuals follow Pearl: abduct the noise, set the intervention, recompute its descendants.
All other attributes stay exactly as they were. Everything is computed in float64.

References:
    Deep structural causal models for tractable counterfactual inference (Pawlowski et al., 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Column, Continuous, Table
from fcfg.causal.graph import CausalGraph, check_graph
from fcfg.causal.intervention import Intervention, intervened
from fcfg.causal.mechanisms import AbstractMechanism, FlowMechanism, GumbelMechanism
from fcfg.support.errors import InputError, check_integer, check_is, short
from fcfg.support.hashing import stream_seed
from fcfg.support.tables import TableLike

Keys: TypeAlias = Sequence[int] | Sequence[str] | NDArray[np.integer]
OnFit: TypeAlias = Callable[[str, int, float], None]


class StructuralCausalModel(nn.Module):
    """Mechanisms over a causal graph: fit, abduct, act.

    >>> from fcfg.causal.attributes import Binary
    >>> space = AttributeSpace([Binary("smiling"), Binary("male")])
    >>> scm = StructuralCausalModel(space, CausalGraph({"smiling": [], "male": []}))
    >>> faces = space.parse({"smiling": [0, 1], "male": [1, 1]})
    >>> scm.act(faces, {"smiling": lambda smiling: 1 - smiling}, noise={})
    {'smiling': array([1, 0]), 'male': array([1, 1])}

    A graph of roots only, as above, needs no fitting. The graph is over exactly the attributes.
    """

    def __init__(self, space: AttributeSpace, graph: CausalGraph) -> None:
        super().__init__()
        check_graph(space, graph)
        self.space = space
        self.graph = graph
        self.mechanisms = nn.ModuleDict()

    @property
    def fitted_parents(self) -> dict[str, tuple[str, ...]]:
        """Parents that every fitted node was fitted on."""
        modules = cast(Iterable[AbstractMechanism], self.mechanisms.values())
        names = (key.removeprefix("p(").removesuffix(")") for key in self.mechanisms)
        return {name: module.parents for name, module in zip(names, modules, strict=True)}

    def add_mechanism(self, node: str, parents: Sequence[str]) -> None:
        """Add an untrained mechanism, into which weights can be loaded."""
        self.mechanisms[_key(node)] = self._new_mechanism(node, parents)

    def _new_mechanism(self, node: str, parents: Sequence[str]) -> AbstractMechanism:
        attribute = self.space[node]
        context = sum(self.space[parent].width for parent in parents)
        if isinstance(attribute, Continuous):
            return FlowMechanism(attribute, context, parents).double()
        return GumbelMechanism(max(attribute.width, 2), context, parents).double()

    def fit(
        self,
        table: TableLike,
        *,
        seed: int = 0,
        steps: int = 1000,
        batch_size: int = 4096,
        learning_rate: float = 1e-2,
        on_step: OnFit | None = None,
    ) -> dict[str, float]:
        """Fit every node that has parents by maximum likelihood.

        Args:
            table: Column of every attribute.
            seed: Seed for initial weights and batches.
            steps: Number of steps of Adam for each node.
            batch_size: Number of rows in each step.
            learning_rate: Initial learning rate; it decays along a cosine.
            on_step: Callback invoked after every step with the node, the step and the mean
                negative log-likelihood.

        Returns:
            Mean negative log-likelihood of every node over the whole table, in nats.
        """
        columns = self.space.parse(table)
        check_integer("fit, steps", steps, 1, 10**9, do="1000 is the default")
        check_integer("fit, batch_size", batch_size, 1, 10**9, do="4096 is the default")
        if not 0 < learning_rate <= 1:
            raise InputError(
                "fit, learning_rate", expected="above 0, up to 1", got=learning_rate, do="use 0.01"
            )
        for node in self._children():
            if np.ptp(columns[node]) == 0:
                expected = "at least two different values to fit its mechanism"
                got = f"{columns[node][0]} in all {len(columns[node])} rows"
                do = "add rows, or make it a root of the graph"
                raise InputError(f"attribute '{node}'", expected=expected, got=got, do=do)
        losses: dict[str, float] = {}
        for node in self._children():
            values, context = _tensor(columns[node]), self._context(node, columns)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stream_seed(seed, node))
                mechanism = self._new_mechanism(node, self.graph.parents[node])
            mechanism.standardise(values)
            generator = torch.Generator().manual_seed(stream_seed(seed, node))
            optimiser = torch.optim.Adam(mechanism.parameters(), lr=learning_rate)
            decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
            for step in range(steps):
                rows = slice(None)
                if len(values) > batch_size:
                    rows = torch.randint(len(values), (batch_size,), generator=generator)
                loss = -mechanism.log_prob(values[rows], context[rows]).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                decay.step()
                if on_step is not None:
                    on_step(node, step, loss.item())
            mechanism.requires_grad_(False)
            self.mechanisms[_key(node)] = mechanism  # not earlier: a fit may be interrupted
            losses[node] = -mechanism.log_prob(values, context).mean().item()
        return losses

    def _children(self) -> list[str]:
        return [node for node in self.graph.order if self.graph.parents[node]]

    @torch.no_grad()
    def abduct(
        self,
        table: TableLike,
        nodes: Iterable[str] | None = None,
        *,
        seed: int = 0,
        keys: Keys | None = None,
    ) -> dict[str, Float64[Tensor, "batch noise"]]:
        """Infer the noise behind factual attributes.

        Args:
            table: Factual columns.
            nodes: Nodes to abduct; by default all that have parents.
            seed: Seed for sampling discrete exogenous noise.
            keys: An integer or string for each row, by default its position. The noise of a row
                depends only on the seed and its key, never on other rows.
        """
        columns = self.space.parse(table)
        nodes = self._children() if nodes is None else list(nodes)
        self.space.check_known(nodes)
        check_integer("seed", seed, -(2**63), 2**63 - 1, do="0 is the default")
        row_keys = checked_keys(keys, len(columns[self.space.names[0]]))
        noise: dict[str, Tensor] = {}
        for node in nodes:
            mechanism = self._mechanism(node)
            uniform = _uniform(stream_seed(seed, node), row_keys, mechanism.noise_draws)
            values, context = _tensor(columns[node]), self._context(node, columns)
            noise[node] = mechanism.abduct(values, context, uniform)
        return noise

    @torch.no_grad()
    def act(
        self, table: TableLike, do: Mapping[str, Intervention], noise: Mapping[str, Tensor]
    ) -> Table:
        """Compute the attributes under an intervention (Algorithm 2).

        Args:
            table: Factual columns.
            do: A value, a column, or a function of the factual column for every target.
            noise: Noise of at least the descendants of the targets.

        Returns:
            A column for each attribute: targets as set, descendants recomputed, all others
            unchanged.
        """
        check_is("intervention", do, Mapping, "a mapping from names to values")
        affected = self.graph.affected(do)
        missing = affected - set(do) - set(noise)
        if missing:
            expected = f"the noise of the descendants of {list(do)}"
            got = f"none for {sorted(missing)}"
            raise InputError("noise", expected=expected, got=got, do="abduct it first")
        factual = self.space.parse(table)
        result = dict(factual)
        for node in self.graph.order:
            if node in do:
                result[node] = intervened(self.space[node], do[node], factual[node])
            elif node in affected:
                mechanism = self._mechanism(node)
                values = mechanism.predict(noise[node], self._context(node, result)).numpy()
                result[node] = self.space[node].column(values.astype(factual[node].dtype))
        return result

    def _mechanism(self, node: str) -> AbstractMechanism:
        fitted, wanted = self.fitted_parents.get(node), self.graph.parents[node]
        if fitted != wanted:
            expected = f"one fitted on its parents {list(wanted)}"
            got = "none" if fitted is None else f"one fitted on {list(fitted)}"
            do = "fit the structural causal model on this graph"
            raise InputError(f"mechanism of '{node}'", expected=expected, got=got, do=do)
        return cast(AbstractMechanism, self.mechanisms[_key(node)])

    def _context(self, node: str, table: Mapping[str, Column]) -> Float64[Tensor, "batch context"]:
        return _tensor(self.space.encode(table, self.graph.parents[node]))


def _key(node: str) -> str:
    """Return the key of a node's mechanism, a name that no attribute of a module can have."""
    return f"p({node})"


def _tensor(array: NDArray[np.generic]) -> Float64[Tensor, "*shape"]:
    return torch.from_numpy(array.astype(np.float64))


def checked_keys(keys: Keys | None, rows: int) -> list[int | str]:
    """Return the keys of rows, by default their positions; refuse illegal ones."""
    if keys is None:
        return list(range(rows))
    listed: list[Any] = [] if isinstance(keys, str | bytes) else list(keys)
    legal = [isinstance(k, str | Integral) and not isinstance(k, bool) for k in listed]
    if len(listed) != rows or not all(legal):
        expected, got = f"{rows} integers or strings, one for each row", short(keys)
        raise InputError("keys", expected=expected, got=got, do="use file names or identities")
    return listed


def _uniform(
    key_stream: int, keys: Sequence[int | str], draws: int
) -> Float64[Tensor, "batch draws"]:
    """Draw uniform numbers, each row from its own counter-based generator."""
    rows = np.empty((len(keys), draws))
    for row, key in enumerate(keys if draws else ()):
        word = stream_seed(0, key) if isinstance(key, str) else int(key) % 2**64
        philox = np.random.Philox(key=np.array([key_stream, word], dtype=np.uint64))
        rows[row] = np.random.Generator(philox).random(draws)
    return torch.from_numpy(rows)
