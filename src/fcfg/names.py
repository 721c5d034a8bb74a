"""Names of attributes and groups: what may be one."""

from __future__ import annotations

import re

from fcfg.errors import InputError

RESERVED = ("affected", "invariant")  # groups that follow from an intervention
_NAME = re.compile(r"[^\s=,;:.]([^=,;:.]*[^\s=,;:.])?")


def check_name(name: object) -> str:
    """Return a legal name of an attribute or a group, or refuse it.

    The characters ``= , ; : .`` separate names in guidance texts and in weight files.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            "name",
            expected="text without any of the characters = , ; : . and no space at its ends",
            got=repr(name),
            do="rename it",
        )
    return name
