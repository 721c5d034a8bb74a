"""Names, colours and marks of the settings of models, such as guidance rules.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart, darker on light
paper and lighter on dark. Global rules are warm and hollow, factored rules cool and filled. The
shape of the mark tells the rules apart. A rule without a style of its own gets a default one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fcfg.evaluation.experiment import parts_of
from fcfg.evaluation.result_files import BASELINE


class Style(NamedTuple):
    """Appearance of a family of settings: one rule, global or factored."""

    name: str  #: "" for the name in the text form
    light: str  #: colour on light paper
    dark: str  #: colour on dark paper
    mark: str


_WEIGHT = re.compile(r"(?:([^=,]+)=)?([-+.\de]+)(?:,|$)")  # a function of the step has none

#: By the name of the rule in the text form; a factored rule has an f in front.
STYLES: dict[str, Style] = {
    BASELINE: Style("unguided", "#5d656e", "#a3abb3", "diamond"),
    "cfg": Style("CFG", "#b64900", "#f08a4b", "circle"),
    "fcfg": Style("FCFG", "#0068a6", "#5cb0ee", "circle"),
    "cfg++": Style("CFG++", "#8a5c00", "#e6ac2e", "square"),
    "fcfg++": Style("FCFG++", "#007a8a", "#5fd0de", "square"),
    "apg": Style("APG", "#a1447c", "#e294bf", "triangle"),
    "fapg": Style("FAPG", "#00714f", "#3fc79b", "triangle"),
    "contrast": Style("contrast", "#4f6a00", "#b4d04a", "star"),
    "fcontrast": Style("fcontrast", "#8a1c3b", "#f07a99", "star"),
    "temperature": Style("temperature", "#6b4a86", "#c8a5e0", "bar"),
    "own": Style("", "#74530f", "#d8b36a", "wedge"),  # any other rule
    "fown": Style("", "#5b3fa8", "#b9a2f2", "wedge"),  # any other rule, factored
}
#: Colours of models and of groups, in order, by the rule that has them elsewhere.
TINTS = ("fcfg", "cfg", "fapg", "apg", "cfg++", "fcfg++", "fown", "own")
#: Colours of the page on light and on dark paper; "focus" is behind a target.
PAPER: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171a"),
    "ground": ("#f5f6f7", "#1d2125"),
    "ink": ("#1b1f23", "#e6e8ea"),
    "pale": ("#59616a", "#a0a8b0"),
    "rule": ("#d9dde1", "#353b41"),
    "focus": ("#eef4f9", "#1c2933"),
}


@dataclass(frozen=True)
class Setting:
    """A guidance as tables and figures show it."""

    text: str  #: its text form, as in result files
    rule: str  #: its name in the text form
    weights: tuple[tuple[str, float], ...]
    options: str
    factored: bool  #: whether groups have weights of their own
    anchored: bool = False
    model: str = ""  #: name of the model, beside others
    tint: str = ""  #: a key of STYLES whose colour the model has
    note: str = ""  #: behind its weights, such as 'not calibrated'
    sampling: str = ""  #: if it has one of its own
    method: str = ""  #: name of the compared method that it belongs to
    roles: tuple[str, ...] = ()  #: in that method: 'calibrated', 'published'

    @property
    def is_between(self) -> bool:
        """Whether it is a point of a frontier alone."""
        return bool(self.method) and not self.roles

    @property
    def family(self) -> str:
        """Its rule, and whether it is anchored."""
        return f"{self.rule};anchor" if self.anchored else self.rule

    @property
    def is_unguided(self) -> bool:
        """Whether it is the plain answer, without guidance."""
        return self.family == BASELINE

    @property
    def _key(self) -> str:
        return self.rule if self.rule in STYLES else "fown" if self.factored else "own"

    @property
    def style(self) -> Style:
        """Its appearance."""
        return STYLES[self._key]

    @property
    def label(self) -> str:
        """Its short name, without the model.

        >>> setting("fcfg:affected=3,invariant=1.2").label, setting("none").label
        ('FCFG 3.0 / 1.2', 'unguided')
        >>> setting("cfg:1.5;anchor=true").label, setting("none;anchor=true").label
        ('anchored CFG 1.5', 'anchored unguided')
        >>> setting("cfg:1.5;anchor=true;drawn_noise=true").label
        'anchored CFG 1.5 drawn noise'
        """
        parts = ("anchored" * self.anchored, self.style.name or self.rule, self.numbers)
        parts = (self.method, self.weights_text) if self.method else parts
        return ", ".join(filter(None, (" ".join(filter(None, parts)), *self.roles, self.note)))

    @property
    def title(self) -> str:
        """Its model, beside others, and its label."""
        return f"{self.model} {self.label}".strip()

    @property
    def numbers(self) -> str:
        """Its weights, and its options unless they are the defaults."""
        return f"{self.weights_text} {self.options}".strip()

    @property
    def weights_text(self) -> str:
        """Its weights, without the names that the rule implies."""
        names = [name for name, _ in self.weights]
        if names == ["affected", "invariant"] or len(names) == 1:
            return " / ".join(str(weight) for _, weight in self.weights)
        return ", ".join(f"{name} {weight}" for name, weight in self.weights)

    @property
    def strength(self) -> float:
        """Its largest weight."""
        return max((weight for _, weight in self.weights), default=0.0)

    @property
    def colour(self) -> str:
        """Its colour for SVG and CSS."""
        return variable(self.tint or self._key)


def setting(text: str) -> Setting:
    """Read the text form of a guidance, whether or not its rule is registered.

    >>> setting("fmine:affected=3;power=2.0").label
    'fmine 3.0 power=2.0'
    """
    guidance, sampling = parts_of(text)
    head, *options = guidance.split(";")
    rule, _, stated = head.partition(":")
    weights = tuple((name or "all", float(weight)) for name, weight in _WEIGHT.findall(stated))
    others = " ".join(option for option in options if option != "anchor=true")
    shown, anchored = others.replace("drawn_noise=true", "drawn noise"), "anchor=true" in options
    return Setting(text, rule, weights, shown, "=" in stated, anchored, sampling=sampling)


def variable(name: str) -> str:
    """A colour as a variable of the style sheet."""
    return f"var(--{name.replace('+', 'p')})"


def colours(dark: bool) -> dict[str, str]:
    """Value of every colour variable, on light or on dark paper."""
    styles = {name: (style.light, style.dark) for name, style in STYLES.items()}
    return {variable(name): both[dark] for name, both in (styles | PAPER).items()}


def strongest(settings: Sequence[Setting]) -> tuple[Setting | None, Setting | None]:
    """The strongest global setting, and the first factored one of the rule that is as strong."""
    families: dict[str, list[Setting]] = {}
    for chosen in settings:
        if not chosen.is_unguided:
            families.setdefault(chosen.family, []).append(chosen)
    plain = [family for family, (first, *_) in families.items() if not first.factored]
    pairs = [family for family in plain if f"f{family}" in families]
    lonely = [family[1:] for family in families if family not in plain]
    rule = next(iter([*pairs, *plain, *lonely]), "")
    one = max(families.get(rule, []), key=lambda s: s.strength, default=None)
    factored = families.get(f"f{rule}", [])
    same = [s for s in factored if one and s.strength == one.strength]
    return one, next(iter(same), max(factored, key=lambda s: s.strength, default=None))
