"""Pages from templates: the style sheet, and the functions that templates call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from torch import Tensor

from fcfg.reports.numbers import listed, named
from fcfg.reports.rule_styles import palette_css
from fcfg.reports.strips import encoded, ramp
from fcfg.reports.svg import mark
from fcfg.support.images import data_url, to_pictures


def rendered(template: str, **values: object) -> str:
    """A whole page, which needs no other file.

    Args:
        template: File name of the template.
        values: Contents of the page, by the names in the template.
    """
    environment = Environment(
        loader=PackageLoader("fcfg.reports", ""),
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
        mark=mark,
        facts=_facts,
        png=_png,
        ramp=data_url(ramp()),
        **values,
    )


def _facts(about: Mapping[str, object]) -> str:
    """Facts in one line; the reason instead if something is missing."""
    if "missing" in about:
        return str(about["missing"])
    return ", ".join(f"{key} {value}" for key, value in about.items() if value is not None)


def _png(images: Tensor) -> Sequence[str]:
    """Images as PNG files inside the page."""
    return [data_url(encoded(picture)) for picture in to_pictures(images)]
