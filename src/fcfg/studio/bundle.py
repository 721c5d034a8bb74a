"""The page of the studio in one file, which opens without a server.

The page loads its scripts one after the other, which share their names. In one file they are one
script, in the same order: browsers load neither further files nor modules from ``file://``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"
_SCRIPTS = re.compile(r'(?:<script src="/static/[a-z]+\.js"></script>\n)+')
_STYLE = '<link rel="stylesheet" href="/static/style.css">\n'


def static_text(name: str) -> str:
    """Return a text file of the page."""
    return (STATIC / name).read_text("utf-8")


def one_page(table: Mapping[str, Any]) -> str:
    """Return the page with its style, its script and a table of answers inside.

    A content security policy inside the page allows nothing else, so that it cannot ask anyone.
    """
    page, style = static_text("index.html"), static_text("style.css")
    script = "".join(map(static_text, re.findall(r"(\w+\.js)", page)))
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data: blob:"
    )
    data = json.dumps(table, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    tail = (
        f'<script type="application/json" id="table">{data}</script>\n<script>{script}</script>\n'
    )
    return _SCRIPTS.sub(lambda _: tail, page.replace(_STYLE, head))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
