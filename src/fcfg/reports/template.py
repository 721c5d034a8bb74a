"""Pages and drawings from templates, and the functions that templates call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from fcfg.reports import wording
from fcfg.reports.rule_styles import colours
from fcfg.sheet import difference_colours
from fcfg.support.images import data_url, to_pictures, to_png


def rendered(template: str, package: str = "fcfg.reports", **values: object) -> Markup:
    """A whole page, which needs no other file, or a drawing."""
    return Markup(_environment(package).get_template(template).render(values))


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("fcfg.reports", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_short,
    )
    ramp = Image.fromarray(difference_colours(np.linspace(-1, 1, 128)[None]))  # of maps
    names = ("in_words", "interval", "listed", "made", "named", "number", "sample")
    names += ("with_interval", "RETURNS")
    values: dict[str, Any] = {name: getattr(wording, name) for name in names}
    values |= {"colours": colours, "png": _png, "ramp": data_url(to_png(ramp))}
    environment.globals.update(values)
    return environment


def _short(value: object) -> object:
    """A number with at most two decimal places, enough for a coordinate."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def _png(images: Tensor) -> Sequence[str]:
    return [data_url(to_png(picture)) for picture in to_pictures(images)]
