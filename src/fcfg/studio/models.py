"""The models of a studio: read, compared, described for the page, and computed as fast as here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import numpy as np
import torch
from pydantic import BaseModel, RootModel, StringConstraints

from fcfg.causal.attributes import Binary
from fcfg.datasets import portraits
from fcfg.datasets.portraits.data import PortraitsData
from fcfg.guidance.rule import RULES, UNGUIDED
from fcfg.judge import AttributeJudge
from fcfg.model import AnyModel, Plan, model_format, training_data
from fcfg.sampling import GRIDS, SOLVERS
from fcfg.storage import read_beside
from fcfg.support.errors import InputError, short
from fcfg.support.hashing import digest_of
from fcfg.support.pictures import Pixels
from fcfg.support.volumes import Voxels

OPENING, PHRASES = "opening.json", "phrases.json"  #: files beside a model
NOTICE = "For research and play. The answers are made up by a model: no medical use."

_BUDGET = 1.0  # seconds of all measurements together
_GAIN = 1.5  # factor by which bf16 must be faster, since it rounds
_SAMPLING = "dpm-2m uniform 2"

_Option = TypeVar("_Option")

_WORLDS: tuple[str, ...] = get_args(PortraitsData.model_fields["format"].annotation)


class Phrases(RootModel[dict[str, tuple[str, str] | str]]):
    """What follows "What if", by attribute: for no and yes, or with {} in place of the value."""


class Opening(BaseModel, frozen=True, extra="forbid"):
    """The answer to the question that the page opens with, shown until it is computed here.

    It says all that it depends on, and is shown for no other question, nor for other weights.
    """

    weights: str  #: digest of those of the image model
    asked: dict[str, Any]  #: all else that the answer depends on
    image: Annotated[str, StringConstraints(pattern="^data:image/png;base64,[0-9A-Za-z+/=]+$")]


@dataclass(frozen=True, eq=False)
class StudioModel:
    """A model that the studio asks."""

    name: str  #: unique in the studio
    source: str  #: name or folder, as :func:`fcfg.load` reads it
    model: AnyModel = field(repr=False)
    pixels: Pixels | Voxels  #: shape of its images
    phrases: Phrases  #: of its questions
    opening: Opening | None = field(repr=False)  #: an answer of these weights

    @property
    def world(self) -> str | None:
        """Variant of the drawn world that the model knows, if its counterfactuals are known."""
        variant = str(training_data(self.model).get("format"))
        drawn = variant in _WORLDS and portraits.space(variant) == self.model.space
        return variant if drawn else None

    def describe(self) -> dict[str, Any]:
        """Return what the page needs to know, as JSON values."""
        model, has_steps = self.model, self.model.traits.steps
        said = {"words": model.words, "phrases": self.phrases.root}
        factored = [f"f{name}" for name in RULES] if model.traits.groups else []
        return {
            "name": self.name,
            "title": self.name.replace("-", " ").capitalize(),
            "kind": model.kind,
            "parameters": model.parameters,
            "size": model.size,
            "channels": self.pixels.channels,
            "attributes": [
                {"name": a.name, **a.to_config()}
                | {kind: own[a.name] for kind, own in said.items() if a.name in own}
                for a in model.space
            ],
            "graph": {name: list(parents) for name, parents in model.graph.parents.items()},
            "defaults": {name: describe_plan(model.plan([name])) for name in model.space.names},
            "rules": [*RULES, *factored, UNGUIDED] if has_steps else [],
            "solvers": list(SOLVERS) if has_steps else [],
            "grids": list(GRIDS) if has_steps else [],
            "anchor": has_steps,
            "judge": isinstance(model.judge, AttributeJudge),
            "trust": model.traits.trust,
            "truth": self.world is not None,
            "notice": NOTICE,
            "opening": None if self.opening is None else self.opening.asked,
        }


def describe_plan(plan: Plan[Any]) -> dict[str, Any]:
    """Return guidance, sampling and groups of a question as JSON values."""
    return {
        "guidance": repr(plan.setting),
        "sampling": None if plan.sampling is None else str(plan.sampling),
        "groups": {group: sorted(names) for group, names in plan.groups.items()},
    }


def _phrases(model: AnyModel) -> Phrases:
    """Return how questions are phrased; refuse phrases that do not fit their attributes."""
    found = read_beside(model.folder, PHRASES, Phrases) or Phrases({})
    model.space.check_known(found.root, PHRASES)
    for name, phrase in found.root.items():
        if isinstance(phrase, str) == isinstance(model.space[name], Binary):
            wanted = "a pair for no and yes of a binary attribute, else a text with {}"
            got, do = short(phrase), "correct or remove it"
            raise InputError(f"{PHRASES}, {name}", expected=wanted, got=got, do=do)
    return found


def as_studio_models(
    models: Sequence[tuple[str, AnyModel]], *, public: bool = False
) -> tuple[StudioModel, ...]:
    """Name the models of a studio by their sources, and refuse those that cannot share images.

    Strangers who see a public page should not see the paths of folders.
    """
    found: list[StudioModel] = []
    for source, model in models:
        name = Path(source).resolve().name
        own = f"{name}-{len(found) + 1}" if name in [other.name for other in found] else name
        model.image_model.eval()
        _ = model.words  # refuses what is no word before the studio starts
        opening = read_beside(model.folder, OPENING, Opening)
        if opening is not None and opening.weights != digest_of(model.image_model):
            opening = None
        shown = name if public else source
        found.append(StudioModel(own, shown, model, model_format(model), _phrases(model), opening))
    data = [(each.model.space, each.model.graph.parents, each.pixels) for each in found]
    for other, own in zip(found, data, strict=True):
        if own != data[0]:
            wanted = f"attributes, graph, size and channels of {found[0].source}"
            subject, do = f"model {other.source}", "compare models of the same data"
            raise InputError(subject, expected=wanted, got="others", do=do)
    return tuple(found)


def choose_execution(model: AnyModel, precision: str = "auto") -> int:
    """Set precision and number of threads to what is fastest here, and return the latter.

    More threads are slower where cores are busy or the network is small. On a GPU nothing is
    measured. On a CPU, 'auto' is bf16 only where the CPU has it and gains much, else float32.
    """
    model.prepare(precision)
    if model.device.type != "cpu":
        return torch.get_num_threads()
    end = time.perf_counter() + _BUDGET
    seconds_of_work(model)  # the first call is slower

    def use_fastest(options: Iterable[_Option], use: Callable[[_Option], object]) -> _Option:
        seconds: dict[_Option, float] = {}
        for option in options:
            if not seconds or time.perf_counter() < end:  # when time is over, only the first
                use(option)
                seconds[option] = seconds_of_work(model) * (_GAIN if option == "bf16" else 1.0)
        fastest = min(seconds, key=seconds.__getitem__)
        use(fastest)
        return fastest

    cores = len(os.sched_getaffinity(0))
    counts = sorted({cores, *(2**n for n in range(cores.bit_length()))})  # powers of two, and all
    count = use_fastest(counts, torch.set_num_threads)
    if precision == "auto" and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        use_fastest(("float32", "bf16"), model.prepare)
    return count


def seconds_of_work(model: AnyModel) -> float:
    """Return the time of an unguided counterfactual of a grey picture, in two steps."""
    space, side = model.space, model.size or 16 * model.stride
    image = torch.zeros(1, model.channels, *[side] * model.dimensions)
    factual = space.decode(np.zeros((1, sum(space.widths))))
    targets = {space.names[0]: factual[space.names[0]]}
    plan = model.plan(targets, model.parse_setting("none"), sampling=_SAMPLING)
    start = time.perf_counter()
    abduction = model.abduct(image, factual, plan=plan)
    model.predict(abduction, model.act(factual, targets), plan)
    return time.perf_counter() - start
