"""Rules of guidance as a reader meets them: a name, a colour and a mark for every family.

Colours are those of Okabe and Ito, which the colour-blind can tell apart, made darker on light
paper and lighter on dark. Global rules are warm and hollow, factored ones cool and filled; the
shape of the mark says which rule it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: For every family its name, its colour on light and on dark paper, and the shape of its mark.
FAMILIES: dict[str, tuple[str, str, str, str]] = {
    "none": ("unguided", "#5d656e", "#a3abb3", "diamond"),
    "cfg": ("CFG", "#b64900", "#f08a4b", "circle"),
    "fcfg": ("FCFG", "#0068a6", "#5cb0ee", "circle"),
    "cfg++": ("CFG++", "#8a5c00", "#e6ac2e", "square"),
    "fcfg++": ("FCFG++", "#007a8a", "#5fd0de", "square"),
    "apg": ("APG", "#a1447c", "#e294bf", "triangle"),
    "fapg": ("FAPG", "#00714f", "#3fc79b", "triangle"),
    "own": ("", "#74530f", "#d8b36a", "wedge"),  # rules of others, which have names already
    "fown": ("", "#5b3fa8", "#b9a2f2", "wedge"),
}
#: What else has a colour: paper, ink, small print, hairlines, the ground of a target, bold marks.
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
    """A guidance, as tables and figures call it."""

    text: str  #: as the result files have it
    family: str
    weights: tuple[tuple[str, float], ...]
    options: str
    factored: bool  #: whether groups have weights of their own

    @property
    def style(self) -> str:
        """The entry of FAMILIES that says how it looks."""
        return self.family if self.family in FAMILIES else "fown" if self.factored else "own"

    @property
    def family_name(self) -> str:
        """The name of its family, for people."""
        return FAMILIES[self.style][0] or self.family

    @property
    def label(self) -> str:
        """Its short name.

        >>> setting("fcfg:affected=3,invariant=1.2").label, setting("none").label
        ('FCFG 3.0 / 1.2', 'unguided')
        """
        return " ".join(part for part in (self.family_name, self.numbers) if part)

    @property
    def numbers(self) -> str:
        """Its weights, and its options where they are not the usual ones.

        >>> setting("apg:3;eta=0.5").numbers, setting("fcfg:male=2,young=1").numbers
        ('3.0 eta=0.5', 'male 2.0, young 1.0')
        """
        names = [name for name, _ in self.weights]
        if names == ["affected", "invariant"] or len(names) == 1:
            weights = " / ".join(str(weight) for _, weight in self.weights)
        else:
            weights = ", ".join(f"{name} {weight}" for name, weight in self.weights)
        return f"{weights} {self.options}".strip()

    @property
    def strength(self) -> float:
        """Its largest weight."""
        return max((weight for _, weight in self.weights), default=0.0)

    @property
    def colour(self) -> str:
        """For SVG and CSS."""
        return variable(self.style)

    @property
    def mark(self) -> str:
        """The shape that stands for its family."""
        return FAMILIES[self.style][3]


def setting(text: str) -> Setting:
    """Read the text form of a guidance, also of a rule that this process does not know.

    >>> setting("fmine:affected=3;power=2.0").label
    'fmine 3.0 power=2.0'

    Args:
        text: As in :class:`fcfg.guidance.Guidance`.
    """
    family, _, rest = text.partition(":")
    stated, *options = rest.split(";")
    pairs = [pair.partition("=") for pair in stated.split(",") if pair]
    factored = "=" in stated
    weights = tuple(
        (name.strip() if factored else "all", number)
        for name, _, value in pairs
        if (number := _number(value if factored else name)) is not None
    )
    return Setting(text, family.strip(), weights, " ".join(options), factored)


def _number(text: str) -> float | None:
    """A weight; None for a function, which has no number."""
    try:
        return float(text)
    except ValueError:
        return None


def variable(name: str) -> str:
    """The colour of a family, or of paper and ink, as a variable of the style sheet.

    >>> variable("fcfg++")
    'var(--fcfgpp)'
    """
    return f"var(--{name.replace('+', 'p')})"


def colours(dark: bool) -> dict[str, str]:
    """Every variable with its colour, on light or on dark paper."""
    families = {name: (light, night) for name, (_, light, night, _) in FAMILIES.items()}
    return {variable(name): both[dark] for name, both in (families | PAPER).items()}


def palette_css() -> str:
    """The variables for a page that follows the reader's choice of light or dark."""
    light, night = (
        ";".join(f"{name[4:-1]}:{colour}" for name, colour in colours(dark).items())
        for dark in (False, True)
    )
    return f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{night}}}}}\n"


def strongest(settings: Sequence[Setting]) -> tuple[Setting | None, Setting | None]:
    """The strongest global guidance, and the factored one to set beside it.

    CFG where it was run, else the first global rule. Beside it, the same rule factored: of those
    whose largest weight is the same, the first in the order of the run; else the strongest.
    """
    guided = [s for s in settings if s.family != "none"]
    run = [s.family.removeprefix("f") if s.factored else s.family for s in guided]
    every = dict.fromkeys(["cfg", "cfg++", "apg", *run])
    rules = [rule for rule in every if _family(settings, rule)]
    pairs = [rule for rule in rules if _family(settings, f"f{rule}")]
    lonely = [rule for rule in every if _family(settings, f"f{rule}")]
    rule = next(iter([*pairs, *rules, *lonely]), "cfg")
    everywhere = max(_family(settings, rule), key=lambda s: s.strength, default=None)
    factored = _family(settings, f"f{rule}")
    beside = [s for s in factored if everywhere and s.strength == everywhere.strength]
    return everywhere, next(iter(beside), max(factored, key=lambda s: s.strength, default=None))


def _family(settings: Sequence[Setting], family: str) -> list[Setting]:
    return [s for s in settings if s.family == family]
