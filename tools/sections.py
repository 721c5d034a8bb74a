"""Pages with generated sections: a program writes the text between two marks.

A section begins with ``<!-- generated: NAME -->`` and ends with ``<!-- end -->``; the rest of the
page is written by hand and left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fcfg.support.errors import InputError

END = "<!-- end -->"
_START = re.compile(r"<!-- generated: (?P<name>[^\s>]+) -->")


def start(name: str) -> str:
    """Return the mark that begins a section.

    >>> start("presets")
    '<!-- generated: presets -->'
    """
    return f"<!-- generated: {name} -->"


def names(page: str) -> list[str]:
    """Return the names of the sections of a page, in order.

    >>> names("A\\n<!-- generated: x -->\\nold\\n<!-- end -->\\nB")
    ['x']
    """
    return [match["name"] for match in _START.finditer(page)]


def fill(page: str, section: Callable[[str], str]) -> str:
    r"""Return a page with new text in every section.

    >>> fill("A\n<!-- generated: x -->\nold\n<!-- end -->\nB", lambda name: "new")
    'A\n<!-- generated: x -->\n\nnew\n\n<!-- end -->\nB'

    Args:
        page: Markdown with any number of sections.
        section: Function from the name of a section to its text.
    """
    done, pieces = 0, list[str]()
    for match in _START.finditer(page):
        begin, name = match.end(), match["name"]
        end = page.find(END, begin)
        if end < 0 or _START.search(page, begin, end):
            raise InputError(
                f"page, section '{name}'",
                expected=f"'{start(name)}' and after it '{END}'",
                got="no end before the next section" if end >= 0 else "no end",
                do="add both",
            )
        pieces += [page[done:begin], f"\n\n{section(name).strip()}\n\n"]
        done = end
    return "".join([*pieces, page[done:]])
