r"""Fonts for text in pictures.

Pillow's own font has English letters only, and draws all others as the same box. For other text,
fonts of this machine are tried. Letters that no font has are written as codes, such as ``\u6f22``,
so that two names never look alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import TypeAlias, cast

from PIL import ImageFont

Font: TypeAlias = ImageFont.FreeTypeFont

#: Font files with many letters, on Linux, macOS and Windows.
SYSTEM = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf"),
    *("Arial Unicode.ttf", "arial.ttf", "NotoSansCJK-Regular.ttc", "wqy-zenhei.ttc"),
    *("PingFang.ttc", "AppleSDGothicNeo.ttc", "msyh.ttc", "malgun.ttf", "YuGothM.ttc"),
)
_NO_LETTER = "\U0010ffff"  # in no font, so it is drawn like every missing letter


def font_for(texts: Iterable[str], size: int) -> Font:
    """Return the font with most letters of some texts; Pillow's own if it has all."""
    letters = "".join(texts)
    return min(_fonts(SYSTEM, size), key=lambda font: len(missing_letters(letters, font)))


def missing_letters(text: Iterable[str], font: Font) -> set[str]:
    """Return the letters that a font does not have."""
    return {letter for letter in set(text) if not letter.isspace() and not _has(font, letter)}


def legible(text: str, font: Font) -> str:
    r"""Return a text in one line, with codes for letters that a font does not have."""
    codes = {letter: " " for letter in text if letter.isspace()}
    for letter in missing_letters(text, font):
        codes[letter] = letter.encode("unicode_escape").decode()
    return text.translate(str.maketrans(codes))


@cache
def _fonts(names: tuple[str, ...], size: int) -> list[Font]:
    """Return Pillow's own font, and those of some others that this machine has."""
    found = [cast(Font, ImageFont.load_default(size))]
    for name in names:
        with suppress(OSError):
            found.append(ImageFont.truetype(name, size))
    return found


@cache
def _has(font: Font, letter: str) -> bool:
    drawn, missing = (font.getmask(each) for each in (letter, _NO_LETTER))
    return (drawn.size, [*drawn]) != (missing.size, [*missing])
