"""An experiment: which questions, asked how, of how many images."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fcfg.evaluation.result_files import BASELINE
from fcfg.guidance import Guidance
from fcfg.sampling import GRIDS, PRESETS, as_solver
from fcfg.support.errors import InputError, check_among
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.names import check_folder_name

_DEFAULT = PRESETS["default"]


class Experiment(BaseModel):
    """A sweep: every intervention under every guidance, on the same images."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""  #: what reports call it, and the folder of its results
    title: str = ""  #: in one sentence
    do: tuple[str, ...]
    """Interventions: an attribute, or several joined by +. A binary attribute is flipped, a
    categorical one drawn among its other levels; of a continuous one, see ``continuous``."""
    guidance: tuple[str, ...]  #: as texts; 'none' is added, for others are compared with it
    also: dict[str, tuple[str, ...]] = {}  #: further guidances, of one intervention alone
    continuous: Literal["permuted", "quantiles"] = "permuted"
    """Values of continuous targets: those of other images, or the 10th or the 90th percentile of
    the images, whichever is farther from an image's own value."""
    images: int = Field(default=1000, ge=1, le=10**6)  #: at most
    balance: tuple[str, ...] | None = None
    """Discrete attributes whose combinations are to be equally frequent: by default all, but
    drawn worlds are taken as they come."""
    steps: int = Field(default=_DEFAULT.steps, ge=1, le=10**6)  #: the paper has 1,000
    solver: str = str(_DEFAULT.solver)  #: how they are taken, as text; the paper has DDIM
    grid: str = _DEFAULT.grid  #: where they are: 'uniform', 'log-snr' or 'karras'
    reverse: bool = True  #: also go back, and measure what is lost
    composition: bool = True  #: also ask the null question
    fid: bool = False  #: also measure FID, where its weights are found
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Of the images chosen, the values drawn, the causal model."""

    @field_validator("name")
    @classmethod
    def _is_a_path(cls, name: str) -> str:
        return "/".join(map(check_folder_name, name.split("/")))

    @field_validator("do")
    @classmethod
    def _questions(cls, do: tuple[str, ...]) -> tuple[str, ...]:
        joined = tuple(map(_joined, do))
        if not joined or len(set(joined)) < len(joined) or not all(map(_is_question, joined)):
            raise InputError(
                "do",
                expected="attributes, each once, or several joined by +",
                got=list(do),
                do="write [smiling, smiling+male]",
            )
        return joined

    @field_validator("guidance")
    @classmethod
    def _texts(cls, guidance: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([BASELINE, *map(_canonical, guidance)]))

    @field_validator("also")
    @classmethod
    def _more_texts(cls, also: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {_joined(do): tuple(map(_canonical, texts)) for do, texts in also.items()}

    @field_validator("solver")
    @classmethod
    def _solver(cls, solver: str) -> str:
        return str(as_solver(solver))

    @field_validator("grid")
    @classmethod
    def _grid(cls, grid: str) -> str:
        check_among("grid", grid, GRIDS)
        return grid

    @model_validator(mode="after")
    def _known(self) -> Experiment:
        for do in self.also:
            check_among("also", do, self.do)
        return self

    @property
    def questions(self) -> tuple[tuple[str, str], ...]:
        """Intervention and guidance, each once; the null intervention comes first."""
        asked = [(do, text) for do in self.do for text in (*self.guidance, *self.also.get(do, ()))]
        return tuple(dict.fromkeys([("", BASELINE)] * self.composition + asked))

    @property
    def targets(self) -> tuple[str, ...]:
        """All attributes that are intervened on."""
        return tuple(dict.fromkeys(name for do in self.do for name in do.split("+")))


def _canonical(text: str) -> str:
    return repr(Guidance.parse(text))


def _joined(do: str) -> str:
    return "+".join(name.strip() for name in do.split("+"))


def _is_question(do: str) -> bool:
    names = do.split("+")
    return all(names) and len(set(names)) == len(names)
