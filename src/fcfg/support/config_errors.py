"""Validation of configurations, with the errors of pydantic in our four parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from fcfg.support.errors import InputError, nearest, quoted, short

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: Mapping[str, Any], subject: str) -> Model:
    """Build a model from values, or raise an error of one line that names the wrong key.

    Args:
        model: Class to build.
        values: Values of its fields.
        subject: Name of the configuration in messages.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _input_error(error, model, subject) from None


def _input_error(error: ValidationError, root: type[BaseModel], subject: str) -> InputError:
    """Translate the first error that pydantic reports: an unknown key, if there is one."""
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause.about(f"{subject}, {str(cause).split(': expected')[0]}", cause.do)
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
        tag = first.get("ctx", {}).get("tag")
        return InputError(
            subject,
            expected=f"one of {quoted(tags)}",
            got="none" if tag is None else repr(tag),
            do="add this key" if tag is None else nearest(tag, tags),
        )
    if first["type"] == "missing":
        return InputError(subject, expected="a value", got="none", do="add this key")
    if first["type"] == "tuple_type":
        example = f"[{first['input']}]"
        return InputError(
            subject, expected="a list", got=short(first["input"]), do=f"write {example}"
        )
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
    """Return the models inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _section_at(root: type[BaseModel], loc: Sequence[str]) -> list[type[BaseModel]]:
    models: list[type[BaseModel]] = [root]
    for key in loc:
        tagged = [model for model in models if key in _tags(model)]
        if tagged and len(models) > 1:
            models = tagged
        else:
            fields = [model.model_fields[key] for model in models if key in model.model_fields]
            models = [model for field in fields for model in _models(field.annotation)]
    return models


def _fields_at(root: type[BaseModel], loc: Sequence[str]) -> list[str]:
    return sorted({name for model in _section_at(root, loc) for name in model.model_fields})


def _tags(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of ``format``, which distinguishes the members of a union."""
    field = model.model_fields.get("format")
    return () if field is None else get_args(field.annotation)


def _without_tags(loc: Sequence[str]) -> list[str]:
    """Return a location as in the file, without the union members that pydantic adds."""
    return [
        key for i, key in enumerate(loc) if i == 0 or loc[i - 1] != "data" or i == len(loc) - 1
    ]
