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
        faults = [fault for each in errors for fault in _faults(each, model, subject)]
        raise joined(faults) from None


def _faults(error: ErrorDetails, root: type[BaseModel], subject: str) -> Iterator[InputError]:
    """Translate an error that pydantic reports, or return those of our own that it holds."""
    context, kind, given = error.get("ctx", {}), error["type"], error["input"]
    cause = context.get("error")
    if isinstance(cause, InputError):
        for each in (cause, *cause.others):
            yield each.about(f"{subject}, {each.subject}", each.do)
        return
    loc = [str(key) for key in error["loc"]]
    message = error["msg"].removeprefix("Value error, ")
    expected, got, do = message.removeprefix("Input should be "), short(given), "correct it"
    if kind.startswith("union_tag"):
        tags = [tag for model in _section_at(root, loc) for tag in _tags(model)]
        loc, tag, expected = [*loc, "format"], context.get("tag"), f"one of {quoted(tags)}"
        got, do = ("none", "add this key") if tag is None else (repr(tag), nearest(tag, tags))
    elif kind == "extra_forbidden":
        models = _section_at(root, loc[:-1])
        known = sorted({name for model in models for name in model.model_fields})
        expected, got, do = f"one of {quoted(known)}", repr(loc[-1]), nearest(loc[-1], known)
    elif kind == "missing":
        expected, got, do = "a value", "none", "add this key"
    elif kind == "tuple_type":
        expected, do = "a list", f"write [{given}]"
    elif kind == "value_error":
        expected, got, do = "values that fit together", message, "correct one of them"
    where = ".".join(_without_tags(loc))
    about = f"{subject}, '{where}'" if where else subject
    yield InputError(about, expected=expected, got=got, do=do)


def _models(annotation: object) -> list[type[BaseModel]]:
    """Return the models inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _section_at(root: type[BaseModel], loc: Sequence[str]) -> list[type[BaseModel]]:
    """Return the models that a location may have."""
    models: list[type[BaseModel]] = [root]
    for key in loc:
        tagged = [model for model in models if key in _tags(model)]
        if tagged and len(models) > 1:
            models = tagged
        else:
            fields = [model.model_fields[key] for model in models if key in model.model_fields]
            models = [model for field in fields for model in _models(field.annotation)]
    return models


def _tags(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of ``format``, which distinguishes the members of a union."""
    field = model.model_fields.get("format")
    return () if field is None else get_args(field.annotation)


def _without_tags(loc: Sequence[str]) -> list[str]:
    """Return a location as in the file, without the union members that pydantic adds."""
    return [
        key for i, key in enumerate(loc) if i == 0 or loc[i - 1] != "data" or i == len(loc) - 1
    ]
