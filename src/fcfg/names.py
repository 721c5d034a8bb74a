"""Names of attributes and groups, and of runs: what may be one."""

from __future__ import annotations

import re
import reprlib

from fcfg.errors import InputError

RESERVED = ("affected", "invariant")  # groups that follow from an intervention
_FOLDER_BYTES = 200  # file systems take 255
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


def check_folder_name(name: str) -> str:
    r"""Return the name of a run, which is that of its folder, or refuse it.

    >>> check_folder_name("../../elsewhere")
    Traceback (most recent call last):
    fcfg.errors.InputError: name: expected a plain folder name of at most 200 bytes, without / and
    \, got '../../elsewhere'; rename it.
    """
    plain = name.isprintable() and name not in ("", ".", "..") and not set(name) & set("/\\")
    if not plain or len(name.encode()) > _FOLDER_BYTES:
        raise InputError(
            "name",
            expected=f"a plain folder name of at most {_FOLDER_BYTES} bytes, without / and \\",
            got=reprlib.repr(name),
            do="rename it",
        )
    return name
