"""The methods that are compared for a model, and what each is searched over: ``methods.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fcfg.guidance import Guidance
from fcfg.sampling import SamplingLike, as_sampling
from fcfg.support.config_files import read_yaml
from fcfg.support.errors import InputError, check_among

#: Weights that are measured of every method.
WEIGHTS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)


_FILE = Path(__file__).with_suffix(".yaml")
_READ = read_yaml(_FILE, _FILE.name, expected="the methods", do="install fcfg again")
_METHODS: dict[str, dict[str, Any]] = _READ["methods"]
_USUAL: dict[str, Any] = {"under": ["dpm", "ddim", "latest"], "variants": "of any", "few": "late"}
#: Names of the methods.
METHODS = tuple(_METHODS)


@dataclass(frozen=True)
class Candidate:
    """A method, or a variant of it, under one sampling."""

    method: str  #: its name
    variant: str  #: options that differ from those of the method, as text
    guidance: Guidance
    sampling: str  #: solver, grid and steps

    @property
    def label(self) -> str:
        """Variant and sampling."""
        return ", ".join(filter(None, (self.variant, self.sampling)))

    @property
    def published(self) -> str:
        """The guidance of the method itself, with the weights of its authors."""
        return _METHODS[self.method]["guidance"]


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names of methods between commas, or all.

    >>> parse_names("FCFG plain, SDEdit")
    ('FCFG plain', 'SDEdit')
    """
    return METHODS if text == "all" else tuple(name.strip() for name in text.split(","))


def candidates(
    names: Sequence[str], samplings: Sequence[SamplingLike] | None = None
) -> dict[str, list[Candidate]]:
    """Return what is tried of each method; unknown names are refused.

    >>> [(own.variant, own.sampling) for own in candidates(["LEDITS++"])["LEDITS++"]][3:5]
    [('', 'ddpm:1.0 quadratic:0.8 11'), ('mask=0.5', 'ddpm:1.0 uniform:0.8 20')]

    Args:
        names: Names of methods.
        samplings: Samplings to try, instead of those of each method.
    """
    if not names:
        expected, do = "the name of a method", f"use some of {', '.join(METHODS)}"
        raise InputError("methods", expected=expected, got="none", do=do)
    for name in names:
        check_among("methods", name, METHODS)
    return {name: _of(name, samplings) for name in dict.fromkeys(names)}


def _of(name: str, given: Sequence[SamplingLike] | None) -> list[Candidate]:
    own, known = _USUAL | _METHODS[name], _READ["samplings"]
    guidance, few = Guidance.parse(own["guidance"]), given or known[own["few"]]
    under = given or [text for group in own["under"] for text in known[group]]
    found = [Candidate(name, "", guidance, str(as_sampling(each))) for each in under]
    for options in _READ["variants"].get(own["variants"], ()):
        text = ";".join(f"{option}={value}" for option, value in options.items())
        changed = guidance.replace(**options)
        found += [Candidate(name, text, changed, str(as_sampling(each))) for each in few]
    return found
