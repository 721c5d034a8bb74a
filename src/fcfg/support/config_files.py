"""Reading and writing of YAML and JSON configuration files.

Input is bounded before it is parsed: a regular file of at most 4 MiB, in UTF-8, with a limited
depth. Duplicate keys and aliases, which could stand for any number of values, are errors.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel

from fcfg.support.errors import InputError, short

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
    """Parse a YAML value of any type.

    >>> parse_yaml_value("[1, two]", "--set", do="quote it")
    [1, 'two']
    >>> parse_yaml_value("{a: 1, a: 2}", "mine.yaml", do="fix it")
    Traceback (most recent call last):
    fcfg.InputError: mine.yaml: expected YAML, got 'a' twice, in line 1; fix it.
    """
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, *_BAD_VALUES) as error:
        raise InputError(subject, expected="YAML", got=_reason(error), do=do) from error


def to_yaml(config: BaseModel) -> str:
    """Write a configuration as YAML that can be read back."""
    return yaml.safe_dump(config.model_dump(mode="json", exclude_none=True), sort_keys=False)


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
        """Compose a node within the limits."""
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
            value: Hashable = (
                self.construct_object(key) if isinstance(key, yaml.ScalarNode) else key
            )
            if value in seen:
                raise _problem(f"{value!r} twice", key)
            seen.add(value)
        return node


def _problem(what: str, where: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=cast(Any, where.start_mark))
