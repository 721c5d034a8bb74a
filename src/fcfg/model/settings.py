"""The setting of an answer as text, whatever the model."""

from __future__ import annotations

import re
from typing import Any

from fcfg.guidance import Guidance
from fcfg.guidance.rule import RULES, UNGUIDED
from fcfg.storage import find_setting


def parse_setting(text: str) -> Any:
    """Read the text form of a setting of any kind of model.

    Its first word says which: one that a kind of models registered with
    :func:`fcfg.storage.register_setting`. All others are rules of guidance.

    >>> parse_setting("temperature:0.5"), parse_setting("cfg:2")
    (temperature:0.5, cfg:2.0)
    """
    head = re.split("[:;]", str(text), maxsplit=1)[0].strip()
    known = {UNGUIDED, *RULES, *(f"f{rule}" for rule in RULES)}
    setting = None if head in known else find_setting(head)
    return (Guidance if setting is None else setting).parse(text)
