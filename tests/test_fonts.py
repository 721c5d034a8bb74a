"""Text in pictures: different texts look different, in any alphabet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image

from fcfg.generation import compare
from fcfg.sheet import heatmap, sheet
from fcfg.support import fonts
from fcfg.support.fonts import font_for, legible, missing_letters

GREY = torch.zeros(1, 8, 8)
NOBODY = "\U0001fbff"  # not assigned to any letter


DRAWN: dict[str, Callable[[str], Image.Image]] = {
    "on a sheet": lambda text: sheet({text: torch.zeros(1, 1, 8, 8)}),
    "on a heat map": lambda text: heatmap([text], np.ones((1, 1))),
    "as a title": lambda text: compare(dict.fromkeys((text, "b"), GREY), {text: [], "b": []}),
    "as a caption": lambda text: compare(dict.fromkeys("ab", GREY), {"a": [text], "b": []}),
}


@pytest.mark.parametrize("system", [fonts.SYSTEM, ()])
@pytest.mark.parametrize("where", DRAWN)
def test_names_look_different_whatever_fonts_there_are(where: str, system, monkeypatch) -> None:
    monkeypatch.setattr(fonts, "SYSTEM", system)
    for one, other in (("улыбка", "кнопка"), ("笑顔", "性別"), ("é", "è")):
        assert DRAWN[where](one).tobytes() != DRAWN[where](other).tobytes()


def test_texts_keep_a_font_that_has_them_and_others_are_written_as_codes() -> None:
    font = font_for([NOBODY, "a"], 13)
    assert legible(f"a{NOBODY}", font) == "a\\U0001fbff"
    assert missing_letters([NOBODY, "a", " "], font) == {NOBODY}
    assert heatmap(["x" * 100_000], np.ones((1, 1))).width < 1000
    own, chosen = font_for([], 13), font_for(["улыбка"], 13)
    assert len(missing_letters("улыбка", chosen)) <= len(missing_letters("улыбка", own))
    assert font_for(["do(smiling)"], 13).getname()[0] == "Aileron"
    assert legible("two\nlines and\xa0a hard space", font_for([], 13)) == (
        "two lines and a hard space"
    )
