"""What is wrong with a configuration: pydantic's errors in our own words.

Whatever it is comes back as one line that names the key, and the nearest key that exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError

from fcfg.support.errors import InputError, nearest, quoted, short


def refusal(error: ValidationError, root: type[BaseModel], subject: str) -> InputError:
    """The first thing that is wrong, in one line that names the key.

    Args:
        error: What pydantic raised.
        root: The class it was raised by.
        subject: What was read.
    """
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.about(f"{subject}, {str(cause).split(':')[0]}", cause.do)
    loc = [str(key) for key in first["loc"]]
    tags: list[str] = []
    if first["type"].startswith("union_tag"):
        tags = [tag for model in _section_at(root, loc) for tag in _tags(model)]
        loc = [*loc, "format"]
    where = ".".join(_without_tags(loc))
    subject = f"{subject}, '{where}'" if where else subject
    if first["type"] == "extra_forbidden":
        known = _fields_at(root, loc[:-1])
        return InputError(
            subject,
            expected=f"one of {quoted(known)}",
            got=repr(loc[-1]),
            do=nearest(loc[-1], known),
        )
    if tags:
        found = first.get("ctx", {}).get("tag")
        return InputError(
            subject,
            expected=f"one of {quoted(tags)}",
            got="none" if found is None else repr(found),
            do="add this key" if found is None else nearest(found, tags),
        )
    if first["type"] == "missing":
        return InputError(subject, expected="a value", got="none", do="add this key")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return InputError(
            subject,
            expected="values that fit together",
            got=message,
            do="correct one of them",
        )
    return InputError(
        subject,
        expected=message.removeprefix("Input should be "),
        got=short(first["input"]),
        do="correct it",
    )


def _models(annotation: object) -> list[type[BaseModel]]:
    """The sections an annotation speaks of, however it is wrapped."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _section_at(root: type[BaseModel], loc: Sequence[str]) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = [root]
    for key in loc:
        tagged = [model for model in found if key in _tags(model)]
        if tagged and len(found) > 1:
            found = tagged
        else:
            fields = [model.model_fields[key] for model in found if key in model.model_fields]
            found = [model for field in fields for model in _models(field.annotation)]
    return found


def _fields_at(root: type[BaseModel], loc: Sequence[str]) -> list[str]:
    return sorted({name for model in _section_at(root, loc) for name in model.model_fields})


def _tags(model: type[BaseModel]) -> tuple[str, ...]:
    """Values of the key that tells members of a union apart."""
    field = model.model_fields.get("format")
    return () if field is None else get_args(field.annotation)


def _without_tags(loc: Sequence[str]) -> list[str]:
    """A location as it stands in the file: pydantic names the chosen member of a union, too."""
    return [
        key for i, key in enumerate(loc) if i == 0 or loc[i - 1] != "data" or i == len(loc) - 1
    ]
