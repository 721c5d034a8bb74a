"""What may come beside a model for the page: how to phrase its questions, and a first answer.

The first answer is shown until the model has computed it here. It says all that it depends on,
so that it is shown for no other question, nor for other weights.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, RootModel, StringConstraints


class Phrases(RootModel[dict[str, tuple[str, str] | str]]):
    """What follows "What if", by attribute: for no and yes, or with {} in place of the value."""


class Opening(BaseModel):
    """The answer to the question that the page opens with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str  #: digest of those of the image model
    asked: dict[str, Any]  #: all else that the answer depends on
    image: Annotated[str, StringConstraints(pattern="^data:image/png;base64,[0-9A-Za-z+/=]+$")]
