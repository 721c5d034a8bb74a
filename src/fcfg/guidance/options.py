"""The options that every rule has, and what may not be combined."""

from __future__ import annotations

from typing import Any

from fcfg.guidance.rule import check_option, is_number
from fcfg.support.errors import InputError


def common_options(
    *, start: Any, stop: Any, tolerance: Any, anchor: Any, drawn_noise: Any, align: Any
) -> dict[str, float | bool | int]:
    """Return the options as a guidance holds them, or refuse them.

    Args:
        start: Share of the way at which guidance starts.
        stop: Share of the way at which guidance stops.
        tolerance: Change of the pixels below which the guidance of an image stops early.
        anchor: Whether to subtract the errors of the factual path.
        drawn_noise: Whether the noise of that path is drawn instead of inferred.
        align: Number of steps of an alignment at each time.
    """
    legal = is_number(start) and 0 <= start < 1
    check_option("start", start, "a share from 0 to below 1", legal)
    legal = is_number(stop) and 0 < stop <= 1
    check_option("stop", stop, "a share above 0, up to 1", legal)
    legal = is_number(tolerance) and tolerance >= 0
    check_option("tolerance", tolerance, "a number, 0 or more", legal)
    check_option("anchor", anchor, "true or false", isinstance(anchor, bool))
    check_option("drawn_noise", drawn_noise, "true or false", isinstance(drawn_noise, bool))
    legal = is_number(align) and align in range(1001)
    check_option("align", align, "a whole number from 0 to 1000", legal)
    if drawn_noise and not anchor:
        raise InputError(
            "guidance option drawn_noise",
            expected="anchor=true beside it, since drawn noise does not lead back to the image",
            got="anchor=false",
            do="add anchor=true, or leave drawn_noise out",
        )
    if anchor and tolerance:
        raise InputError(
            "guidance option tolerance",
            expected="0 with anchor=true, since both branches must be guided alike",
            got=tolerance,
            do="leave tolerance or anchor out",
        )
    if align and (anchor or tolerance):
        raise InputError(
            "guidance option align",
            expected="0 with anchor=true or a tolerance, since each corrects guidance its own way",
            got=align,
            do="leave align or the other option out",
        )
    if not start < stop:
        raise InputError(
            "guidance option start",
            expected=f"less than stop, {stop}",
            got=start,
            do="widen the interval",
        )
    shares = {"start": float(start), "stop": float(stop), "tolerance": float(tolerance)}
    return {**shares, "anchor": anchor, "drawn_noise": drawn_noise, "align": int(align)}
