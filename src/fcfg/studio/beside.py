"""What may come beside a model for the page: how to phrase its questions, and a first answer.

The first answer is shown until the model has computed it here. It says all that it depends on,
so that it is shown for no other question, nor for other weights.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel, StringConstraints

from fcfg.model import AnyModel
from fcfg.support.config_errors import validate
from fcfg.support.config_files import parse_json, read_text

_Kind = TypeVar("_Kind", bound=BaseModel)


class Phrases(RootModel[dict[str, tuple[str, str] | str]]):
    """What follows "What if", by attribute: for no and yes, or with {} in place of the value."""


class Opening(BaseModel):
    """The answer to the question that the page opens with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str  #: digest of those of the image model
    asked: dict[str, Any]  #: all else that the answer depends on
    image: Annotated[str, StringConstraints(pattern="^data:image/png;base64,[0-9A-Za-z+/=]+$")]


def read_beside(model: AnyModel, file: str, kind: type[_Kind]) -> _Kind | None:
    """Read a JSON file in the folder of a model; None if there is none.

    Args:
        model: The model.
        file: Name of the file.
        kind: Class of its content.
    """
    if model.folder is None or not (model.folder / file).exists():
        return None
    subject = f"file {model.folder / file}"
    text = read_text(model.folder / file, subject, expected="JSON")
    return validate(kind, parse_json(text, subject, do="correct or remove it"), subject)
