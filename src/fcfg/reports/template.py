"""Pages from templates: the style sheet, and the functions that templates call."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from torch import Tensor

from fcfg.reports.rule_styles import palette_css
from fcfg.reports.strips import ramp
from fcfg.reports.wording import facts, listed, named
from fcfg.support.images import data_url, to_pictures, to_png


def rendered(template: str, package: str = "fcfg.reports", **values: object) -> str:
    """A whole page, which needs no other file."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("fcfg.reports", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = palette_css() + files("fcfg.reports").joinpath("style.css").read_text("utf-8")
    return environment.get_template(template).render(
        style=Markup(style),
        named=named,
        listed=listed,
        facts=facts,
        png=_png,
        ramp=data_url(ramp()),
        markup=Markup,
        **values,
    )


def _png(images: Tensor) -> Sequence[str]:
    """Images as PNG files inside the page."""
    return [data_url(to_png(picture)) for picture in to_pictures(images)]
