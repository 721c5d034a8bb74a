"""The setting of a prediction: how much of the posterior and of the residual it keeps.

The text form is ``none``, or ``temperature:NUMBER`` and an option, ``[;residual=NUMBER]``. It is
the ``repr`` of a setting, and the command line reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fcfg.support.errors import InputError
from fcfg.support.options import TextForm, check_options, option

_EXAMPLE = "temperature:0.1;residual=0.5"


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

    temperature: float = option(0.1, "a number from 0 to 1", lambda share: 0 <= share <= 1)
    residual: float = option(1.0, "a number from 0 to 1", lambda share: 0 <= share <= 1)

    def __post_init__(self) -> None:
        """Refuse numbers outside 0 to 1, and convert the others to floats."""
        check_options(self, "setting,")

    @classmethod
    def parse(cls, text: str) -> HVAESetting:
        """Read the text form."""
        form = TextForm.read(text, "setting", _EXAMPLE)
        if form == TextForm("none", {}, {}):
            return cls(temperature=0.0)
        others = [name for name in form.options if name != "residual"]
        if form.name != "temperature" or [*form.numbers] != [""] or others:
            raise InputError(
                f"setting '{text}'",
                expected="'none', or 'temperature:' and a number, and no option but residual",
                got=repr([*others, form.name][0]),
                do=f"write for example {_EXAMPLE}",
            )
        return cls(form.numbers[""], **form.options)

    def __repr__(self) -> str:
        if self == HVAESetting(temperature=0.0):
            return "none"
        options = {} if self.residual == 1 else {"residual": self.residual}
        return str(TextForm("temperature", {"": self.temperature}, options))
