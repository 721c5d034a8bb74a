"""Results of a pipeline: inferred noise, counterfactual attributes, counterfactual images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fcfg.causal.graph import Partition
from fcfg.guidance import Guidance, PathKind
from fcfg.model import AbstractAbduction, AbstractCounterfactual, Action, Plan, check_action
from fcfg.sampling import AbstractSolver, Anchor, Path, SamplingConfig, Trajectory
from fcfg.support.errors import InputError


@dataclass(frozen=True)
class Needs:
    """What an abduction must be to serve a question."""

    sampling: SamplingConfig  #: solver, grid and steps
    path: PathKind  #: states of the factual image that are kept


@dataclass(frozen=True, eq=False, kw_only=True)
class GuidedPlan(Plan[Guidance]):
    """How a pipeline answers a question, with all defaults filled in."""

    abduction: Needs  #: what the abduction must be
    partition: Partition  #: the guided groups

    def shared(self) -> Self:
        """Return the plan with an abduction that keeps its path, for any guidance."""
        if self.abduction.path != "none":
            return self
        return replace(self, abduction=replace(self.abduction, path="inferred"))


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
    noise_is_drawn: bool = False  #: instead of inferred; serves guidance with drawn noise only
    anchor: FactualBranch | None = field(default=None, repr=False)  #: of the last question

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
        """Noise, path and semantics of each image."""
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

    def check_sampling(self, plan: GuidedPlan) -> None:
        """Refuse the plan of a prediction with another solver, grid or number of steps."""
        if plan.sampling != self.sampling:
            raise InputError(
                "plan",
                expected=f"the sampling of the abduction, {self.sampling}",
                got=str(plan.sampling),
                do="pass the same plan to abduct",
            )

    def check(self, action: Action, kept: Collection[str], model: str) -> None:
        """Refuse an action on other images, and a prediction by another model.

        Args:
            action: The action.
            kept: Attributes that the action does not change.
            model: Digest of the embedder of the predicting model.
        """
        if self.model not in ("", model):
            raise InputError(
                "abduction",
                expected="what abduct gave of this model",
                got="that of another model",
                do="abduct the images with the pipeline that predicts",
            )
        check_action(action, self.attributes, kept)


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual(AbstractCounterfactual):
    """Counterfactual images, with everything they were computed from."""

    abduction: Abduction
    plan: GuidedPlan
    trajectory: Trajectory  #: at time 0, unclamped, on the CPU
    #: Size of the anchor's corrections (RMS over pixels); None if the prediction is not anchored.
    correction: Float[Tensor, "batch"] | None = field(default=None, repr=False)

    @property
    def guidance(self) -> Guidance:
        """The guidance."""
        return self.plan.setting

    @property
    def partition(self) -> Partition:
        """The guided groups."""
        return self.plan.partition

    @property
    def images(self) -> Float[Tensor, "batch channel height width"]:
        """Counterfactual images, clamped to [-1, 1]."""
        return self.trajectory.x.clamp(-1, 1)

    @property
    def spent(self) -> Sequence[int]:
        """Network rows of each image, abduction included."""
        return self.trajectory.spent
