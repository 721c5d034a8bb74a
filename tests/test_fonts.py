"""Text in pictures: different texts look different, in any alphabet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fcfg.cli.heatmap import heatmap
from fcfg.generation.comparison import Tile, comparison
from fcfg.sheet import sheet
from fcfg.support import fonts
from fcfg.support.fonts import font_for, legible, missing_letters

NOBODY = "\U0001fbff"  # not assigned to any letter


def on_a_sheet(text: str) -> Image.Image:
    return sheet({text: torch.zeros(1, 1, 8, 8)})


def on_a_heat_map(text: str) -> Image.Image:
    return heatmap([text], np.ones((1, 1)))


def as_a_title(text: str) -> Image.Image:
    return comparison([Tile(text, Image.new("L", (8, 8)))])


def as_a_caption(text: str) -> Image.Image:
    return comparison([Tile("x", Image.new("L", (8, 8)), [text])])


@pytest.mark.parametrize("system", [fonts.SYSTEM, ()])
@pytest.mark.parametrize("draw", [on_a_sheet, on_a_heat_map, as_a_title, as_a_caption])
@pytest.mark.parametrize(("one", "other"), [("улыбка", "кнопка"), ("笑顔", "性別"), ("é", "è")])
def test_names_look_different_whatever_fonts_there_are(
    draw: Callable[[str], Image.Image],
    system: tuple[str, ...],
    one: str,
    other: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fonts, "SYSTEM", system)
    assert draw(one).tobytes() != draw(other).tobytes()


def test_what_no_font_has_is_written_as_its_code() -> None:
    font = font_for([NOBODY, "a"], 13)
    assert legible(f"a{NOBODY}", font) == "a\\U0001fbff"
    assert missing_letters([NOBODY, "a", " "], font) == {NOBODY}


def test_plain_texts_keep_the_font_that_every_machine_has() -> None:
    assert font_for(["do(smiling)"], 13).getname()[0] == "Aileron"
    assert legible("two\nlines and\xa0a hard space", font_for([], 13)) == (
        "two lines and a hard space"
    )


def test_a_font_of_the_machine_is_taken_where_it_has_more(tmp_path: Path, monkeypatch) -> None:
    own = font_for([], 13)
    copy = tmp_path / "copy.ttf"  # has no more than Pillow's own
    copy.write_bytes(own.path.getvalue())
    monkeypatch.setattr(fonts, "SYSTEM", ("no such font.ttf", str(copy)))
    assert font_for(["улыбка"], 13) is own
    monkeypatch.undo()
    chosen = font_for(["улыбка"], 13)
    assert len(missing_letters("улыбка", chosen)) <= len(missing_letters("улыбка", own))


def test_a_long_label_makes_no_large_picture() -> None:
    assert heatmap(["x" * 100_000], np.ones((1, 1))).width < 1000
