"""Results of a pipeline: inferred noise, counterfactual attributes, counterfactual images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.causal.graph import Partition
from fcfg.guidance import Drawing, Guidance
from fcfg.model import AbstractAbduction, AbstractCounterfactual, Action
from fcfg.pipeline.plans import GuidedPlan
from fcfg.sampling import AbstractSolver, Anchor, Path, SamplingConfig, Trajectory
from fcfg.support.errors import InputError


@dataclass(frozen=True, eq=False)
class FactualBranch(Anchor):
    """An anchor, and everything about the guidance that it depends on."""

    guidance: str = ""


@dataclass(frozen=True, eq=False)
class Abduction(AbstractAbduction):
    """The noise behind images under their own attributes; reusable for many questions."""

    trajectory: Trajectory = field(repr=False)  #: at time T, on the CPU
    sampling: SamplingConfig  #: used by the prediction, too
    times: tuple[int, ...] = field(repr=False)  #: the ascending grid
    model: str = field(default="", repr=False)  #: digest of the model's embedder, if known
    path: Path | None = field(default=None, repr=False)  #: for anchored predictions, on the CPU
    #: What the images contribute to their conditions, in SA-DCG, on the CPU.
    semantics: Float[Tensor, "batch latent"] | None = field(default=None, repr=False)
    drawing: Drawing | None = None  #: of the noise, if it is not inferred
    anchor: FactualBranch | None = field(default=None, repr=False)  #: of the last question

    @property
    def noise_is_drawn(self) -> bool:
        """Whether the noise is drawn; it serves guidance with drawn noise only."""
        return self.drawing is not None

    @property
    def solver(self) -> AbstractSolver:
        """The solver."""
        return self.sampling.solver

    def unchanged(self, action: Action) -> Bool[Tensor, "batch"]:
        """Return which images an action leaves with their factual attributes."""
        columns = self.attributes.items()
        return torch.from_numpy(
            np.all([column == action.attributes[name] for name, column in columns], axis=0)
        )

    @property
    def inferred(self) -> dict[str, Tensor]:
        end, path = self.trajectory, self.path
        tensors = {"x": end.x, "evaluations": torch.tensor(end.spent)}
        tensors |= {f"companion-{i}": companion for i, companion in enumerate(end.companions)}
        optional = {
            "residual": end.residual,
            "states": None if path is None else path.states.transpose(0, 1),
            "noises": None if path is None or path.noises is None else path.noises.transpose(0, 1),
            "semantics": self.semantics,
        }
        return tensors | {name: value for name, value in optional.items() if value is not None}

    def check(self, plan: GuidedPlan, model: str) -> None:
        """Refuse another model, and a plan that needs more than is here."""
        guidance, drawn = plan.setting, self.noise_is_drawn
        lacks_path = plan.abduction.path != "none" and self.path is None
        for is_wrong, expected, got in (
            (
                self.model not in ("", model),
                "what abduct gave of this model",
                "that of another model",
            ),
            (plan.sampling != self.sampling, f"one by {plan.sampling}", f"{self.sampling}"),
            (drawn and not guidance.drawn_noise, f"inferred noise for {guidance}", "drawn noise"),
            (lacks_path, f"one that kept its path, for {guidance}", "no path"),
        ):
            if is_wrong:
                do = "abduct the images with the pipeline and the plan of the prediction"
                raise InputError("abduction", expected=expected, got=got, do=do)


@dataclass(frozen=True, eq=False)
class DecodedAnswer:
    """An answer in latents, as images."""

    images: Float[Tensor, "batch channel *size"]  #: the factual image and what changes, unclamped
    round_trip: Float[Tensor, "batch"]  #: what the codec loses of the factual image (RMS)


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual(AbstractCounterfactual):
    """Counterfactual images, with everything they were computed from."""

    abduction: Abduction
    plan: GuidedPlan
    trajectory: Trajectory  #: at time 0, unclamped, on the CPU
    decoded: DecodedAnswer | None = None  #: of a model of latents

    @property
    def guidance(self) -> Guidance:
        """The guidance."""
        return self.plan.setting

    @property
    def partition(self) -> Partition:
        """The guided groups."""
        return self.plan.partition

    @property
    def correction(self) -> Float[Tensor, "batch"] | None:
        """Size of the anchor's corrections (RMS over pixels); None unless it is anchored."""
        anchor = self.abduction.anchor if self.plan.setting.anchor else None
        if anchor is None:
            return None
        return anchor.size.unflatten(0, (len(self.abduction.images), -1)).mean(dim=1)

    @property
    def images(self) -> Float[Tensor, "batch channel *size"]:
        images = self.trajectory.x if self.decoded is None else self.decoded.images
        return images.clamp(-1, 1)

    @property
    def round_trip(self) -> Float[Tensor, "batch"] | None:
        return None if self.decoded is None else self.decoded.round_trip

    @property
    def spent(self) -> Sequence[int]:
        return self.trajectory.spent
