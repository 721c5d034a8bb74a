"""Rules of guidance as a reader meets them: a name, a colour and a mark for every family.

Colours are those of Okabe and Ito, which the colour-blind can tell apart, made darker on light
paper and lighter on dark. Global rules are warm and hollow, factored ones cool and filled; the
shape of the mark says which rule it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fcfg.guidance import Guidance

#: For every family its name, its colour on light and on dark paper, and the shape of its mark.
FAMILIES: dict[str, tuple[str, str, str, str]] = {
    "none": ("unguided", "#5d656e", "#a3abb3", "diamond"),
    "cfg": ("CFG", "#b64900", "#f08a4b", "circle"),
    "fcfg": ("FCFG", "#0068a6", "#5cb0ee", "circle"),
    "cfg++": ("CFG++", "#8a5c00", "#e6ac2e", "square"),
    "fcfg++": ("FCFG++", "#007a8a", "#5fd0de", "square"),
    "apg": ("APG", "#a1447c", "#e294bf", "triangle"),
    "fapg": ("FAPG", "#00714f", "#3fc79b", "triangle"),
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

    @property
    def factored(self) -> bool:
        """Whether groups have weights of their own."""
        return self.family.startswith("f")

    @property
    def label(self) -> str:
        """Its short name.

        >>> setting("fcfg:affected=3,invariant=1.2").label, setting("none").label
        ('FCFG 3.0 / 1.2', 'unguided')
        """
        return " ".join(part for part in (FAMILIES[self.family][0], self.numbers) if part)

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
        return variable(self.family)

    @property
    def mark(self) -> str:
        """The shape that stands for its family."""
        return FAMILIES[self.family][3]


def setting(text: str) -> Setting:
    """Read the text form of a guidance.

    Args:
        text: As in :class:`fcfg.guidance.Guidance`.
    """
    guidance = Guidance.parse(text)
    family = ("f" if guidance.factored else "") + guidance.rule
    weights = tuple((name, weight) for name, weight in guidance.weights if not callable(weight))
    return Setting(text, family, weights, " ".join(repr(guidance).split(";")[1:]))


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
    rules = [rule for rule in ("cfg", "cfg++", "apg") if _family(settings, rule)]
    pairs = [rule for rule in rules if _family(settings, f"f{rule}")]
    lonely = [rule for rule in ("cfg", "cfg++", "apg") if _family(settings, f"f{rule}")]
    rule = next(iter([*pairs, *rules, *lonely]), "cfg")
    everywhere = max(_family(settings, rule), key=lambda s: s.strength, default=None)
    factored = _family(settings, f"f{rule}")
    beside = [s for s in factored if everywhere and s.strength == everywhere.strength]
    return everywhere, next(iter(beside), max(factored, key=lambda s: s.strength, default=None))


def _family(settings: Sequence[Setting], family: str) -> list[Setting]:
    return [s for s in settings if s.family == family]
