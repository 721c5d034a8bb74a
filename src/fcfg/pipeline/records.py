"""What a pipeline gives: the noise it inferred, the attributes it derived, its answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.causal.graph import Partition
from fcfg.causal.scm import Keys
from fcfg.guidance import Guidance
from fcfg.sampling import AbstractSolver, Trajectory
from fcfg.support.errors import InputError


@dataclass(frozen=True, eq=False)
class Abduction:
    """The noise behind images under their own attributes; reusable for any question."""

    trajectory: Trajectory  #: at time T, on the CPU
    attributes: Table = field(repr=False)  #: factual
    keys: Keys = field(repr=False)  #: a name for each image, which seeds are combined with
    times: tuple[int, ...] = field(repr=False)  #: the ascending grid
    solver: AbstractSolver  #: predicts, too
    model: str = field(default="", repr=False)  #: digest of the model's embedder, where known

    def check(self, action: Action, kept: Collection[str], model: str) -> None:
        """Refuse an action on other images, and a prediction by another model.

        Args:
            action: What is asked for.
            kept: The attributes that it leaves as they are.
            model: Digest of the embedder of the model that is to predict.
        """
        if self.model not in ("", model):
            raise InputError(
                "abduction",
                expected="what abduct gave of this model",
                got="that of another model",
                do="abduct the images with the pipeline that predicts",
            )
        asked, found = (len(next(iter(r.attributes.values()))) for r in (action, self))
        if asked != found or not all(
            np.array_equal(action.attributes[name], self.attributes[name]) for name in kept
        ):
            raise InputError(
                "action",
                expected=f"attributes for the {found} images of the abduction",
                got=f"{asked} other ones",
                do="make both from the same images",
            )


@dataclass(frozen=True, eq=False)
class Action:
    """Attributes under an intervention."""

    attributes: Table = field(repr=False)  #: counterfactual
    targets: tuple[str, ...]  #: the attributes intervened on
    seed: int  #: of what discrete attributes leave open


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """The answer to a what-if, with everything it came from."""

    trajectory: Trajectory  #: at time 0, unclamped, on the CPU
    abduction: Abduction  #: where it started
    action: Action  #: the attributes it was asked for
    partition: Partition  #: the groups that were guided
    guidance: Guidance  #: and how

    @property
    def images(self) -> Float[Tensor, "batch channel height width"]:
        """Counterfactual images in [-1, 1], for files, metrics and eyes."""
        return self.trajectory.x.clamp(-1, 1)

    @property
    def attributes(self) -> Table:
        """Counterfactual attributes."""
        return self.action.attributes

    @property
    def evaluations(self) -> int | float:
        """Network rows for each image, abduction included; their mean where images differ."""
        spent = self.trajectory.spent
        return spent[0] if len(set(spent)) == 1 else sum(spent) / len(spent)
