r"""The font of pictures: one that has the letters of their texts.

Pillow's own font has plain English letters only, and draws all others as the same box. Where a
text needs more, fonts of this machine are tried. What none of them has is written as its code,
such as ``\u6f22``, so that two names never look alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeAlias, cast

from PIL import ImageFont

Font: TypeAlias = ImageFont.FreeTypeFont

#: Files of fonts with many letters, as Linux, macOS and Windows have them.
SYSTEM = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "LiberationSans-Regular.ttf",
    "Arial Unicode.ttf",
    "arial.ttf",
    "NotoSansCJK-Regular.ttc",
    "wqy-zenhei.ttc",
    "PingFang.ttc",
    "AppleSDGothicNeo.ttc",
    "msyh.ttc",
    "malgun.ttf",
    "YuGothM.ttc",
)
_NO_LETTER = "\U0010ffff"  # which no font has: it looks like everything that is missing


def font_for(texts: Iterable[str], size: int) -> Font:
    """The font that has most letters of some texts, Pillow's own where it has all.

    Args:
        texts: What will be written.
        size: Height in pixels.
    """
    letters = frozenset("".join(texts))
    best = _own(size)
    for name in SYSTEM:
        if not missing_letters(letters, best):
            break
        font = _system(name, size)
        if font is not None:
            best = min(best, font, key=lambda font: len(missing_letters(letters, font)))
    return best


def missing_letters(text: Iterable[str], font: Font) -> set[str]:
    """Letters that a font does not have."""
    return {letter for letter in set(text) if not letter.isspace() and not _has(font, letter)}


def legible(text: str, font: Font) -> str:
    r"""A text in one line, with codes for letters that a font does not have.

    >>> legible("too naïve", ImageFont.load_default(13))
    'too na\\xefve'
    """
    codes = {letter: " " for letter in text if letter.isspace()}
    for letter in missing_letters(text, font):
        codes[letter] = letter.encode("unicode_escape").decode()
    return text.translate(str.maketrans(codes))


@cache
def _own(size: int) -> Font:
    return cast(Font, ImageFont.load_default(size))


@cache
def _system(name: str, size: int) -> Font | None:
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None


@cache
def _has(font: Font, letter: str) -> bool:
    return _drawn(font, letter) != _drawn(font, _NO_LETTER)


def _drawn(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(cast(Iterable[int], mask))
