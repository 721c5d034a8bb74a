"""Legal names of attributes, groups and runs."""

from __future__ import annotations

import re
import reprlib

from fcfg.support.errors import InputError

RESERVED = ("affected", "invariant")  # groups derived from an intervention
_MEANINGS = {  # characters with a meaning where names are written
    "=": "gives an attribute its value, as in smiling=1",
    ",": "separates attributes, as in smiling=1,male=0",
    ";": "begins an option of a guidance",
    ":": "ends the name of a guidance",
    ".": "separates names in weight files and in --set",
    "+": "joins the targets of one intervention, as in smiling+male",
}
_ON_WINDOWS = r"con|prn|aux|nul|com\d|lpt\d"  # names of devices, whatever their suffix
_FOLDER_BYTES = 200  # file systems allow 255


def check_name(name: object) -> str:
    """Return the name of an attribute or a group, if it is legal.

    The characters ``= , ; : . +`` have a meaning in interventions, guidance and weight files.
    """
    if isinstance(name, str) and name and name == name.strip() and not set(name) & set(_MEANINGS):
        return name
    used = [mark for mark in _MEANINGS if isinstance(name, str) and mark in name]
    what = f"'{used[0]}', which {_MEANINGS[used[0]]}" if used else "a space at an end"
    raise InputError("name", expected=f"a string without {what}", got=repr(name), do="rename it")


def is_portable(name: str) -> bool:
    r"""Return whether a folder or file can have a name on every system.

    >>> [is_portable(name) for name in ("smiling", "nul.csv", "a:b", "a.")]
    [True, False, False, False]
    """
    is_device = re.fullmatch(rf"({_ON_WINDOWS})(\..*)?", name, re.IGNORECASE)
    return not (is_device or name.endswith(".") or set(name) & set('/\\<>:"|?*'))


def check_folder_name(name: str) -> str:
    r"""Return the name of a run and its folder, if it is legal on every system."""
    plain = name.isprintable() and name == name.strip() and is_portable(name)
    if not plain or name[:1] in ("", ".", "-") or len(name.encode()) > _FOLDER_BYTES:
        expected = (
            f'a plain folder name of at most {_FOLDER_BYTES} bytes, without / \\ < > : " | ? *, '
            "and no name of a device of Windows"
        )
        raise InputError("name", expected=expected, got=reprlib.repr(name), do="rename it")
    return name
