"""Questions as the page asks them; the same checked, as Python, and as a command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, Field, PlainValidator, StringConstraints

from fcfg.causal.attributes import Table
from fcfg.causal.intervention import Intervention
from fcfg.generation.results import Value, values_of
from fcfg.model import Action, Plan
from fcfg.studio.models import StudioModel, describe_plan
from fcfg.studio.pictures import SAMPLES, SEED, StudioPicture
from fcfg.support.config_files import parse_json, validate
from fcfg.support.errors import InputError, short
from fcfg.support.images import image_keys

MOST_STEPS = 100  #: of a sampling; more take minutes
MOST_REPEATS = 20  #: of an iterated solver, and of an alignment

_FILE = "picture.png"  # what the page calls the downloaded picture
_VOLUME = "volume.nii.gz"  # which is no download
_Word: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _checked_value(value: object) -> float | str:
    if isinstance(value, str) and len(value) <= 200:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e12:
        return value
    raise InputError("value", expected="a number or a text", got=short(value), do="correct it")


_Value: TypeAlias = Annotated[int | float | str, PlainValidator(_checked_value)]
_Values: TypeAlias = Annotated[dict[_Word, _Value], Field(max_length=200)]


class Question(BaseModel, frozen=True, extra="forbid", strict=True):
    """What would a picture look like under an intervention?"""

    image: _Word  #: id of a sample or an upload
    attributes: _Values  #: factual, of every name
    do: Annotated[_Values, Field(min_length=1)]
    """A value, or a string such as 'flip' or '+10%', for each target."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)  #: for discrete exogenous noise
    model: _Word | None = None  #: name of a model; the first one by default
    guidance: _Word | None = None  #: text form of a setting; that of the model by default
    sampling: _Word | None = None  #: solver, grid and steps; those of the model by default
    visitor: _Word = "anyone"  #: random name of a tab; visitors take turns
    keep: bool = False  #: whether older questions of the visitor stay
    reverse: bool = False  #: whether to go back to the factual attributes as well
    trust: bool = False  #: whether to measure signals of trust
    truth: bool = False  #: whether to draw the true counterfactual, in a drawn world


def read_question(body: bytes) -> Question:
    """Read the body of a request, or raise an error of one line."""
    text = body.decode("utf-8", "replace")
    return validate(Question, parse_json(text, "question", do="send an object"), "question")


@dataclass(frozen=True, eq=False)
class PreparedQuestion:
    """A question that was checked, with everything that is cheap to compute."""

    asked: Question
    model: StudioModel
    picture: StudioPicture
    factual: Table = field(repr=False)
    action: Action  #: the counterfactual attributes
    plan: Plan[Any]  #: guidance, sampling and groups

    @property
    def before(self) -> dict[str, Value]:
        """Factual attributes."""
        return values_of(self.model.model.space, self.factual, 0)

    @property
    def after(self) -> dict[str, Value]:
        """Counterfactual attributes."""
        return values_of(self.model.model.space, self.action.attributes, 0)

    @property
    def depends(self) -> dict[str, Any]:
        """All that the answer depends on, next to the weights, as JSON values."""
        before = {k: round(v, 3) if isinstance(v, float) else v for k, v in self.before.items()}
        about = {"image": self.picture.id, "attributes": before, "do": self.asked.do}
        return {**about, "seed": self.asked.seed, **describe_plan(self.plan)}

    @property
    def opening(self) -> str | None:
        """Answer that comes with the model, if this is the question that it answers."""
        found = self.model.opening
        return found.image if found is not None and found.asked == self.depends else None


def prepare_question(
    asked: Question, model: StudioModel, picture: StudioPicture
) -> PreparedQuestion:
    """Check a question, and act on the attributes."""
    asks, space = model.model, model.model.space
    space.check_known(asked.do, "do")
    factual = space.parse({name: [value] for name, value in asked.attributes.items()})
    do: dict[str, Intervention] = dict(asked.do)
    action = asks.act(factual, do, seed=asked.seed, keys=image_keys(picture.image))
    setting = None if asked.guidance is None else asks.parse_setting(asked.guidance)
    plan = asks.plan(asked.do, setting, sampling=asked.sampling or "default")
    _check_cost(plan)
    return PreparedQuestion(asked, model, picture, factual, action, plan)


def _check_cost(plan: Plan[Any]) -> None:
    """Refuse questions that would keep all other visitors waiting."""
    solver, steps = getattr(plan.sampling, "solver", None), getattr(plan.sampling, "steps", 0)
    repeats = max(getattr(plan.setting, "align", 1), getattr(solver, "iterations", 1))
    if steps > MOST_STEPS or repeats > MOST_REPEATS:
        wanted = f"at most {MOST_STEPS} steps, each of at most {MOST_REPEATS} iterations"
        do = "use 'fcfg generate' for more"
        raise InputError("sampling", expected=wanted, got=f"{plan}", do=do)


def as_python(question: PreparedQuestion) -> str:
    """Return a program that writes the counterfactual to a file."""
    asked, plan, drawing = question.asked, question.plan, question.picture.drawing
    model, setting = question.model.model, repr(repr(plan.setting))
    execution = "" if model.device.type == "cpu" else f".to({str(model.device)!r})"
    execution += "" if model.precision is None else f".prepare({model.precision!r})"
    if model.dimensions == 3:
        imports = (
            "from pathlib import Path\nfrom fcfg.generation.picture_files import read_files\n"
        )
        wanted = f'[Path("{_VOLUME}")], fcfg.model.model_format(model)'
        picture = f"(volume,) = read_files({wanted})\npicture = volume.image[None]"
    elif drawing is None:
        imports = "from PIL import Image\n"
        picture = f'picture = Image.open("{_FILE}")  # downloaded from the page'
    else:
        imports, place = "", int(question.picture.id.removeprefix("s"))
        shape = f"{SAMPLES}, {SEED}, {drawing.size}, {drawing.variant!r}"
        picture = f"faces = fcfg.datasets.portraits.sample({shape})\n"
        picture += f"picture = fcfg.to_pictures(faces.images)[{place}]"
    options = f'plan={{"setting": model.parse_setting({setting})}},'
    if model.traits.steps:
        options = f'guidance=fcfg.Guidance.parse({setting}),\n    sampling="{plan.sampling}",'
    return f"""\
import fcfg
{imports}
model = fcfg.load({question.model.source!r}){execution}
{picture}
answer = model.counterfactual(
    picture,
    { {name: [value] for name, value in question.before.items()}!r},
    do={asked.do!r},
    {options}
    seed={asked.seed},
)
fcfg.to_pictures(answer.images)[0].save("counterfactual.png")
"""


def as_command(question: PreparedQuestion) -> str:
    """Return the command that writes the counterfactual to a folder."""
    asked, model, plan = question.asked, question.model.model, question.plan
    targets = {  # a negative number alone would be a decrease
        name: f"={value}" if not isinstance(value, str) and value < 0 else value
        for name, value in asked.do.items()
    }
    file = _VOLUME if model.dimensions == 3 else _FILE
    words = ["fcfg", "generate", question.model.source, file]
    words += ["--attributes", _pairs(question.before), "--do", _pairs(targets)]
    words += ["--guidance", repr(plan.setting), "--seed", str(asked.seed)]
    words += [] if plan.sampling is None else ["--sampling", str(plan.sampling)]
    words += [] if model.precision is None else ["--precision", model.precision]
    return shlex.join(words)


def _pairs(values: Mapping[str, Value]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
