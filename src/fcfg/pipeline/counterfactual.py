r"""The pipeline: abduction, action, prediction (Sec. 3.3).

.. math:: \tilde x = f_\theta(f_\theta^{-1}(x, pa), \widetilde{pa})

The three steps of Pearl are three methods, so that what does not change between questions is
computed once: one abduction serves every intervention and every guidance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace, Table
from fcfg.causal.graph import CausalGraph, Partition
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys, StructuralCausalModel
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.prediction import AbstractPredictor, ConditionalPredictor
from fcfg.guidance import Guidance, WeightTable
from fcfg.pipeline.batching import evaluating, integrate_chunks
from fcfg.pipeline.records import Abduction, Action, Counterfactual
from fcfg.pipeline.runtime import Execution, StepRecorder, prepare_denoiser
from fcfg.sampling import (
    AbstractSolver,
    OnStep,
    Plan,
    SamplingLike,
    SamplingParts,
    Trajectory,
    sampling_of,
)
from fcfg.support.errors import InputError, check_integer, check_is, short
from fcfg.support.hashing import digest_of
from fcfg.support.images import ImagesLike, image_keys, read_images

DEFAULT_GUIDANCE = Guidance.fcfg(affected=3.0, invariant=1.2)


class CounterfactualPipeline:
    """A denoiser and a structural causal model: everything a what-if needs.

    Args:
        denoiser: The image model.
        scm: The attribute model, over the attributes of the denoiser's embedder.
        judge: A classifier that reads attributes from images, or none.
        provenance: What is known of how it was made, as JSON values.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        scm: StructuralCausalModel,
        *,
        judge: nn.Module | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        check_is("pipeline, denoiser", denoiser, Denoiser, "a fcfg.Denoiser")
        check_is("pipeline, scm", scm, StructuralCausalModel, "a fcfg.StructuralCausalModel")
        if scm.space != denoiser.embedder.space:
            raise InputError(
                "pipeline",
                expected="one attribute space for denoiser and structural causal model",
                got=f"{list(denoiser.embedder.space.names)} and {list(scm.space.names)}",
                do="build both from the same AttributeSpace",
            )
        self.denoiser = denoiser
        self.scm = scm
        self.judge = judge
        self.provenance = dict(provenance or {})
        self.folder: Path | None = None  #: where :func:`fcfg.load` found it
        self.execution: Execution | None = None  #: what :meth:`prepare` was asked for
        self._recorder: StepRecorder | None = None

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.denoiser.parameters()) / 1e6
        network = type(self.denoiser.network).__name__
        return f"CounterfactualPipeline({network} of {size:.1f} M parameters, {self.graph})"

    @property
    def space(self) -> AttributeSpace:
        """The attributes."""
        return self.scm.space

    @property
    def graph(self) -> CausalGraph:
        """Their causal graph."""
        return self.scm.graph

    def to(self, device: torch.device | str) -> CounterfactualPipeline:
        """Move the networks, prepared as before; the structural causal model stays on the CPU."""
        self.denoiser.to(device)
        if self.judge is not None:
            self.judge.to(device)
        if self.execution is not None:
            self._recorder = prepare_denoiser(self.denoiser, self.execution)
        return self

    def prepare(
        self,
        precision: str = "auto",
        *,
        compile: bool = False,
        batch_size: int = 256,
        cuda_graphs: bool = True,
    ) -> CounterfactualPipeline:
        """Choose how the network computes, as often as you like: weights stay as they are.

        Answers differ by rounding alone, which bf16 does most. The sampler stays in float32.

        Args:
            precision: 'float32'; 'tf32', which is float32 on a CPU; 'bf16'; or 'auto', tf32 on a
                GPU and float32 on a CPU.
            compile: Whether to compile the network, which takes a while when it is first asked.
            batch_size: The most rows of a compiled call, of which others are made: the number of
                images that are asked about at once wastes none.
            cuda_graphs: Whether a GPU that is asked about few images is told of a whole step at
                once: network, rule and update, recorded when a step of its kind is first taken.
        """
        execution = Execution(precision, compile, batch_size, cuda_graphs)
        self._recorder = prepare_denoiser(self.denoiser, execution)
        self.execution = execution
        return self

    def counterfactual(
        self,
        images: ImagesLike,
        attributes: Mapping[str, ArrayLike],
        do: Mapping[str, Intervention],
        *,
        guidance: Guidance = DEFAULT_GUIDANCE,
        sampling: SamplingLike = "default",
        partition: Partition | None = None,
        seed: int = 0,
        keys: Keys | None = None,
        any_size: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        **deprecated: Unpack[SamplingParts],
    ) -> Counterfactual:
        """What would these images look like had the attributes been different?

        Args:
            images: Float tensor or array in [-1, 1], (batch, channel, height, width); or PIL.
            attributes: For every attribute a column with the factual values.
            do: For every target a value, a column, a function of the factual column, or a text
                such as 'flip' or '+10%', see :mod:`fcfg.causal.intervention`.
            guidance: How strongly to push each group of attributes.
            sampling: Solver, grid and steps, such as 'dpm-2m karras 20'; 'paper' is 1,000 steps of
                DDIM, and a number changes the steps of the default. See
                :func:`fcfg.sampling.as_sampling`.
            partition: What is in the groups, where their names do not say.
            seed: Of what discrete attributes leave open.
            keys: A name or number for each image, combined with the seed; by default one
                made of its pixels, so that an answer depends on the image alone.
            any_size: Permission to ask about images of another size than the model was trained
                at, of which nobody knows what it makes.
            batch_size: The most network rows at once; bounds the memory.
            on_step: Told of every step, with the share that is done.
            **deprecated: Parts of ``sampling`` by the keywords of fcfg 0.1.
        """
        # What is cheap comes first, so that a bad question is refused before hours of work.
        x, table = self._door(images, attributes, any_size=any_size)
        keys = image_keys(x) if keys is None else keys
        chosen = sampling_of(sampling, deprecated)
        times = chosen.times(self.denoiser.schedule)
        action = self.act(table, do, seed=seed, keys=keys)
        groups = self._groups(guidance, action, partition)
        self._table(guidance, groups, times, batch_size)
        abduction = self._abduct(x, table, keys, times, chosen.solver, batch_size, on_step)
        return self._predict(abduction, action, guidance, groups, batch_size, on_step)

    def abduct(
        self,
        images: ImagesLike,
        attributes: Mapping[str, ArrayLike],
        *,
        sampling: SamplingLike = "default",
        keys: Keys | None = None,
        any_size: bool = False,
        batch_size: int = 256,
        on_step: OnStep | None = None,
        **deprecated: Unpack[SamplingParts],
    ) -> Abduction:
        """Infer the noise behind images: unguided inversion under their attributes (Algorithm 1).

        Args:
            images: As in :meth:`counterfactual`, and so the others.
            attributes: Factual.
            sampling: Solver, grid and steps; the prediction uses them, too.
            keys: A name or number for each image, made of its pixels by default.
            any_size: Permission to ask about images of another size than the model's.
            batch_size: The most network rows at once.
            on_step: Told of every step, with the share that is done.
            **deprecated: Parts of ``sampling`` by the keywords of fcfg 0.1.
        """
        x, table = self._door(images, attributes, any_size=any_size)
        keys = image_keys(x) if keys is None else keys
        chosen = sampling_of(sampling, deprecated)
        times = chosen.times(self.denoiser.schedule)
        return self._abduct(x, table, keys, times, chosen.solver, batch_size, on_step)

    def act(
        self,
        attributes: Mapping[str, ArrayLike],
        do: Mapping[str, Intervention],
        *,
        seed: int = 0,
        keys: Keys | None = None,
    ) -> Action:
        """Turn an intervention into counterfactual attributes (Algorithm 2).

        Args:
            attributes: Factual.
            do: For every target what :meth:`counterfactual` takes.
            seed: Of what discrete attributes leave open.
            keys: A name or number for each image, combined with the seed: ``abduction.keys``
                gives the answers of :meth:`counterfactual`. Its position by default.
        """
        check_is("do", do, Mapping, "a mapping from names to values")
        table = self.space.parse(attributes)
        downstream = self.graph.affected(do) - set(do)
        noise = self.scm.abduct(table, downstream, seed=seed, keys=keys)
        return Action(self.scm.act(table, do, noise), tuple(do), seed)

    def predict(
        self,
        abduction: Abduction,
        action: Action,
        guidance: Guidance = DEFAULT_GUIDANCE,
        *,
        partition: Partition | None = None,
        batch_size: int = 256,
        on_step: OnStep | None = None,
    ) -> Counterfactual:
        """Generate from abducted noise under counterfactual attributes (Algorithms 3 to 9).

        Args:
            abduction: What :meth:`abduct` gave; reuse it for every question.
            action: What :meth:`act` gave.
            guidance: How strongly to push each group of attributes.
            partition: What is in the groups, where their names do not say.
            batch_size: The most network rows at once.
            on_step: Told of every step, with the share that is done.
        """
        check_is("abduction", abduction, Abduction, "the result of pipeline.abduct")
        check_is("action", action, Action, "the result of pipeline.act")
        kept = set(self.space.names) - self.graph.affected(action.targets)
        abduction.check(action, kept, self._fingerprint)
        groups = self._groups(guidance, action, partition)
        return self._predict(abduction, action, guidance, groups, batch_size, on_step)

    def reverse(
        self,
        pair: Counterfactual,
        *,
        batch_size: int = 256,
        on_step: OnStep | None = None,
    ) -> Counterfactual:
        """Go back to the factual attributes, with the same guidance, groups and steps.

        The clamped images are abducted, as anybody else would who was given them. The structural
        causal model is not asked: the target is the factual attributes themselves.

        Args:
            pair: What :meth:`counterfactual` or :meth:`predict` gave.
            batch_size: The most network rows at once.
            on_step: Told of every step, with the share that is done.
        """
        check_is("pair", pair, Counterfactual, "the result of pipeline.counterfactual")
        question = pair.abduction
        self._table(pair.guidance, pair.partition, question.times, batch_size)
        abduction = self._abduct(
            pair.images,
            pair.attributes,
            question.keys,
            question.times,
            question.solver,
            batch_size,
            on_step,
        )
        back = replace(pair.action, attributes=question.attributes)
        return self._predict(abduction, back, pair.guidance, pair.partition, batch_size, on_step)

    def _door(
        self, images: ImagesLike, attributes: Mapping[str, ArrayLike], *, any_size: bool
    ) -> tuple[Tensor, Table]:
        denoiser = self.denoiser
        x = read_images(
            images,
            channels=denoiser.channels,
            stride=denoiser.stride,
            size=None if any_size else denoiser.size,
        )
        table = self.space.parse(attributes)
        length = len(table[self.space.names[0]])
        if length != len(x):
            raise InputError(
                "attributes",
                expected=f"{len(x)} values in each column, one for each image",
                got=length,
                do="give one value for each image",
            )
        return x, table

    def _groups(
        self, guidance: Guidance, action: Action, partition: Partition | None
    ) -> Partition:
        check_is("guidance", guidance, Guidance, "a fcfg.Guidance", do="call Guidance.parse(text)")
        if partition is not None:
            check_is("partition", partition, Partition, "a fcfg.Partition")
        return guidance.partition(self.graph, action.targets, partition)

    def _abduct(
        self,
        images: Tensor,
        table: Table,
        keys: Keys,
        times: tuple[int, ...],
        solver: AbstractSolver,
        batch_size: int,
        on_step: OnStep | None,
    ) -> Abduction:
        check_integer("batch_size", batch_size, 1, 10**9, do="256 is the default")

        def predictor(rows: slice) -> AbstractPredictor:
            return ConditionalPredictor(self.denoiser, self._condition(table, rows))

        start = Trajectory(images.to(self.denoiser.state_dtype))
        end = self._follow(predictor, start, self._plan(times), solver, batch_size, on_step)
        return Abduction(end, table, keys, times, solver, self._fingerprint)

    def _predict(
        self,
        abduction: Abduction,
        action: Action,
        guidance: Guidance,
        partition: Partition,
        batch_size: int,
        on_step: OnStep | None,
    ) -> Counterfactual:
        denoiser = self.denoiser
        table = self._table(guidance, partition, abduction.times, batch_size)
        keep = torch.tensor(
            Partition({group: partition[group] for group in table.groups}).mask(self.space.names),
            dtype=torch.bool,
            device=denoiser.device,
        ).view(len(table.groups), len(self.space))

        def predictor(rows: slice) -> AbstractPredictor:
            return guidance.predictor(denoiser, self._condition(action.attributes, rows), keep)

        plan, size = self._plan(abduction.times[::-1], table), batch_size // table.rows
        start, solver = abduction.trajectory, abduction.solver
        end = self._follow(predictor, start, plan, solver, size, on_step)
        broken = (~end.x.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
        if broken:
            warnings.warn(
                f"counterfactual: NaN or infinity in the images {short(broken)} under {guidance}; "
                "lower its weights or take more steps",
                stacklevel=3,
            )
        return Counterfactual(end, abduction, action, partition, guidance)

    def _table(
        self, guidance: Guidance, partition: Partition, times: Sequence[int], batch_size: int
    ) -> WeightTable:
        """Weights of a prediction, refused where one image alone is more than a batch."""
        table = guidance.table(partition, times[::-1], self.denoiser.schedule)
        table.check_batch(batch_size)
        return table

    def _follow(
        self,
        predictor: Callable[[slice], AbstractPredictor],
        start: Trajectory,
        plan: Plan,
        solver: AbstractSolver,
        size: int,
        on_step: OnStep | None,
    ) -> Trajectory:
        """Follow a plan as the network was prepared, recorded on a GPU, and without dropout."""
        if self._recorder is not None:
            solver = self._recorder.replaying(solver)
        with evaluating(self.denoiser):
            return integrate_chunks(predictor, start, plan, solver, size=size, on_step=on_step)

    def _plan(self, times: Sequence[int], table: WeightTable | None = None) -> Plan:
        return Plan.build(
            self.denoiser.schedule,
            times,
            weights=None if table is None else table.weights,
            guided=None if table is None else table.guided,
            device=self.denoiser.device,
            dtype=self.denoiser.state_dtype,
        )

    @property
    def _fingerprint(self) -> str:
        """A digest of the embedder, which is small, and which no two models share."""
        return digest_of(self.denoiser.embedder)

    def _condition(self, table: Table, rows: slice) -> Tensor:
        return self.denoiser.condition({name: column[rows] for name, column in table.items()})
