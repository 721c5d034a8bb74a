"""Validation of configurations, with the errors of pydantic in our four parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fcfg.support.errors import InputError, joined, nearest, quoted, short

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], values: Mapping[str, Any], subject: str) -> Model:
    """Build a model from values, or raise an error of one line that names the wrong key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        # Unknown keys first: they may be the reason for the others.
        errors = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        faults = [fault for each in errors for fault in _input_errors(each, model, subject)]
        raise joined(faults) from None


def _input_errors(
    error: ErrorDetails, root: type[BaseModel], subject: str
) -> Iterator[InputError]:
    """Translate an error that pydantic reports, or return those of our own that it holds."""
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        for each in (cause, *cause.others):
            yield each.about(f"{subject}, {str(each).split(': expected')[0]}", each.do)
    else:
        yield _input_error(error, root, subject)


def _input_error(error: ErrorDetails, root: type[BaseModel], subject: str) -> InputError:
    loc = [str(key) for key in error["loc"]]
    tags: list[str] = []
    if error["type"].startswith("union_tag"):
        tags = [tag for model in _section_at(root, loc) for tag in _tags(model)]
        loc = [*loc, "format"]
    where = ".".join(_without_tags(loc))
    subject = f"{subject}, '{where}'" if where else subject
    if error["type"] == "extra_forbidden":
        known = _fields_at(root, loc[:-1])
        return InputError(
            subject,
            expected=f"one of {quoted(known)}",
            got=repr(loc[-1]),
            do=nearest(loc[-1], known),
        )
    if tags:
        tag = error.get("ctx", {}).get("tag")
        return InputError(
            subject,
            expected=f"one of {quoted(tags)}",
            got="none" if tag is None else repr(tag),
            do="add this key" if tag is None else nearest(tag, tags),
        )
    if error["type"] == "missing":
        return InputError(subject, expected="a value", got="none", do="add this key")
    if error["type"] == "tuple_type":
        example = f"[{error['input']}]"
        return InputError(
            subject, expected="a list", got=short(error["input"]), do=f"write {example}"
        )
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return InputError(
            subject,
            expected="values that fit together",
            got=message,
            do="correct one of them",
        )
    return InputError(
        subject,
        expected=message.removeprefix("Input should be "),
        got=short(error["input"]),
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
