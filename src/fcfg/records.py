"""What a pipeline gives: the noise it inferred, the attributes it derived, its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from fcfg.attributes import Table
from fcfg.graph import Partition
from fcfg.guidance import Guidance
from fcfg.sampling import AbstractSolver, Trajectory
from fcfg.scm import Keys


@dataclass(frozen=True, eq=False)
class Abduction:
    """The noise behind images under their own attributes; reusable for any question."""

    trajectory: Trajectory  #: at time T, on the CPU
    attributes: Table = field(repr=False)  #: factual
    keys: Keys = field(repr=False)  #: a name for each image, which seeds are combined with
    times: tuple[int, ...] = field(repr=False)  #: the ascending grid
    solver: AbstractSolver  #: predicts, too


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
