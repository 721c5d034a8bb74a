"""Words for the values of binary attributes, which a model may bring in a file of its folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import RootModel

from fcfg.causal.attributes import AttributeSpace
from fcfg.support.config_errors import validate
from fcfg.support.config_files import parse_json, read_text

WORDS = "words.json"  #: file beside a model, such as {"sex": ["female", "male"]}


class _Words(RootModel[dict[str, tuple[str, str]]]):
    """Words for no and yes, by attribute."""


def read_words(folder: Path, space: AttributeSpace) -> dict[str, list[str]]:
    """Return the words for no and yes, by attribute; none without a file.

    Args:
        folder: Folder of the model.
        space: Attributes of the model; words for others are refused.
    """
    path = folder / WORDS
    if not path.exists():
        return {}
    subject = f"words {path}"
    text = read_text(path, subject, expected="words for attributes")
    words = validate(_Words, parse_json(text, subject, do="correct it"), subject).root
    space.check_known(words, subject)
    return {name: list(pair) for name, pair in words.items()}
