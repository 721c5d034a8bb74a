"""Thresholds of trust: how large each signal is on images that are in order.

:func:`fcfg.trust.trust_thresholds` measures them, and ``trust.json`` keeps them beside the weights
of a model.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from torch import nn

from fcfg.diffusion.denoiser import Denoiser
from fcfg.guidance import Guidance
from fcfg.sampling import SamplingConfig
from fcfg.support.config_files import parse_json, read_text
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.support.hashing import digest_of
from fcfg.version import __version__

FILE, FORMAT = "trust.json", 1
WAY_BACK = ("residual", "correction", "composition")  #: signals that depend on the sampling
Number = Annotated[float, Field(allow_inf_nan=False)]


class Thresholds(BaseModel, frozen=True, extra="forbid", strict=True):
    """The largest ordinary value of each signal.

    It is set as ``pipeline.thresholds``. :func:`fcfg.save` and :func:`fcfg.load` keep it with the
    model.
    """

    format: int = FORMAT  #: of the record; readers refuse a newer one
    fcfg: str = __version__  #: version that made it
    model: str  #: digest of the weights of denoiser and judge
    sampling: str  #: solver, grid and steps of the way back, as text
    guidance: list[str]  #: those of the way back to the picture, as text
    share: float  #: of ordinary images that each kind of signal may exceed
    images: int  #: number of images
    data: dict[str, Any] = {}  #: description of the images
    limits: dict[str, Number] = Field(min_length=1)  #: by the name of the signal

    def limits_for(self, sampling: SamplingConfig, guidance: Guidance) -> dict[str, float]:
        """Return the limits that hold for a question; those of the way back may not.

        Args:
            sampling: Solver, grid and steps.
            guidance: The guidance.
        """
        if str(sampling) == self.sampling and str(way_back_guidance(guidance)) in self.guidance:
            return self.limits
        return {name: limit for name, limit in self.limits.items() if name not in WAY_BACK}

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``trust.json`` to a folder, which is made if missing.

        Args:
            folder: The folder, such as that of the model.
        """
        path = Path(folder) / FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        values = json.loads(self.model_dump_json())
        write_atomically(path, json.dumps(values, indent=1, ensure_ascii=False).encode())
        return path

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Thresholds:
        """Read what :meth:`save` wrote.

        Args:
            folder: The folder.
        """
        path = Path(folder) / FILE
        subject, expected = f"thresholds {path}", "a file that fcfg wrote"
        advice = "measure them again, or remove the file"
        text = read_text(path, subject, expected=expected)
        version = parse_json(text, subject, do=advice).get("format", 0)
        if not isinstance(version, int) or version > FORMAT:
            raise InputError(
                subject,
                expected=f"format version {FORMAT} or older",
                got=repr(version),
                do="upgrade fcfg to read it",
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            got = f"'{'.'.join(map(str, first['loc']))}': {first['msg']}"
            raise InputError(subject, expected=expected, got=got, do=advice) from error


def way_back_guidance(guidance: Guidance) -> Guidance:
    """Return what a guidance is under factual attributes.

    >>> way_back_guidance(Guidance.parse("contrast:1.5;anchor=true"))
    none;anchor=true
    """
    return guidance.factual.replace(anchor=guidance.anchor)


def digest_for_trust(denoiser: Denoiser, judge: nn.Module | None) -> str:
    """Return the digest of all weights that signals depend on, as if stored as float16.

    Args:
        denoiser: The denoiser.
        judge: The judge, if there is one.
    """
    return digest_of(denoiser, *([] if judge is None else [judge]), half=True)
