"""Names of attributes and groups: what may be one."""

from __future__ import annotations

from fcfg.errors import InputError

RESERVED = ("affected", "invariant")  # groups that follow from an intervention
_MEANINGS = {  # characters that mean something where names are written
    "=": "gives an attribute its value, as in smiling=1",
    ",": "separates attributes, as in smiling=1,male=0",
    ";": "begins an option of a guidance",
    ":": "ends the name of a guidance",
    ".": "separates names in weight files and in --set",
    "+": "joins the targets of one intervention, as in smiling+male",
}


def check_name(name: object) -> str:
    """Return a legal name of an attribute or a group, or refuse it.

    The characters ``= , ; : . +`` mean something in interventions, guidance and weight files.
    """
    if isinstance(name, str) and name and name == name.strip() and not set(name) & set(_MEANINGS):
        return name
    used = [mark for mark in _MEANINGS if isinstance(name, str) and mark in name]
    raise InputError(
        "name",
        expected=f"a text without '{used[0]}', which {_MEANINGS[used[0]]}"
        if used
        else "a text without a space at its beginning or end",
        got=repr(name),
        do="rename it",
    )
