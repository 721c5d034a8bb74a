"""Configuration files: YAML and JSON that people write, or that somebody else handed on.

What is read is bounded before it is read: a regular file of some MiB, in UTF-8, whose values are
neither deep nor many once aliases are followed. No key stands there twice, for the last would
silently win.
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

from fcfg.support.errors import InputError, short

_BYTES = 4 * 2**20
_DEPTH = 50  # of values in values
_NODES = 10**6
# What PyYAML raises of values that do not fit their tag, beside its own errors.
_BAD_VALUES = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


def read_text(path: Path, subject: str, *, expected: str) -> str:
    """Read a text of bounded size from a regular file, or refuse it.

    Args:
        path: File to read.
        subject: Name of the file in messages.
        expected: Kind of file that would be accepted, for messages.
    """
    try:
        found = _read_bytes(path)
    except (OSError, ValueError) as error:  # the latter of a path that cannot be one
        found = str(getattr(error, "strerror", None) or error)
    if isinstance(found, bytes):
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(
                subject,
                expected=expected,
                got="no text in UTF-8",
                do="restore it, or save it again",
            ) from None
    raise InputError(subject, expected=expected, got=found, do="check the path")


def _read_bytes(path: Path) -> bytes | str:
    """The contents, or why there are none."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind):
        return "a folder" if stat.S_ISDIR(kind) else "a pipe or a device"
    with path.open("rb") as file:
        data = file.read(_BYTES + 1)
    return data if len(data) <= _BYTES else f"more than {_BYTES // 2**20} MiB"


def read_yaml(path: Path, subject: str, *, expected: str, do: str) -> dict[str, Any]:
    """Read a mapping from a YAML file, or refuse it.

    Args:
        path: File to read.
        subject: Name of the file in messages.
        expected: Kind of file that would be accepted, for messages.
        do: Advice where the file can be read, and its contents are wrong.
    """
    return parse_yaml(read_text(path, subject, expected=expected), subject, do=do)


def parse_yaml(text: str, subject: str, *, do: str) -> dict[str, Any]:
    """A YAML text as a mapping, or a refusal; see :func:`read_yaml`."""
    return _mapping(parse_yaml_value(text, subject, do=do), subject, do)


def parse_yaml_value(text: str, subject: str, *, do: str) -> Any:
    """A YAML text as a value of any kind.

    >>> parse_yaml_value("[1, two]", "--set", do="quote it")
    [1, 'two']
    >>> parse_yaml_value("{a: 1, a: 2}", "mine.yaml", do="mend it")
    Traceback (most recent call last):
    fcfg.InputError: mine.yaml: expected YAML, got 'a' twice, in line 1; mend it.

    Args:
        text: Text to parse.
        subject: Name of the text in messages.
        do: Advice where it is wrong.
    """
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, *_BAD_VALUES) as error:
        raise InputError(subject, expected="YAML", got=_reason(error), do=do) from error


def looks_like_a_file(source: str) -> bool:
    """Whether a source is meant as a file and not as a name: it exists, or ends like YAML."""
    return os.path.exists(source) or source.endswith((".yaml", ".yml"))


def parse_json(text: str, subject: str, *, do: str) -> dict[str, Any]:
    """A JSON text as a mapping, or a refusal.

    Args:
        text: Text to parse.
        subject: Name of the text in messages.
        do: Advice where it is wrong.
    """
    try:
        values = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise InputError(subject, expected="JSON", got=str(error)[:200], do=do) from error
    return _mapping(values, subject, do)


def _mapping(values: object, subject: str, do: str) -> dict[str, Any]:
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise InputError(
            subject, expected="a mapping with texts as keys", got=short(values), do=do
        )
    return cast(dict[str, Any], values)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"{key!r} twice")
    return values


def _reason(error: Exception) -> str:
    """What is wrong with a YAML text, and where, in a few words."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem}, in line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())[:200]


class _Loader(yaml.SafeLoader):
    """Refuses doubled keys, and values larger or deeper than those of any configuration."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._level = 0
        self._measured: dict[int, tuple[int, int]] = {}  # nodes and levels, aliases followed

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """A node, measured once all that is in it has been."""
        event = cast(yaml.Event, self.peek_event())
        self._level += 1
        if self._level > _DEPTH:
            raise _problem("too many levels", event)
        node = super().compose_node(parent, index)
        self._level -= 1
        if not isinstance(event, yaml.AliasEvent):
            self._measured[id(node)] = self._measure(node)
        nodes, levels = self._measured.get(id(node), (0, _DEPTH + 1))  # endless: it holds itself
        if nodes > _NODES or levels > _DEPTH:
            raise _problem("too many values, once aliases are followed", event)
        return node

    def _measure(self, node: yaml.Node | None) -> tuple[int, int]:
        inside: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
            inside = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            inside = node.value
        sizes = [self._measured[id(part)] for part in inside]
        return 1 + sum(n for n, _ in sizes), 1 + max((levels for _, levels in sizes), default=0)

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen: set[Hashable] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                value: Hashable = self.construct_object(key)
                if value in seen:
                    raise _problem(f"{value!r} twice", key)
                seen.add(value)


def _problem(what: str, where: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=cast(Any, where.start_mark))
