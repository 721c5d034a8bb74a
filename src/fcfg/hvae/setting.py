"""The setting of a prediction: how much of the posterior and of the residual it keeps.

The text form is ``none``, or ``temperature:NUMBER`` and an option, ``[;residual=NUMBER]``. It is
the ``repr`` of a setting, and the command line reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.storage import register_setting
from fcfg.support.errors import InputError, check_is
from fcfg.support.parsing import parse_pairs

_EXAMPLE = "temperature:0.1;residual=0.5"


@register_setting("temperature")
@dataclass(frozen=True, repr=False)
class HVAESetting:
    """How a hierarchical VAE predicts.

    >>> HVAESetting(temperature=0.1, residual=0.5)
    temperature:0.1;residual=0.5
    >>> HVAESetting.parse("none")
    none

    Args:
        temperature: Factor of the posterior scale from which latents are drawn, 0 to 1; at 0 they
            are the posterior means.
        residual: Share of what the model did not explain of the image, 0 to 1. Only at 1 is an
            image under its own attributes exactly that image.
    """

    temperature: float = 0.1
    residual: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers outside 0 to 1, and convert the others to floats."""
        for name, value in vars(self).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value <= 1:
                raise InputError(
                    f"setting, {name}",
                    expected="a number from 0 to 1",
                    got=repr(value),
                    do=f"write for example {_EXAMPLE}",
                )
            object.__setattr__(self, name, float(value))

    @classmethod
    def parse(cls, text: str) -> HVAESetting:
        """Read the text form."""
        check_is("setting", text, str, "a string", do=f"write it as {_EXAMPLE}")
        if text.strip() == "none":
            return cls(temperature=0.0)
        head, *options = text.split(";")
        name, _, temperature = (part.strip() for part in head.partition(":"))
        pairs = parse_pairs(options, f"setting '{text}'", example=_EXAMPLE)
        residual = pairs.pop("residual", "1")
        if name != "temperature" or pairs:
            raise InputError(
                f"setting '{text}'",
                expected="'none', or 'temperature:' and a number, and no option but residual",
                got=repr(next(iter(pairs), name)),
                do=f"write for example {_EXAMPLE}",
            )
        return cls(_number(text, temperature), _number(text, residual))

    def __repr__(self) -> str:
        if self == HVAESetting(temperature=0.0):
            return "none"
        residual = "" if self.residual == 1 else f";residual={self.residual!r}"
        return f"temperature:{self.temperature!r}{residual}"


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise InputError(
            f"setting '{text}'",
            expected="a number",
            got=repr(value),
            do=f"write for example {_EXAMPLE}",
        ) from error
