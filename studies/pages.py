"""Write the generated sections of README, documentation and model cards.

    python studies/pages.py            # write them
    python studies/pages.py --check    # exit with 1 if a page is out of date

A section stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; ``sections.py`` has its
text, or ``results/tables/NAME.csv``. To move a section, move its two marks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from fcfg.support.errors import InputError
from sections import section

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(
    r"^(?P<start><!-- generated: (?P<name>\S+) -->)(?P<old>.*?)^(?P<end><!-- end -->)$",
    re.DOTALL | re.MULTILINE,
)


def pages(root: Path = ROOT) -> Iterator[Path]:
    """Yield all pages that may have generated sections."""
    yield from (root / "README.md", *sorted(root.glob("docs/*.md")))
    yield from sorted(root.glob("src/fcfg/pipeline/models/*/README.md"))
    yield from sorted(root.glob("models/src/fcfg_models/*/README.md"))


def filled(text: str, folder: str = "docs") -> str:
    r"""Return a page with all its sections up to date.

    Args:
        text: The page.
        folder: Folder of the page, which links to results are relative to.
    """
    for match in _SECTION.finditer(text):
        if "<!-- generated:" in match["old"]:
            raise InputError(
                f"section '{match['name']}'",
                expected="an end before the next section",
                got="none",
                do="add '<!-- end -->'",
            )

    def new(match: re.Match[str]) -> str:
        own = section(match["name"]).strip()
        if folder != "docs":  # the wheel has no studies: name the file, without a link
            own = re.sub(r"\[([^]]*)\]\(\.\./(studies/[^)]*)\)", r"\1 (`\2`)", own)
        return f"{match['start']}\n\n{own}\n\n{match['end']}"

    return _SECTION.sub(new, text)


def main(words: list[str], root: Path = ROOT) -> int:
    """Write what is out of date, or only name it."""
    stale = 0
    for page in pages(root):
        text = page.read_text("utf-8")
        wanted = filled(text, page.relative_to(root).parts[0])
        if wanted == text:
            continue
        stale += 1
        if "--check" in words:
            print(f"{page.relative_to(root)} is out of date: run python studies/pages.py")
        else:
            page.write_text(wanted, "utf-8")
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
