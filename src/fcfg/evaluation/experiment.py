"""An experiment: questions, how they are answered, and what that costs."""

from __future__ import annotations

from itertools import chain
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from fcfg.evaluation.result_files import BASELINE
from fcfg.model import AnyModel, Plan, parse_setting
from fcfg.sampling import PRESETS, as_sampling
from fcfg.support.errors import InputError, check_among
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.names import check_folder_name

_OWN = " @ "  # between a guidance and a sampling of its own


class Asked(BaseModel, frozen=True, extra="forbid"):
    """What a method is asked under one intervention, each text with the sampling of the method."""

    calibrated: str = Field(min_length=1)  #: guidance with the calibrated weight
    published: str = ""  #: guidance that its authors use
    weights: tuple[str, ...] = ()  #: guidance at every weight, ascending

    @field_validator("*")
    @classmethod
    def _check(cls, given: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if isinstance(given, str):
            return given and _canonical(given, None)
        return tuple(dict.fromkeys(_canonical(text, None) for text in given))

    @property
    def texts(self) -> tuple[str, ...]:
        """All guidances, those of interest first."""
        return tuple(filter(None, (self.calibrated, self.published, *self.weights)))


class Experiment(BaseModel, frozen=True, extra="forbid"):
    """A sweep: every intervention under every guidance, on the same images."""

    name: str = ""  #: name in reports, and of the folder of the results
    title: str = ""  #: one sentence
    do: tuple[str, ...]
    """Interventions: an attribute, or several joined by +. A binary attribute is flipped, a
    categorical one set to another level; for continuous ones see ``continuous``."""
    anchor: bool | None = Field(default=None, exclude=True)
    """Whether to anchor all guidances, or none; by default as their text says."""
    guidance: tuple[str, ...]
    """Guidances, or settings of another kind of model, as text; 'none', the baseline, is added.
    One may have a sampling of its own: 'cfg:3 @ ddim uniform 20'."""
    also: dict[str, tuple[str, ...]] = {}  #: further guidances for a single intervention
    methods: dict[str, dict[str, Asked]] = {}  #: compared methods, by name and intervention
    calibrated_by: str = ""  #: digest of the judge with which methods were calibrated
    continuous: Literal["permuted", "quantiles"] = "permuted"
    """Values of continuous targets: those of other images, or the 10th or the 90th percentile of
    the images, the one that is farther from the factual value."""
    images: int = Field(default=1000, ge=1, le=10**6)  #: largest number of images
    balance: tuple[str, ...] | None = None
    """Discrete attributes whose combinations are made equally frequent: by default all of them;
    drawn worlds are not balanced."""
    sampling: str = str(PRESETS["default"])  #: solver, grid and steps, see :mod:`fcfg.sampling`
    reverse: bool = True  #: whether to reverse counterfactuals and measure the error
    composition: bool = True  #: whether to ask the null intervention, too
    cycles: int = Field(default=1, ge=1, le=1000)
    """Null interventions in a row, each on the answer to the last one. If there are several, they
    are asked under every guidance, not only without."""
    fid: bool = False  #: whether to measure FID if its weights are found
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Seed for choosing images, drawing targets and sampling the causal model."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        return "/".join(map(check_folder_name, name.split("/")))

    @field_validator("do")
    @classmethod
    def _check_do(cls, do: tuple[str, ...]) -> tuple[str, ...]:
        joined = tuple(map(_joined, do))
        targets = [text.split("+") for text in joined]
        is_legal = all(all(names) and len(set(names)) == len(names) for names in targets)
        if not joined or len(set(joined)) < len(joined) or not is_legal:
            raise InputError(
                "do",
                expected="attributes, each once, or several joined by +",
                got=list(do),
                do="write [smiling, smiling+male]",
            )
        return joined

    @field_validator("guidance")
    @classmethod
    def _check_guidance(cls, guidance: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        anchor = info.data.get("anchor")
        return tuple(dict.fromkeys([BASELINE, *(_canonical(text, anchor) for text in guidance)]))

    @field_validator("also")
    @classmethod
    def _check_also(
        cls, also: dict[str, tuple[str, ...]], info: ValidationInfo
    ) -> dict[str, tuple[str, ...]]:
        anchor, given = info.data.get("anchor"), also.items()
        return {_joined(do): tuple(_canonical(t, anchor) for t in texts) for do, texts in given}

    @field_validator("sampling", mode="before")
    @classmethod
    def _check_sampling(cls, sampling: Any) -> str:
        return str(as_sampling(sampling))

    @model_validator(mode="after")
    def _check_questions(self) -> Experiment:
        for subject, dos in (("also", self.also), *self.methods.items()):
            for do in dos:
                check_among(subject, do, self.do)
        if self.methods and self.anchor is not None:
            expected, do = "none with methods, whose guidances say it", "leave it out"
            raise InputError("anchor", expected=expected, got=self.anchor, do=do)
        return self

    @property
    def questions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of intervention and guidance, each once; the null intervention comes first."""
        own = {do: [f[do].texts for f in self.methods.values() if do in f] for do in self.do}
        pairs = [
            (do, text)
            for do in self.do
            for text in chain(self.guidance, self.also.get(do, ()), *own[do])
        ]
        null = self.guidance if self.cycles > 1 else (BASELINE,)
        return tuple(dict.fromkeys([("", text) for text in null] * self.composition + pairs))

    def returns(self, do: str) -> int:
        """Return how often an answer is inverted and predicted again, under factual attributes.

        Once to reverse an intervention; for the null one, once for every cycle after the first.
        """
        return int(self.reverse) if do else self.cycles - 1

    def plans(self, model: AnyModel) -> dict[tuple[str, str], Plan[Any]]:
        """Return how a model answers every question."""
        plans: dict[tuple[str, str], Plan[Any]] = {}
        for do, text in self.questions:
            stated, own = parts_of(text)
            setting = model.parse_setting(stated)
            if own and not model.traits.steps:
                wanted, do = f"none of a {model.kind} model, which has no steps", "leave it out"
                raise InputError(f"sampling of '{text}'", expected=wanted, got=own, do=do)
            sampling = own or self.sampling
            plans[do, text] = model.plan(targets_of(do), setting, sampling=sampling)
        return plans

    @property
    def targets(self) -> tuple[str, ...]:
        """All attributes that are intervened on."""
        return tuple(dict.fromkeys(name for do in self.do for name in targets_of(do)))


def parts_of(text: str) -> tuple[str, str]:
    """Return a guidance and the sampling of its own, which is "" if it has none.

    >>> parts_of("cfg:3.0 @ ddim uniform 20"), parts_of("none")
    (('cfg:3.0', 'ddim uniform 20'), ('none', ''))
    """
    stated, mark, own = text.rpartition(_OWN)
    return (stated, own) if mark else (text, "")


def draws_noise(setting: object) -> bool:
    """Return whether a setting draws its noise instead of inferring it."""
    return bool(getattr(setting, "drawn_noise", False))


def targets_of(do: str) -> tuple[str, ...]:
    """Return the attributes of an intervention.

    >>> targets_of("smiling+male"), targets_of("")
    (('smiling', 'male'), ())
    """
    return tuple(do.split("+")) if do else ()


def _canonical(text: str, anchor: bool | None) -> str:
    text, own = parts_of(text)
    setting = parse_setting(text)
    if anchor is not None and hasattr(setting, "anchor"):
        setting = setting.replace(anchor=True) if anchor else setting.unanchored
    elif anchor is not None:
        raise InputError(
            "anchor",
            expected=f"none with '{text}', which has no path to anchor",
            got=anchor,
            do="leave it out",
        )
    return repr(setting) + (f"{_OWN}{as_sampling(own)}" if own else "")


def _joined(do: str) -> str:
    return "+".join(name.strip() for name in do.split("+"))
