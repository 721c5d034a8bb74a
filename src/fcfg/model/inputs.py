"""Images, attributes and settings, from what users hold to what a model takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias, Unpack, cast, get_args

from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.causal.intervention import Intervention
from fcfg.causal.scm import Keys, checked_keys
from fcfg.guidance import Guidance
from fcfg.guidance.rule import RULES, UNGUIDED
from fcfg.model.answers import Factual, Work, check_do
from fcfg.model.parts import AbstractModel
from fcfg.storage import find_setting
from fcfg.support.errors import InputError, check_among, short, together
from fcfg.support.images import ImagesLike, image_keys
from fcfg.support.pictures import Fit, Intensity, Pixels
from fcfg.support.tables import TableLike, check_lengths
from fcfg.support.volumes import Voxels

AUTO = "auto"
#: A table of attributes, or 'auto': the model's judge reads them.
AttributesLike: TypeAlias = TableLike | str


def parse_setting(text: str) -> Any:
    """Read the text form of a setting of any kind of model.

    Its first word says which, if it is among the ``heads`` of a kind of models. All others are
    rules of guidance.

    >>> parse_setting("temperature:0.5"), parse_setting("cfg:2")
    (temperature:0.5, cfg:2.0)
    """
    head = re.split("[:;]", str(text), maxsplit=1)[0].strip()
    known = {UNGUIDED, *RULES, *(f"f{rule}" for rule in RULES)}
    setting = None if head in known else find_setting(head)
    return (Guidance if setting is None else setting).parse(text)


def read_factual(
    model: AbstractModel,
    images: ImagesLike,
    attributes: AttributesLike,
    do: Mapping[str, Intervention] | None = None,
    *,
    keys: Keys | None = None,
    any_size: bool = False,
    resize: bool = False,
    **work: Unpack[Work],
) -> tuple[Factual, Work]:
    """Read images and attributes that fit a model, and each other; give the other options back."""
    fit = model_pixels(model) if resize else None
    size = None if any_size and model.traits.any_size else model.size
    x, table, _ = together(
        lambda: model.read_images(images, size=size, fit=fit),
        lambda: None if isinstance(attributes, str) else model.space.parse(attributes),
        lambda: check_do(model.space, {} if do is None else do),
    )
    if table is not None:
        check_lengths(table, len(x))
        return keyed(x, table, keys), work
    reading = model.read(x) if attributes == AUTO else None
    if reading is None:
        raise InputError(
            "attributes",
            expected=f"a table, or '{AUTO}' for a model with a judge, which reads them",
            got=short(attributes),
            do="give a column of values for each attribute, a data frame, or a list of rows",
        )
    return keyed(x, reading.attributes, keys), work


def keyed(images: Tensor, attributes: Table, keys: Keys | None) -> Factual:
    """Give each image a key, by default a digest of its pixels."""
    keys = image_keys(images) if keys is None else keys
    checked_keys(keys, len(images))
    return Factual(images, attributes, keys)


def model_pixels(pipeline: AbstractModel) -> Pixels:
    """Return how the pictures of a model were brought to one shape in its training.

    Size and channels are those of its network; how pictures became square, and the range of deep
    pixels, are in the provenance that ``fcfg train`` writes. Without one, the centre is cropped,
    and pixels of 16 bits have their full range.
    """
    size, channels = pipeline.size, pipeline.channels
    if size is None or channels not in (1, 3) or pipeline.dimensions != 2:
        of = "" if pipeline.dimensions == 2 else f", {pipeline.dimensions} dimensions"
        raise InputError(
            "model",
            expected="a network for grey or RGB pictures, whose size is known",
            got=f"{'an unknown size' if size is None else size}, {channels} channels{of}",
            do="call model.counterfactual with an array instead",
        )
    data = training_data(pipeline)
    fit, intensity = data.get("fit", "crop"), data.get("intensity", "full")
    check_among("model, fit of its training data", fit, get_args(Fit))
    check_among("model, intensity of its training data", intensity, get_args(Intensity))
    return Pixels(size, channels, intensity, fit)


def model_format(pipeline: AbstractModel) -> Pixels | Voxels:
    """Return how the files of a model were brought to one shape in its training.

    Those of a model in three dimensions are volumes, whose window is in the same provenance.
    """
    if pipeline.dimensions != 3:
        return model_pixels(pipeline)
    window = training_data(pipeline).get("window")
    if window is None:
        return Voxels(pipeline.channels, pipeline.stride)
    try:
        low, high = map(float, window)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise InputError(
            "model, window of its training data",
            expected="two numbers, ascending",
            got=short(window),
            do="correct model.provenance",
        )
    return Voxels(pipeline.channels, pipeline.stride, (low, high))


def training_data(pipeline: AbstractModel) -> Mapping[str, Any]:
    """Return the options of a model's training data, if its provenance has any."""
    return mapping_of(mapping_of(pipeline.provenance.get("training")).get("data"))


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return a mapping of JSON values; an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
