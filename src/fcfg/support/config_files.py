"""Configurations: YAML and JSON files are read and written, and their values validated.

Input is bounded before it is parsed: a regular file of at most 4 MiB, in UTF-8, with a limited
depth. Duplicate keys and aliases, which could stand for any number of values, are errors.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fcfg.support.errors import InputError, joined, nearest, quoted, short

Model = TypeVar("Model", bound=BaseModel)

_BYTES = 4 * 2**20
_DEPTH = 50
# Raised by PyYAML, besides its own errors, for values that do not fit their tag.
_BAD_VALUES = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


def read_text(path: Path, subject: str, *, expected: str) -> str:
    """Read a regular text file of limited size."""
    do = "check the path"
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            raise ValueError("a folder" if stat.S_ISDIR(kind) else "a pipe or a device")
        with path.open("rb") as file:
            data = file.read(_BYTES + 1)
        if len(data) > _BYTES:
            raise ValueError(f"more than {_BYTES // 2**20} MiB")
        return data.decode("utf-8")
    except UnicodeDecodeError:
        got, do = "no text in UTF-8", "restore it, or save it again"
    except (OSError, ValueError) as error:  # a ValueError also for an impossible path
        got = getattr(error, "strerror", None) or error
    raise InputError(subject, expected=expected, got=got, do=do)


def read_yaml(path: Path, subject: str, *, expected: str, do: str) -> dict[str, Any]:
    """Read a mapping from a YAML file."""
    return parse_yaml(read_text(path, subject, expected=expected), subject, do=do)


def parse_yaml(text: str, subject: str, *, do: str) -> dict[str, Any]:
    """Parse a YAML mapping; see :func:`read_yaml`."""
    return _mapping(parse_yaml_value(text, subject, do=do), subject, do)


def parse_yaml_value(text: str, subject: str, *, do: str) -> Any:
    """Parse a YAML value of any type."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, *_BAD_VALUES) as error:
        raise InputError(subject, expected="YAML", got=_reason(error), do=do) from error


def to_yaml(config: BaseModel) -> str:
    """Write a configuration as YAML that can be read back.

    Of keys without a value, it has those that would have one by default.
    """
    values = config.model_dump(mode="json", exclude_none=True)
    _keep_none(values, config.model_dump(mode="json", exclude_defaults=True))
    return yaml.safe_dump(values, sort_keys=False)


def _keep_none(values: dict[str, Any], changed: Mapping[str, Any]) -> None:
    for key, value in changed.items():
        if value is None:
            values[key] = None
        elif isinstance(value, dict):
            _keep_none(values[key], cast(dict[str, Any], value))


def looks_like_a_file(source: str) -> bool:
    """Return whether a source is a file, not a name: it exists, or has the suffix of YAML."""
    return os.path.exists(source) or source.endswith((".yaml", ".yml"))


def parse_json(text: str, subject: str, *, do: str) -> dict[str, Any]:
    """Parse a JSON mapping."""
    try:
        values = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise InputError(subject, expected="JSON", got=str(error)[:200], do=do) from error
    return _mapping(values, subject, do)


def _mapping(values: object, subject: str, do: str) -> dict[str, Any]:
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        expected = "a mapping with strings as keys"
        raise InputError(subject, expected=expected, got=short(values), do=do)
    return cast(dict[str, Any], values)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"{key!r} twice")
    return values


def _reason(error: Exception) -> str:
    """Describe a YAML error and its line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem}, in line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())[:200]


class _Loader(yaml.SafeLoader):
    """A safe loader that rejects duplicate keys, aliases, and too deep values."""

    _level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = cast(yaml.Event, self.peek_event())
        if isinstance(event, yaml.AliasEvent):
            raise _problem(f"the alias *{event.anchor}; write the value again", event)
        self._level += 1
        if self._level > _DEPTH:
            raise _problem("too many levels", event)
        node = super().compose_node(parent, index)
        self._level -= 1
        seen: set[Hashable] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            value = self.construct_object(key) if isinstance(key, yaml.ScalarNode) else key
            if value in seen:
                raise _problem(f"{value!r} twice", key)
            seen.add(value)
        return node


def _problem(what: str, where: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=cast(Any, where.start_mark))


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
        name = "format" if loc == ["data"] else "kind"
        loc, tag, expected = [*loc, name], context.get("tag"), f"one of {quoted(tags)}"
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
    # Pydantic adds the member of the union, which the file does not have.
    has_tag = len(loc) > 2 and any(loc[1] in _tags(one) for one in _section_at(root, loc[:1]))
    where = ".".join(loc[:1] + loc[2:] if has_tag else loc)
    about = f"{subject}, '{where}'" if where else subject
    yield InputError(about, expected=expected, got=got, do=do)


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _section_at(root: type[BaseModel], loc: Sequence[str]) -> list[type[BaseModel]]:
    """Return the models that a location may have."""
    models = [root]
    for key in loc:
        fields = [model.model_fields[key] for model in models if key in model.model_fields]
        inside = [model for field in fields for model in _models(field.annotation)]
        models = [model for model in models if key in _tags(model)] or inside
    return models


def _tags(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of ``format`` or ``kind``, which tells the members of a union apart."""
    names = {"format", "kind"} & model.model_fields.keys()
    return tuple(tag for name in names for tag in get_args(model.model_fields[name].annotation))
