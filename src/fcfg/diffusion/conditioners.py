"""Conditioners: from attributes, and which of them are visible, to what a network takes.

A conditioner returns tensors by the names of a network's arguments. A name with a dot belongs to
a nested mapping: 'added_cond_kwargs.text_embeds'.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, product
from types import NoneType
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from fcfg.causal.attributes import AttributeSpace
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.support.errors import (
    InputError,
    check_among,
    check_integer,
    check_is,
    quoted,
    short,
)

MOST_SETTINGS = 4096  # that are written and encoded beforehand
_BLOCK = 64  # texts that are encoded at a time, which bounds memory

Values = Float[Tensor, "batch values"]
Visible = Bool[Tensor, "batch attributes"]
Setting = Mapping[str, Any]  #: the visible attributes, with their values


class AbstractConditioner(nn.Module, ABC):
    """Turns attributes into arguments of a network; part of what is saved."""

    kind: ClassVar[str]  #: its name in configurations
    space: AttributeSpace
    names: tuple[str, ...]  #: of the arguments
    separate: bool = True  #: whether it can hide some attributes and show others

    @property
    def labels(self) -> int:
        """Number that its labels of classes stay below; 0, by default, of one without."""
        return 0

    @abstractmethod
    def forward(self, values: Values, visible: Visible) -> dict[str, Tensor]:
        """Return one row of each argument for each row of the attributes."""

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """Describe it in JSON values, for :func:`conditioner_of`; its tensors are weights."""

    @classmethod
    def from_config(cls, space: AttributeSpace, config: Mapping[str, Any]) -> Self:
        """Build it from :meth:`to_config`, without weights; by default these are arguments."""
        return cls(space, **{name: value for name, value in config.items() if name != "kind"})


def settings(space: AttributeSpace) -> Iterator[Setting]:
    """Yield what can be visible of attributes with choices, in the order of its numbers.

    >>> from fcfg.causal.attributes import Binary
    >>> list(settings(AttributeSpace([Binary("smiling")])))
    [{}, {'smiling': 0}, {'smiling': 1}]
    """
    hidden = object()
    for values in product(*((hidden, *attribute.choices) for attribute in space)):
        yield {n: v for n, v in zip(space.names, values, strict=True) if v is not hidden}


def _count_settings(space: AttributeSpace) -> int:
    check_is("conditioner, space", space, AttributeSpace, "a fcfg.AttributeSpace")
    endless = [attribute.name for attribute in space if not attribute.choices]
    total = math.prod(1 + len(attribute.choices) for attribute in space)
    if endless or total > MOST_SETTINGS:
        raise InputError(
            "conditioner",
            expected=f"attributes with choices, and at most {MOST_SETTINGS} ways to show them",
            got=f"numbers of a range for {quoted(endless)}" if endless else total,
            do="give numbers levels, as Categorical has, or use AttributeTokens",
        )
    return total


class Lookup(AbstractConditioner):
    """Tables with a row for each setting: prompts that were encoded once, or labels of classes.

    Args:
        space: Attributes, all with choices.
        tables: A row for each of :func:`settings`, by the name of the argument.
        separate: Presence of rows of their own where some attributes are hidden and some are not.
    """

    kind = "lookup"

    def __init__(
        self, space: AttributeSpace, tables: Mapping[str, Tensor], separate: bool = True
    ) -> None:
        super().__init__()
        self.space, self.separate = space, separate
        rows = _count_settings(space)
        check_is("conditioner, tables", tables, Mapping, "a tensor for each argument")
        for name, table in tables.items():
            check_is(f"conditioner, table '{name}'", table, Tensor, "a tensor")
            if table.shape[:1] != (rows,):
                raise InputError(
                    f"conditioner, table '{name}'",
                    expected=f"a row for each of {rows} settings",
                    got=f"the shape {tuple(table.shape)}",
                    do="write one for each of fcfg.diffusion.conditioners.settings(space)",
                )
        self.names = tuple(tables)
        for position, table in enumerate(tables.values()):
            self.register_buffer(f"table{position}", table)

    @property
    def tables(self) -> dict[str, Tensor]:
        """The tables by the names of their arguments, which may have dots."""
        return {name: self.get_buffer(f"table{place}") for place, name in enumerate(self.names)}

    @classmethod
    def prompts(
        cls,
        space: AttributeSpace,
        write: Callable[[Setting], str],
        encode: Callable[[list[str]], Mapping[str, Tensor]],
    ) -> Self:
        """Write a prompt for each setting, and encode each text once.

        Args:
            space: Attributes, all with choices.
            write: Returns the prompt of what is visible; that of nothing is the null prompt.
            encode: Returns the arguments for a list of at most 64 prompts, with rows of the same
                shape for every list.
        """
        _count_settings(space)
        known = "a function that returns a text, such as fcfg.Phrases(...)"
        check_is("prompts, write", write, Callable, known)  # pyright: ignore[reportArgumentType]
        prompts = [write(setting) for setting in settings(space)]
        for prompt in prompts:
            check_is("prompts, write", prompt, str, known)
        texts = list(dict.fromkeys(prompts))
        rows = torch.tensor([texts.index(prompt) for prompt in prompts])
        tables = _encoded(encode, texts)
        sums = [[float(table[row].double().sum()) for table in tables.values()] for row in rows]
        _check_told_apart(space, [str(each) for each in sums])
        return cls(space, {name: table[rows] for name, table in tables.items()})

    @classmethod
    def classes(
        cls, space: AttributeSpace, null: int, name: str = "class_labels", first: int = 0
    ) -> Self:
        """Number the combinations of all attributes, the last one fastest.

        Where an attribute is hidden, all are, since a class has no name for the others: groups of
        attributes are refused.

        Args:
            space: Attributes, all with choices.
            null: Label of the null class.
            name: Argument that takes labels.
            first: Label of the first combination.
        """
        _count_settings(space)
        check_integer("classes, first", first, 0, 10**9, do="classes are numbered from 0")
        end = first + math.prod(len(attribute.choices) for attribute in space)
        if not isinstance(null, int) or null < 0 or first <= null < end:
            expected = f"a label beside those of the combinations, {first} to {end - 1}"
            do = "pass that of the null class, which guidance needs"
            raise InputError("classes, null", expected=expected, got=short(null), do=do)
        wholes = count(first)
        labels = [next(wholes) if len(each) == len(space) else null for each in settings(space)]
        return cls(space, {name: torch.tensor(labels)}, separate=False)

    @property
    def labels(self) -> int:
        """One more than the largest number of the tables of integers."""
        labels = (table for table in self.tables.values() if not table.is_floating_point())
        return max((1 + int(table.max()) for table in labels), default=0)

    def number(self, values: Values, visible: Visible) -> Int[Tensor, "batch"]:
        """Return the row of each setting."""
        number = torch.zeros(len(values), dtype=torch.int64, device=values.device)
        blocks = values.split(self.space.widths, dim=1)
        for attribute, block, shown in zip(self.space, blocks, visible.unbind(1), strict=True):
            code = block.argmax(dim=1) if block.shape[1] > 1 else block[:, 0].round().long()
            number = number * (1 + len(attribute.choices)) + torch.where(shown, 1 + code, 0)
        return number

    def forward(self, values: Values, visible: Visible) -> dict[str, Tensor]:
        number = self.number(values, visible)
        return {name: table[number] for name, table in self.tables.items()}

    def to_config(self) -> dict[str, Any]:
        about = {
            name: [str(table.dtype).removeprefix("torch."), *table.shape[1:]]
            for name, table in self.tables.items()
        }
        return {"kind": self.kind, "tables": about, "separate": self.separate}

    @classmethod
    def from_config(cls, space: AttributeSpace, config: Mapping[str, Any]) -> Self:
        rows, about = _count_settings(space), config["tables"].items()
        tables = {n: torch.empty(rows, *s, dtype=getattr(torch, d)) for n, (d, *s) in about}
        return cls(space, tables, config["separate"])


def _encoded(encode: Callable[[list[str]], Any], texts: list[str]) -> dict[str, Tensor]:
    """Encode texts block by block; refuse what makes no tables with a row for each."""
    subject, blocks = "prompts, encode", list[Mapping[str, Tensor]]()
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        found: Any = encode(block)
        of = list(found.values()) if isinstance(found, Mapping) else [None]
        if not all(isinstance(each, Tensor) and each.shape[:1] == (len(block),) for each in of):
            expected, do = f"tensors by name, with {len(block)} rows", "return one for each text"
            raise InputError(subject, expected=expected, got=short(found), do=do)
        blocks.append(found)
    shapes = {repr({n: [*table.shape[1:]] for n, table in block.items()}) for block in blocks}
    if len(shapes) > 1:
        expected, do = "rows of one shape for all prompts", "pad all texts to one length"
        raise InputError(subject, expected=expected, got=" and ".join(sorted(shapes)), do=do)
    return {name: torch.cat([block[name] for block in blocks]) for name in blocks[0]}


def _check_told_apart(space: AttributeSpace, encoded: Sequence[str]) -> None:
    """Refuse values of an attribute that no prompt tells apart, maybe since it was cut."""
    written = list(zip(settings(space), encoded, strict=True))
    for attribute in space:
        name, choices = attribute.name, attribute.choices
        if len({tuple(e for s, e in written if s.get(name) == c) for c in choices}) < len(choices):
            do, expected = "write another, short one for each", "prompts that differ by its value"
            raise InputError(f"prompts, {name}", expected=expected, got="the same for two", do=do)


class AttributeTokens(AbstractConditioner):
    """A learned token for each attribute, and a learned one in place of each hidden attribute.

    Args:
        space: Attributes, in the order of their tokens.
        width: Size of a token.
        tokens: Argument that takes the sequence of tokens; 'context' for MONAI.
        pooled: Argument that takes their mean, if the network has one.
    """

    kind = "tokens"

    def __init__(
        self,
        space: AttributeSpace,
        width: int,
        tokens: str = "encoder_hidden_states",
        pooled: str | None = None,
    ) -> None:
        super().__init__()
        check_is("AttributeTokens, space", space, AttributeSpace, "a fcfg.AttributeSpace")
        check_integer("AttributeTokens, width", width, 1, 10**6, do="pass that of the network")
        check_is("AttributeTokens, tokens", tokens, str, "the name of an argument")
        check_is("AttributeTokens, pooled", pooled, (str, NoneType), "a name, or None")
        self.space, self.width, self.tokens, self.pooled = space, width, tokens, pooled
        self.names = (tokens,) if pooled is None else (tokens, pooled)
        self.embedder = AttributeEmbedder(space, width)
        self.hidden = nn.Parameter(torch.randn(len(space), width) / math.sqrt(width))

    def forward(self, values: Values, visible: Visible) -> dict[str, Tensor]:
        tokens = self.embedder(values.to(self.hidden.dtype)).unflatten(1, self.hidden.shape)
        tokens = torch.where(visible[..., None], tokens, self.hidden)
        return dict(zip(self.names, (tokens, tokens.mean(dim=1)), strict=False))

    def to_config(self) -> dict[str, Any]:
        own = {"width": self.width, "tokens": self.tokens, "pooled": self.pooled}
        return {"kind": self.kind, **own}


def _several(said: Sequence[str]) -> Sequence[str]:
    return () if isinstance(said, str) else said  # a text is no sequence of its letters


class Phrases:
    """Writes a prompt from a phrase for each visible attribute.

    >>> write = Phrases("a photo of a person", "", smiling=("with a straight face", "smiling"))
    >>> write({"smiling": 1}), write({})
    ('a photo of a person, smiling', '')

    Args:
        subject: Beginning of each prompt.
        null: Prompt where nothing is visible.
        **phrases: For each attribute those of 0 and 1, or a mapping from its choices.
    """

    def __init__(
        self, subject: str, null: str = "", /, **phrases: Sequence[str] | Mapping[Any, str]
    ) -> None:
        self.subject, self.null = subject, null
        self.phrases: Mapping[str, Mapping[Any, str]] = {
            name: said if isinstance(said, Mapping) else dict(enumerate(_several(said)))
            for name, said in phrases.items()
        }

    def __call__(self, setting: Setting) -> str:
        for name, value in setting.items():
            check_among("prompt, attribute", name, self.phrases)
            said, subject = self.phrases[name].get(value), f"prompt, {name} = {value!r}"
            check_is(subject, said, str, "a phrase", do="give each value one")
        said = [self.phrases[name][value] for name, value in setting.items()]
        return ", ".join([self.subject, *said]) if said else self.null


_KINDS: dict[str, type[AbstractConditioner]] = {c.kind: c for c in (Lookup, AttributeTokens)}


def described(conditioner: AbstractConditioner) -> dict[str, Any]:
    """Return what :func:`conditioner_of` takes; refuse a class that it does not know."""
    kind = type(conditioner)
    if kind not in _KINDS.values():
        raise InputError(
            "conditioner",
            expected="a Lookup or AttributeTokens, which can be built again",
            got=f"a {kind.__name__}",
            do="save a model of your own kind, see fcfg.storage.register_kind",
        )
    return conditioner.to_config()


def conditioner_of(space: AttributeSpace, config: Mapping[str, Any]) -> AbstractConditioner:
    """Build a conditioner from the output of :meth:`AbstractConditioner.to_config`."""
    check_among("conditioner, kind", config.get("kind"), _KINDS)
    return _KINDS[config["kind"]].from_config(space, config)
