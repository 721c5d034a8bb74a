"""Where a command computes."""

from __future__ import annotations

from fcfg.errors import InputError, check_among


def chosen_device(name: str) -> str:
    """'cpu' or 'cuda', from what was typed."""
    import torch

    check_among("device", name, ("auto", "cpu", "cuda"))
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device",
            expected="cpu or auto, since torch finds no GPU here",
            got=repr(name),
            do="leave --device out",
        )
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
