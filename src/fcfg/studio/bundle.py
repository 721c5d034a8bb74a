"""The page of the studio in one file, which opens without a server.

Browsers load no ES modules from ``file://``. Each module therefore becomes a function that runs
once and returns its exports, in one classic script inside the page. The modules keep to a few
forms of ``import`` and ``export`` that can be rewritten line by line; others are refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from fcfg.support.errors import InputError

_STATIC = files("fcfg.studio").joinpath("static")
_IMPORT = re.compile(r'^import \{ ([\w$, ]+) \} from "\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const)\*? ([\w$]+))", re.MULTILINE)
_MODULE = '<script type="module" src="/static/main.js"></script>\n'
_STYLE = '<link rel="stylesheet" href="/static/style.css">\n'


def static_text(name: str) -> str:
    """Return a text file of the page."""
    return _STATIC.joinpath(name).read_text("utf-8")


def one_script(sources: Mapping[str, str], first: str = "main") -> str:
    r"""Join ES modules to one classic script.

    >>> main = 'import { a } from "./b.js";\na();'
    >>> print(one_script({"main": main, "b": "export const a = f;"}))
    "use strict";
    const module_b = (() => {
    const a = f;
    return { a };
    })();
    (() => {
    const { a } = module_b;
    a();
    })();

    Args:
        sources: Text of each module, by its name without suffix.
        first: The module that the page loads.
    """
    done: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above or name not in sources:
            raise _refusal(name, "no circle" if name in above else "a file", " → ".join(above))
        if name in done:
            return
        source = sources[name]
        for match in _IMPORT.finditer(source):
            add(match[2], (*above, name))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const { \1 } = module_\2;", source))
        left = re.search(r"^(import|export)\b.*", body, re.MULTILINE)
        if left or "</script" in body or "<!--" in body:
            raise _refusal(name, "plain imports and exports", left[0] if left else "a tag")
        exports = [match[2] for match in _EXPORT.finditer(source)]
        opening = f"const module_{name} = " if exports else ""
        closing = f"return {{ {', '.join(exports)} }};\n" if exports else ""
        done[name] = f"{opening}(() => {{\n{body.strip()}\n{closing}}})();"

    add(first, ())
    return "\n".join(['"use strict";', *done.values()])


def _refusal(name: str, expected: str, got: str) -> InputError:
    return InputError(
        f"module '{name}' of the page",
        expected=expected,
        got=got,
        do="write 'import { a, b } from \"./file.js\";' and 'export function', 'const' or 'class'",
    )


def one_page(table: Mapping[str, Any]) -> str:
    """Return the page with its style, its script and a table of answers inside.

    A content security policy inside the page allows nothing else, so that it cannot ask anyone.

    Args:
        table: JSON values that the page answers from.
    """
    names = [path.name for path in _STATIC.iterdir() if path.name.endswith(".js")]
    script = one_script({name.removesuffix(".js"): static_text(name) for name in names})
    style = static_text("style.css")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data: blob:"
    )
    data = json.dumps(table, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    page = static_text("index.html")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    tail = (
        f'<script type="application/json" id="table">{data}</script>\n<script>{script}</script>\n'
    )
    page = page.replace(_MODULE, "").replace(_STYLE, head)
    return page.replace("</body>", tail + "</body>")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
