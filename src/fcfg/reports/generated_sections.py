"""Pages with generated parts: what lies between two marks is written by a program.

A part begins with ``<!-- generated: NAME -->`` and ends with ``<!-- end -->``; the rest of a page
is written by hand and left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fcfg.support.errors import InputError

END = "<!-- end -->"
_START = re.compile(r"<!-- generated: (?P<name>[^\s>]+) -->")


def start(name: str) -> str:
    """The mark that a part begins with.

    >>> start("presets")
    '<!-- generated: presets -->'
    """
    return f"<!-- generated: {name} -->"


def generated(page: str, part: Callable[[str], str]) -> str:
    r"""A page with every part as the program has it now.

    >>> generated("A\n<!-- generated: x -->\nold\n<!-- end -->\nB", lambda name: "new")
    'A\n<!-- generated: x -->\n\nnew\n\n<!-- end -->\nB'

    Args:
        page: Markdown with any number of parts.
        part: What stands in the part of a name.
    """
    marks = [(found["name"], found.end()) for found in _START.finditer(page)]
    done, pieces = 0, list[str]()
    for name, begin in marks:
        end = page.find(END, begin)
        if end < 0 or _START.search(page, begin, end):
            raise InputError(
                f"page, part '{name}'",
                expected=f"'{start(name)}' and after it '{END}'",
                got="no end before the next part" if end >= 0 else "no end",
                do="add both",
            )
        pieces += [page[done:begin], f"\n\n{part(name).strip()}\n\n"]
        done = end
    return "".join([*pieces, page[done:]])
