r"""The pipeline: abduction, action, prediction (Sec. 3.3).

.. math:: \tilde x = f_\theta(f_\theta^{-1}(x, pa), \widetilde{pa})

Pearl's three steps are three methods: one abduction serves every intervention and every guidance.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self, TypeVar, Unpack

import torch
from pydantic import Field
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import Partition
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import DiT, OwnConfig, UNet, build_network
from fcfg.diffusion.schedule import Kind, NoiseSchedule
from fcfg.diffusion.table import Parameterisation, Table
from fcfg.guidance import Guidance, GuidanceLike
from fcfg.model import (
    Action,
    AttributesLike,
    CounterfactualModel,
    Factual,
    Options,
    Plan,
    Preparation,
    Run,
    Traits,
)
from fcfg.model.thresholds import Thresholds
from fcfg.pipeline.batching import Batches
from fcfg.pipeline.calibration import Calibration
from fcfg.pipeline.drawn_noise import check_path
from fcfg.pipeline.inference import (
    abduct_images,
    decode_answer,
    generate_images,
    ready,
    restore_abduction,
)
from fcfg.pipeline.methods import Methods
from fcfg.pipeline.modules import CodecConfig, stored_codec
from fcfg.pipeline.plans import Defaults, GuidedPlan, Needs, chosen_sampling
from fcfg.pipeline.records import Abduction, Counterfactual
from fcfg.pipeline.runtime import Execution, StepRecorder, fitting_rows, prepare_denoiser
from fcfg.sampling import PRESETS, SamplingLike, as_sampling
from fcfg.storage import ModelConfig, register_kind
from fcfg.support.errors import InputError, check_is, check_keywords, short
from fcfg.support.hashing import digest_of
from fcfg.support.images import ImagesLike

DenoiserT = TypeVar("DenoiserT", bound=Denoiser)


class DenoiserConfig(ModelConfig[DenoiserT]):
    """What folders of all pipelines hold: how images are noised, and two records."""

    records: ClassVar = {"calibration": Calibration, "thresholds": Thresholds, "methods": Methods}

    parameterisation: Parameterisation
    schedule: Kind | Table
    steps: int  #: number T of times
    shift: float = 1.0  #: of the times of a flow

    @classmethod
    def describe(cls, image_model: DenoiserT) -> dict[str, Any]:
        schedule = image_model.schedule
        return {
            "parameterisation": image_model.parameterisation,
            "schedule": schedule.kind,
            "steps": schedule.steps,
            "shift": schedule.shift,
        }

    @property
    def noising(self) -> NoiseSchedule:
        """The schedule."""
        return NoiseSchedule(self.schedule, self.steps, self.shift)


class DiffusionConfig(DenoiserConfig[Denoiser]):
    """A diffusion pipeline."""

    kind: str = "diffusion"  #: the first ones do not say it
    network: OwnConfig | str  #: or the name of a user-defined class
    channels: int = Field(ge=1)
    stride: int = Field(ge=1)
    embedding: int = Field(ge=1)  #: width of an attribute's block
    dimensions: int = Field(default=2, ge=1, le=3)  #: axes of an image beside its channels
    codec: CodecConfig | None = None  #: whose latents the network works on

    @classmethod
    def describe(cls, image_model: Denoiser) -> dict[str, Any]:
        """Return what the denoiser is made of; refuse an embedder that cannot be built again."""
        network, embedder = image_model.network, image_model.embedder
        do = "save a model of your own kind, see fcfg.storage.register_kind"
        check_is("denoiser, embedder", embedder, AttributeEmbedder, "an AttributeEmbedder", do=do)
        is_known = type(network) in (UNet, DiT)
        return super().describe(image_model) | {
            "network": network.config if is_known else type(network).__qualname__,
            "channels": image_model.channels,
            "stride": image_model.stride,
            "embedding": embedder.width,
            "dimensions": image_model.dimensions,
            "codec": None if image_model.codec is None else CodecConfig.of(image_model.codec),
        }

    @classmethod
    def networks(cls, image_model: Denoiser) -> dict[str, nn.Module]:
        own = {"network": image_model.network, "embedder": image_model.embedder}
        return own | stored_codec(image_model.codec)

    def build(self, space: AttributeSpace, network: nn.Module | None) -> Denoiser:
        with torch.device("meta"):
            embedder = AttributeEmbedder(space, self.embedding)
            if not isinstance(self.network, str):
                network = build_network(self.network)
        assert network is not None, "load asks for the network of a user-defined class"
        return Denoiser(
            network,
            embedder,
            self.noising,
            channels=self.channels,
            stride=self.stride,
            dimensions=self.dimensions,
            parameterisation=self.parameterisation,
            codec=None if self.codec is None else self.codec.build(),
        )


@register_kind(DiffusionConfig)
class CounterfactualPipeline(CounterfactualModel[Abduction, Guidance, Counterfactual]):
    """Counterfactual images from a denoiser and a structural causal model.

    Args:
        denoiser: Image model.
        scm: Attribute model, over the attributes of the denoiser's embedder.
        judge: Classifier that reads attributes from images.
        provenance: JSON values that describe how the model was made.
    """

    kind = "diffusion"
    traits = Traits(steps=True, groups=True, any_size=True, trust=True, compared=None)
    inferred, setting = Abduction, Guidance
    defaults: ClassVar[Defaults] = Defaults()

    def __init__(
        self,
        denoiser: Denoiser,
        scm: StructuralCausalModel,
        *,
        judge: nn.Module | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        check_is("pipeline, denoiser", denoiser, Denoiser, "a fcfg.Denoiser")
        super().__init__(scm, judge=judge, provenance=provenance)
        if scm.space != denoiser.embedder.space:
            raise InputError(
                "pipeline",
                expected="one attribute space for denoiser and structural causal model",
                got=f"{list(denoiser.embedder.space.names)} and {list(scm.space.names)}",
                do="build both from the same AttributeSpace",
            )
        self.denoiser = denoiser
        self.channels, self.stride, self.size = denoiser.channels, denoiser.stride, denoiser.size
        self.dimensions = denoiser.dimensions
        self.calibration: Calibration | None = None  #: chosen weights, the default guidance
        self.methods: Methods | None = None  #: compared on validation images
        self.execution: Execution | None = None  #: set by :meth:`prepare`
        self._recorder: StepRecorder | None = None

    def __repr__(self) -> str:
        network, size = type(self.denoiser.network).__name__, self.parameters / 1e6
        return f"CounterfactualPipeline({network} of {size:.1f} M parameters, {self.graph})"

    @property
    def image_model(self) -> Denoiser:
        return self.denoiser

    def fitting_rows(self, size: tuple[int, ...]) -> int:
        return fitting_rows(self.denoiser, size)

    def plan(
        self,
        targets: Collection[str],
        setting: GuidanceLike | None = None,
        *,
        anchor: bool | None = None,
        sampling: SamplingLike = "default",
        partition: Partition | None = None,
    ) -> GuidedPlan:
        """Return guidance, groups and sampling of a question.

        ``partition`` has the attributes of each group, for groups other than affected and
        invariant; other arguments are those of the contract.
        """
        is_paper = as_sampling(sampling) == PRESETS["paper"]
        guidance = self.defaults.guidance(self.calibration, targets, setting, anchor, is_paper)
        kinds = guidance.anchor, guidance.drawn_noise
        chosen = chosen_sampling(sampling, self.calibration, *kinds)
        return GuidedPlan.resolve(self.denoiser, self.graph, guidance, chosen, targets, partition)

    def to(self, device: torch.device | str) -> Self:
        """Move the networks and prepare them again; the causal model stays on the CPU."""
        super().to(device)
        return self if self.execution is None else self._prepared(self.execution)

    def prepare(self, precision: str = "auto", **how: Unpack[Preparation]) -> Self:
        """Choose how the network computes; its weights do not change.

        Answers differ only by rounding, most with bf16. The sampler stays in float32. Torch's
        switches for TF32 are set, which hold for the whole process: the last call counts.
        """
        check_keywords(self.prepare, how, Preparation.__annotations__)
        return self._prepared(Execution(precision, **how))

    def _prepared(self, execution: Execution) -> Self:
        self._recorder = prepare_denoiser(self.denoiser, execution)
        self.execution, self.compiled = execution, execution.compile
        self.precision = execution.on(self.device).precision
        return self

    def counterfactual(  # pyright: ignore[reportIncompatibleMethodOverride] # further keywords
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        do: Mapping[str, Intervention],
        *,
        guidance: GuidanceLike | None = None,
        sampling: SamplingLike = "default",
        anchor: bool | None = None,
        partition: Partition | None = None,
        plan: Plan[Guidance] | Mapping[str, Any] | None = None,
        seed: int = 0,
        **options: Unpack[Options],
    ) -> Counterfactual:
        """What would these images look like had the attributes been different?

        Args:
            images: Floats in [-1, 1], or pictures, paths or bytes, see :mod:`fcfg.support.images`.
            attributes: Columns by name, a data frame, rows, or 'auto': the judge reads them.
            do: For every target a value, a column, a function of the factual column, or a string
                such as 'flip' or '+10%', see :mod:`fcfg.causal.intervention`.
            guidance: Rule, and weight for each group, or its text form; by default that of
                :meth:`plan`.
            sampling: Solver, grid and steps, such as 'dpm-2m karras 20', or a number of steps;
                'paper' is 1,000 steps of DDIM. See :func:`fcfg.sampling.as_sampling`.
            anchor: Whether to subtract errors of the factual path; by default as guidance says.
            partition: Attributes of each group, for groups other than affected and invariant.
            plan: Result of :meth:`plan`, or its arguments, instead of the four above.
            seed: Seed for sampling discrete exogenous noise.
            **options: Keys and sizes of the images, rows per call, callback and bar, see
                :class:`fcfg.model.Options`.
        """
        how = {"anchor": anchor, "sampling": sampling, "partition": partition}
        plan = how | {"setting": guidance} if plan is None else plan
        return super().counterfactual(images, attributes, do, plan=plan, seed=seed, **options)

    def abduct(  # pyright: ignore[reportIncompatibleMethodOverride] # further keywords
        self,
        images: ImagesLike,
        attributes: AttributesLike,
        *,
        plan: Plan[Guidance] | None = None,
        sampling: SamplingLike = "default",
        anchor: bool | None = None,
        drawn_noise: bool = False,
        **options: Unpack[Options],
    ) -> Abduction:
        """Infer the noise behind images: unguided inversion under their attributes (Algorithm 1).

        Instead of a plan, ``sampling`` may say solver, grid and steps, which the prediction uses,
        too; ``anchor`` whether to keep the path for anchored predictions, as is done by default
        unless ``sampling`` is 'paper'; and ``drawn_noise`` whether to draw noise, not infer it,
        see :mod:`fcfg.pipeline.drawn_noise`. Other arguments are those of the contract.
        """
        if plan is None:
            is_paper = as_sampling(sampling) == PRESETS["paper"]
            keep = drawn_noise or not is_paper if anchor is None else anchor
            path = check_path(keep, drawn_noise)
            chosen = chosen_sampling(sampling, self.calibration, keep, drawn_noise)
            plan = Plan(Guidance.none(), 1, Needs(chosen, path))
        return super().abduct(images, attributes, plan=plan, **options)

    def infer(self, factual: Factual, plan: Plan[Guidance], run: Run) -> Abduction:
        assert isinstance(plan.abduction, Needs), "of another model"
        return abduct_images(self._batches(run), factual, plan.abduction, self._fingerprint)

    def restore(
        self, factual: Factual, plan: Plan[Guidance], inferred: Mapping[str, Tensor]
    ) -> Abduction | None:
        assert isinstance(plan.abduction, Needs), "of another model"
        about = (self.denoiser, self._fingerprint)
        return restore_abduction(*about, factual, plan.abduction, inferred)

    def plan_for(
        self, abduction: Abduction, targets: Collection[str], setting: Guidance | None
    ) -> GuidedPlan:
        """Return the plan by the sampling of an abduction; the paper's guidance without a path."""
        is_paper, sampling = abduction.path is None, abduction.sampling
        guidance = self.defaults.guidance(self.calibration, targets, setting, None, is_paper)
        return GuidedPlan.resolve(self.denoiser, self.graph, guidance, sampling, targets)

    def answer(
        self, abduction: Abduction, action: Action, plan: Plan[Guidance], run: Run
    ) -> Counterfactual:
        """Generate from noise under counterfactual attributes (Algorithms 3 to 9).

        The abduction of the answer keeps its factual branch, for the next question under this
        guidance.
        """
        assert isinstance(plan, GuidedPlan), "of another model"
        abduction.check(plan, self._fingerprint)
        batches = self._batches(run)
        abduction = ready(batches, abduction, plan)
        end = generate_images(batches, abduction, action, plan)
        broken = (~end.x.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
        if broken:
            warnings.warn(
                f"counterfactual: NaN or infinity in the images {short(broken)} under "
                f"{plan.setting}; lower its weights or take more steps",
                stacklevel=3,  # the caller of predict
            )
        return Counterfactual(abduction, action, plan, end, decode_answer(batches, abduction, end))

    def _batches(self, run: Run) -> Batches:
        return Batches(self.denoiser, run.batch_size, run.on_step, self._recorder)

    @property
    def _fingerprint(self) -> str:
        """Digest of the embedder, which is small and differs between models."""
        return digest_of(self.denoiser.embedder)
