"""Training in the latents of a given autoencoder.

Latents are encoded once, into files of float16 beside the cache of decoded pixels, which later
runs map into memory. The name of such a file contains digests of the codec and of the pixels, so
others get a file of their own. The files can be deleted at any time.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy

from fcfg.datasets.base import AbstractData, Examples, OnProgress, Splits
from fcfg.datasets.loading import cache_folder
from fcfg.diffusion.codec import Autoencoder, CodecShape, check_scaling
from fcfg.diffusion.libraries import config_of
from fcfg.pipeline.modules import CodecConfig
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.support.hashing import digest_of, hex_digest
from fcfg.support.images import images_from_bytes
from fcfg.training.kinds import Inputs

_ROWS = 64  # images to encode at a time
_USED = ("train", "val")


def latent_inputs(inputs: Inputs, codec: CodecConfig) -> Inputs:
    """Return the inputs of a network that works on latents; refuse a codec of other images."""
    shape = CodecShape.of(codec.module.config)
    check_scaling(codec.scale, codec.shift, codec.low)
    if codec.module.source is None:
        raise InputError(
            "model.codec, module.source",
            expected="the place of the weights of an autoencoder",
            got="none",
            do="give a folder of save_pretrained, or a repository of the hub that was downloaded",
        )
    if shape.channels != inputs.channels or inputs.size % shape.factor:
        raise InputError(
            "model.codec",
            expected=f"one of images of {inputs.size} pixels with {inputs.channels} channels",
            got=f"one of {shape.channels} channels, in squares of {shape.factor} pixels",
            do="change data.size or data.channels, or take another autoencoder",
        )
    return replace(inputs, channels=shape.latent_channels, size=inputs.size // shape.factor)


def codec_to_publish(config: CodecConfig) -> Autoencoder:
    """Return the codec; one of a folder is stored with the model, one of the hub is named."""
    codec = config.build()
    if Path(config.module.source or "").is_dir():
        codec.config, codec.source = config_of(codec.network, None), None
    return codec


def encoded(
    splits: Splits,
    config: CodecConfig,
    data: AbstractData,
    device: torch.device,
    on_progress: OnProgress,
) -> Splits:
    """Return the examples of training and validation with latents in place of their pixels."""
    codec = config.build().eval().to(device)
    scaling = (config.scale, config.shift, config.low)
    made = f"{digest_of(codec)}{scaling}"
    folder = cache_folder(getattr(data, "path", None), getattr(data, "cache", None))
    latents: Splits = {}
    for split in _USED:
        examples = splits[split]
        key = hex_digest(f"{made}{_digest(examples)}", size=10)
        path = folder / f"latents-{key}.npy"
        if not path.exists():
            _write(path, codec, examples, device, on_progress)
        latents[split] = replace(examples, images=np.load(path, mmap_mode="r"))
    return latents


def _digest(examples: Examples) -> str:
    digest = hashlib.blake2b(repr(examples.images.shape).encode(), digest_size=16)
    for start in range(0, len(examples), _ROWS):
        digest.update(np.ascontiguousarray(examples.images[start : start + _ROWS]).data)
    return digest.hexdigest()


def _write(
    path: Path,
    codec: Autoencoder,
    examples: Examples,
    device: torch.device,
    on_progress: OnProgress,
) -> None:
    """Write the latents of all images, one batch after the other."""
    total, _, *size = examples.images.shape
    shape = (total, codec.latent_channels, *[side // codec.factor for side in size])

    @torch.no_grad()
    def write(file: BinaryIO) -> None:
        npy.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": shape})
        for start in range(0, total, _ROWS):
            images = images_from_bytes(examples.images[start : start + _ROWS]).to(device)
            rows = codec.encode(images).half().cpu().numpy()
            if rows.shape[1:] != shape[1:] or not np.isfinite(rows).all():
                raise InputError(
                    "model.codec",
                    expected=f"finite latents of shape {shape[1:]}, as its config says",
                    got=f"shape {rows.shape[1:]}, {np.isfinite(rows).mean():.0%} of it finite",
                    do="correct module.config (in_channels, latent_channels, block_out_channels)",
                )
            file.write(rows.tobytes())
            on_progress("encoding images", start + len(images), total)

    write_atomically(path, write)
