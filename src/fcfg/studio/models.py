"""The models of a studio: read, compared with each other, and described for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, RootModel, StringConstraints

from fcfg.causal.attributes import Binary
from fcfg.datasets import portraits
from fcfg.datasets.portraits.data import PortraitsData
from fcfg.guidance.rule import RULES, UNGUIDED
from fcfg.judge import AttributeJudge
from fcfg.model import AnyModel, Plan, model_pixels, training_data
from fcfg.sampling import GRIDS, SOLVERS
from fcfg.storage import read_beside
from fcfg.support.errors import InputError, short
from fcfg.support.hashing import digest_of
from fcfg.support.pictures import Pixels

OPENING, PHRASES = "opening.json", "phrases.json"  #: files beside a model
NOTICE = "For research and play. The answers are made up by a model: no medical use."

_WORLDS: tuple[str, ...] = get_args(PortraitsData.model_fields["format"].annotation)


class Phrases(RootModel[dict[str, tuple[str, str] | str]]):
    """What follows "What if", by attribute: for no and yes, or with {} in place of the value."""


class Opening(BaseModel):
    """The answer to the question that the page opens with, shown until it is computed here.

    It says all that it depends on, and is shown for no other question, nor for other weights.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str  #: digest of those of the image model
    asked: dict[str, Any]  #: all else that the answer depends on
    image: Annotated[str, StringConstraints(pattern="^data:image/png;base64,[0-9A-Za-z+/=]+$")]


@dataclass(frozen=True, eq=False)
class StudioModel:
    """A model that the studio asks."""

    name: str  #: unique in the studio
    source: str  #: name or folder, as :func:`fcfg.load` reads it
    model: AnyModel = field(repr=False)
    pixels: Pixels  #: shape of its images
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
        return {
            "name": self.name,
            "title": self.name.replace("-", " ").capitalize(),
            "kind": model.kind,
            "parameters": model.parameters,
            "size": self.pixels.size,
            "channels": self.pixels.channels,
            "attributes": [
                {"name": a.name, **a.to_config()}
                | {kind: own[a.name] for kind, own in said.items() if a.name in own}
                for a in model.space
            ],
            "graph": {name: list(parents) for name, parents in model.graph.parents.items()},
            "defaults": {name: describe_plan(model.plan([name])) for name in model.space.names},
            "rules": _rules(model),
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


def _rules(model: AnyModel) -> list[str]:
    if not model.traits.steps:
        return []
    factored = [f"f{name}" for name in RULES] if model.traits.groups else []
    return [*RULES, *factored, UNGUIDED]


def _phrases(model: AnyModel) -> Phrases:
    """Return how questions are phrased; refuse phrases that do not fit their attributes."""
    found = read_beside(model.folder, PHRASES, Phrases) or Phrases({})
    model.space.check_known(found.root, PHRASES)
    for name, phrase in found.root.items():
        if isinstance(phrase, str) == isinstance(model.space[name], Binary):
            raise InputError(
                f"{PHRASES}, {name}",
                expected="a pair for no and yes of a binary attribute, else a text with {}",
                got=short(phrase),
                do="correct or remove it",
            )
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
        shown, pixels = name if public else source, model_pixels(model)
        phrases = _phrases(model)
        opening = read_beside(model.folder, OPENING, Opening)
        if opening is not None and opening.weights != digest_of(model.image_model):
            opening = None
        found.append(StudioModel(own, shown, model, pixels, phrases, opening))
    first = found[0]
    for other in found[1:]:
        shapes = [(m.model.space, m.model.graph.parents, m.pixels) for m in (first, other)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"model {other.source}",
                expected=f"attributes, graph, size and channels of {first.source}",
                got="others",
                do="compare models of the same data",
            )
    return tuple(found)
