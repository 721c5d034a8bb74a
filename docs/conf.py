"""Sphinx settings: furo, Markdown pages, docstrings, warnings as errors."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.inspect import TypeAliasForwardRef

import fcfg

project = "fcfg"
author = "The fcfg developers"
copyright = f"2026, {author}"
release = version = fcfg.__version__

# Names of type aliases, where Sphinx would print its own class around them.
TypeAliasForwardRef.__repr__ = lambda self: self.name

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",  # a page for every public name, see api.md
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 2
exclude_patterns = ["_build", "_extra"]
templates_path = ["_templates"]
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_context = {"public": fcfg.__all__}  # which stand on the page of fcfg alone
html_use_index = False
html_theme = "furo"
html_title = "fcfg"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_extra_path = ["_extra"]  # gallery/index.html, which 'fcfg studio --export' wrote
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_type_aliases = {
    name: name
    for name in [
        "ArrayLike",
        "Column",
        "Images",
        "ImagesLike",
        "Intervention",
        "Keys",
        "OnFit",
        "OnStep",
        "State",
        "Table",
        "Weight",
    ]
}
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Where links of README.md lead when it is a page of this documentation.
_LINKS = {
    "](docs/": "](",
    "](src/": "](../src/",
    "](models/": "](../models/",
    "](CHANGELOG.md": "](changelog.md",
    "](CONTRIBUTING.md": "](contributing.md",
}


def _readme(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "readme":
        path = Path(app.srcdir).parent / "README.md"
        app.env.note_dependency(path)
        source[0] = path.read_text("utf-8")
        for link, here in _LINKS.items():
            source[0] = source[0].replace(link, here)


def _short_sidebar(
    app: Sphinx, page: str, template: str, context: dict[str, Any], *_: Any
) -> None:
    """List in the sidebar what leads to a page: on each all pages, that took three minutes."""
    whole = context.get("toctree")
    if whole is not None:
        context["toctree"] = lambda **how: whole(**how | {"collapse": True})


def setup(app: Sphinx) -> None:
    app.connect("source-read", _readme)
    app.connect("html-page-context", _short_sidebar, priority=400)  # before furo asks for it
