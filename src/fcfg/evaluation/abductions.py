"""The noise behind images, kept on disk: inferred once, used by every setting and experiment.

Each image has a file, named by a digest of everything the noise depends on: the model, the image,
its attributes, the solver and the grid of times. The folder can be deleted at any time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.diffusion.semantic import SemanticDenoiser
from fcfg.model import AnyModel
from fcfg.pipeline.records import Abduction
from fcfg.sampling import OnStep, SamplingConfig, Trajectory
from fcfg.sampling import Path as States
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.support.hashing import hex_digest
from fcfg.support.images import image_keys


class Abduct(Protocol):
    """Infers what images have beside their attributes."""

    def __call__(
        self,
        images: Float[Tensor, "image channel height width"],
        attributes: Table,
        on_step: OnStep | None = None,
    ) -> Any:
        """Return the abduction of images."""
        ...


@dataclass(frozen=True, eq=False)
class DirectAbduction:
    """Abducts images with a model whose abductions are too cheap to keep.

    Args:
        model: The model.
        batch_size: Largest number of network rows per call.
    """

    model: AnyModel
    batch_size: int

    def __call__(
        self,
        images: Float[Tensor, "image channel height width"],
        attributes: Table,
        on_step: OnStep | None = None,
    ) -> Any:
        """Return the abduction of images."""
        return self.model.abduct(images, attributes, batch_size=self.batch_size, on_step=on_step)


class AbductionCache:
    """Abducts images with one pipeline, unless all of them were abducted before.

    Args:
        pipeline: The model, whose traits have steps.
        digest: Digest of its weights and configuration, and of how it computes.
        sampling: Sampling settings.
        folder: Folder that keeps the noise, or None to keep nothing.
        batch_size: Largest number of network rows per call.
        keep_path: Whether to keep the paths, too, for anchored predictions.
    """

    def __init__(
        self,
        pipeline: Any,
        digest: str,
        sampling: SamplingConfig,
        *,
        folder: Path | None,
        batch_size: int,
        keep_path: bool = False,
    ) -> None:
        self.pipeline, self.folder, self.batch_size = pipeline, folder, batch_size
        self.keep_path = keep_path
        self.sampling, self._digest = sampling, digest
        self.times = sampling.times(pipeline.image_model.schedule)

    def __call__(
        self,
        images: Float[Tensor, "image channel height width"],
        attributes: Table,
        on_step: OnStep | None = None,
    ) -> Abduction:
        """Return the noise behind images, from the disk if all of it is there."""
        keys = image_keys(images)
        paths = [self._path(key, attributes, row) for row, key in enumerate(keys)]
        kept = [None if path is None else _read(path, images.shape[1:]) for path in paths]
        whole = [piece for piece in kept if piece is not None]
        ways = [way for _, way, _ in whole if way is not None]
        codes = [code for _, _, code in whole if code is not None]
        semantic = isinstance(self.pipeline.image_model, SemanticDenoiser)
        lacks_path = self.keep_path and len(ways) < len(kept)
        lacks_semantics = semantic and len(codes) < len(kept)
        if len(whole) == len(kept) and not (lacks_path or lacks_semantics):
            return Abduction(
                images,
                attributes,
                keys,
                Trajectory.joined([end for end, _, _ in whole]),
                self.sampling,
                self.times,
                path=States.joined(ways) if self.keep_path else None,
                semantics=torch.cat(codes) if semantic else None,
            )
        abduction = self.pipeline.abduct(
            images,
            attributes,
            sampling=self.sampling,
            anchor=self.keep_path,
            keys=keys,
            batch_size=self.batch_size,
            on_step=on_step,
        )
        if not bool(abduction.trajectory.x.isfinite().all()):
            raise InputError(
                "model",
                expected="a network whose outputs are finite numbers",
                got="NaN or infinity when the noise behind images was inferred",
                do="check its training; more steps, or float32, may help a healthy one",
            )
        for row, path in enumerate(paths):
            if path is not None:
                _write(path, abduction, row)
        return abduction

    def _path(self, key: str, attributes: Table, row: int) -> Path | None:
        if self.folder is None:
            return None
        values = {name: np.asarray(column[row]).item() for name, column in attributes.items()}
        parts = [self._digest, key, values, repr(self.sampling.solver), self.times]
        digest = hex_digest(json.dumps(parts))
        return self.folder / digest[:2] / f"{digest}.safetensors"


def _write(path: Path, abduction: Abduction, row: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    one = abduction.trajectory.map(lambda tensor: tensor[row : row + 1].clone())
    tensors = {"x": one.x, "evaluations": torch.tensor(one.spent[0])}
    tensors |= {f"companion-{i}": companion for i, companion in enumerate(one.companions)}
    if one.residual is not None:
        tensors["residual"] = one.residual
    if abduction.path is not None:
        way = abduction.path.map(lambda tensor: tensor[:, row : row + 1].clone())
        tensors |= {"states": way.states} | ({} if way.noises is None else {"noises": way.noises})
    if abduction.semantics is not None:
        tensors["semantics"] = abduction.semantics[row : row + 1].clone()
    write_atomically(path, to_bytes(tensors))


def _read(path: Path, shape: torch.Size) -> tuple[Trajectory, States | None, Tensor | None] | None:
    """Return noise, path and semantics in a file; None if it is broken or something else."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    if not {"x", "evaluations"} <= tensors.keys() or tensors["x"].shape != (1, *shape):
        return None
    end = Trajectory(
        tensors["x"],
        tuple(tensors[name] for name in sorted(tensors) if name.startswith("companion")),
        tensors.get("residual"),
        evaluations=int(tensors["evaluations"]),
    )
    way = States(tensors["states"], tensors.get("noises")) if "states" in tensors else None
    return end, way, tensors.get("semantics")
