"""The images of an experiment: held out, balanced, and the same for every setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Categorical, Continuous, Table
from fcfg.datasets import portraits
from fcfg.datasets.base import Examples, OnProgress, silent
from fcfg.datasets.portraits import EVALUATION_SEED, Portraits
from fcfg.datasets.portraits.data import PortraitsData
from fcfg.datasets.registry import DataConfig
from fcfg.evaluation.experiment import Experiment
from fcfg.evaluation.result_schema import JSON
from fcfg.metrics import MIN_IMAGES
from fcfg.model import AnyModel
from fcfg.support.config_files import read_yaml
from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import stream_seed
from fcfg.support.images import images_from_bytes, images_to_bytes

_SPLIT = "test"
_HELD_OUT = 2  # held-out images for each image of a run: a value has two sets of them


@dataclass(frozen=True, eq=False)
class Subset:
    """Held-out images and their attributes."""

    images: Float[Tensor, "image channel *size"] = field(repr=False)
    attributes: Table = field(repr=False)  #: factual
    names: tuple[str, ...] = field(repr=False)
    drawn: Portraits | None = field(repr=False)  #: drawings with known counterfactuals, or None
    about: JSON  #: origin of the images, for a header
    groups: JSON | None = field(default=None, repr=False)
    """What several images may be of, such as patients, and the number of that of each image."""
    held_out: Examples | None = field(default=None, repr=False)
    """Other images that the model has not seen, to which answers are compared as a set."""

    def __len__(self) -> int:
        return len(self.names)


def choose_subset(
    pipeline: AnyModel,
    experiment: Experiment,
    *,
    data: Path | None = None,
    on_progress: OnProgress = silent,
) -> Subset:
    """Choose images that the model has not seen, from the test split of its data set.

    The data set is that of the model's training; ``data`` is its folder, if it has moved since.
    """
    space, subject = pipeline.space, f"experiment '{experiment.name}'"
    space.check_known(experiment.targets, subject)
    config = find_data(pipeline, data)
    if isinstance(config, PortraitsData):
        return _drawn(space, experiment, config)
    discrete = tuple(a.name for a in space if not isinstance(a, Continuous))
    balance = discrete if experiment.balance is None else experiment.balance
    if unfit := [name for name in balance if name not in discrete]:
        raise InputError(
            f"{subject}, balance",
            expected=f"binary or categorical attributes among {list(discrete)}",
            got=unfit,
            do="leave them out",
        )
    splits = config.load(space, on_progress=on_progress)
    if _SPLIT not in splits:
        raise InputError(
            f"data {config.path}",
            expected="a test split, which nothing was trained on",
            got=f"{', '.join(splits)}",
            do="set data.fractions, or a column that names the split of an image",
        )
    examples = splits[_SPLIT]
    rows = balanced_rows(space, examples, balance, experiment.images, experiment.seed)
    return Subset(
        images_from_bytes(examples.images[rows]),
        {name: column[rows] for name, column in examples.attributes.items()},
        tuple(examples.names[row] for row in rows),
        None,
        {"format": config.format, "split": _SPLIT, "of": len(examples), "balanced": list(balance)},
        {"of": config.groups_are, "rows": numbered(examples.groups[row] for row in rows)}
        if examples.groups
        else None,
        _held_out(examples, rows, experiment),
    )


def _held_out(
    examples: Examples, rows: NDArray[np.int64], experiment: Experiment
) -> Examples | None:
    """Return twice as many images as the run has, or all others; none of a run of few.

    They are in random order, but images of one patient or person stand together.
    """
    others: list[int] = np.setdiff1d(np.arange(len(examples)), rows).tolist()
    if len(rows) < MIN_IMAGES or not others:
        return None
    seed, owners = experiment.seed, examples.groups or examples.names
    others.sort(key=lambda row: (stream_seed(seed, "held out", owners[row]), row))
    chosen = np.array(others[: _HELD_OUT * len(rows)])
    return Examples(
        examples.images[chosen],
        {name: column[chosen] for name, column in examples.attributes.items()},
        tuple(examples.names[row] for row in chosen),
    )


def numbered(groups: Iterable[str]) -> list[int]:
    """Number groups in the order of their first images.

    >>> numbered(["ann", "bob", "ann", "cleo"])
    [0, 1, 0, 2]
    """
    numbers: dict[str, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


def find_data(pipeline: AnyModel, data: Path | None = None) -> DataConfig:
    """Return the data set that a model was trained on, and the folder it is in now."""
    training = pipeline.provenance.get("training", {})
    try:
        config = TypeAdapter[DataConfig](DataConfig).validate_python(training.get("data"))
    except ValidationError as error:
        raise InputError(
            "model",
            expected="one that says what it was trained on, as those of 'fcfg train' do",
            got="no such record",
            do="train it with 'fcfg train', or give fcfg.evaluation.Evaluation your own Subset",
        ) from error
    config = config if data is None else config.at(data)
    if isinstance(config, PortraitsData):
        return config
    if data is None:
        config = config.model_copy(update=_folders(pipeline, config.path))
    if config.path is None or not config.path.is_dir():
        raise InputError(
            f"data '{config.format}' of the model",
            expected="the folder it was trained on",
            got="none" if config.path is None else f"no folder {config.path}",
            do="name the folder with --data DIR",
        )
    return config


def _folders(pipeline: AnyModel, path: Path | None) -> dict[str, Path | None]:
    """Return the folders of data and cache, which the folder of the training names."""
    file = None if pipeline.folder is None else pipeline.folder / "training" / "config.yaml"
    if file is None or not file.is_file():
        return {"path": path if path is not None and path.is_absolute() else None}
    expected, do = "the configuration of a training", "name the folder of the data with --data DIR"
    section = read_yaml(file, str(file), expected=expected, do=do).get("data")
    values: dict[str, object] = section if isinstance(section, dict) else {}
    keys = ("path", "cache")
    return {key: Path(str(values[key])) if key in values else None for key in keys}


def _drawn(space: AttributeSpace, experiment: Experiment, config: PortraitsData) -> Subset:
    """Return the first drawings of the seed that is reserved for evaluation."""
    if space != portraits.space(config.format) or experiment.balance:
        raise InputError(
            f"experiment '{experiment.name}'",
            expected=f"all attributes of the world '{config.format}', and no balance",
            got=f"{list(space.names)}, balance {experiment.balance}",
            do="train on all of them; drawings are not balanced",
        )
    seed = EVALUATION_SEED + experiment.seed
    drawn = portraits.sample(experiment.images, seed, config.size, config.format)
    held_out = _drawn_after(experiment.images, seed, config)
    names = tuple(f"{seed}-{number:08d}.png" for number in range(experiment.images))
    about = {"format": config.format, "split": "evaluation", "seed": seed}
    return Subset(drawn.images, drawn.attributes, names, drawn, about, held_out=held_out)


def _drawn_after(count: int, seed: int, config: PortraitsData) -> Examples | None:
    """Return twice as many drawings, the next ones of the same seed."""
    if count < MIN_IMAGES:
        return None
    total = (1 + _HELD_OUT) * count
    parts = portraits.sample_in_chunks(total, seed, config.size, config.format)
    pieces = [(images_to_bytes(part.images).numpy(), part.attributes) for part in parts]
    columns = {
        name: np.concatenate([table[name] for _, table in pieces])[count:] for name in pieces[0][1]
    }
    names = tuple(f"{seed}-{number:08d}.png" for number in range(count, total))
    return Examples(np.concatenate([pixels for pixels, _ in pieces])[count:], columns, names)


def balanced_rows(
    space: AttributeSpace, examples: Examples, names: Sequence[str], count: int, seed: int
) -> NDArray[np.int64]:
    """Return rows with equally many images of every combination of values, sorted by name."""
    cells: dict[tuple[object, ...], list[int]] = {}
    for row in range(len(examples)):
        cells.setdefault(tuple(examples.attributes[n][row] for n in names), []).append(row)
    attributes = [space[name] for name in names]
    combinations = math.prod(
        len(a.levels) if isinstance(a, Categorical) else 2 for a in attributes
    )
    each = min([count // combinations, *map(len, cells.values())])
    if len(cells) < combinations or each == 0:
        raise InputError(
            f"images balanced over {quoted(names)}",
            expected=f"at least {combinations} images, and one for each combination of values",
            got=f"{count} asked for, {len(cells)} combinations among {len(examples)} images",
            do="balance over fewer attributes, or ask for more images",
        )

    def order(row: int) -> int:  # whatever the order of the files, and the machine
        return stream_seed(seed, "subset", examples.names[row])

    chosen = [row for rows in cells.values() for row in sorted(rows, key=order)[:each]]
    return np.array(sorted(chosen, key=lambda row: examples.names[row]), dtype=np.int64)


def draw_targets(
    space: AttributeSpace,
    attributes: Table,
    targets: Sequence[str],
    names: Sequence[str],
    seed: int,
    continuous: str = "permuted",
) -> Table:
    """Draw the values that targets are set to, see :class:`~fcfg.evaluation.Experiment`."""
    values: Table = {}
    for name in targets:
        attribute, factual = space[name], attributes[name]
        if isinstance(attribute, Continuous) and factual.min() == factual.max():
            raise InputError(
                f"images, '{name}'",
                expected="at least two different values, one of which an image is set to",
                got=f"{factual[0]:g} alone",
                do="take more images, with --images",
            )
        if isinstance(attribute, Continuous) and continuous == "quantiles":
            low, high = np.quantile(factual, [0.1, 0.9], method="nearest")
            if low == high:  # then the extremes
                low, high = factual.min(), factual.max()
            values[name] = np.where(factual - low > high - factual, low, high)
        elif isinstance(attribute, Continuous):
            rng = np.random.default_rng(stream_seed(seed, "permute", name))
            values[name] = rng.permutation(factual)
        elif isinstance(attribute, Categorical):
            count = len(attribute.levels)
            offsets = [1 + stream_seed(seed, "level", name, i) % (count - 1) for i in names]
            values[name] = (factual + np.array(offsets)) % count
        else:
            values[name] = 1 - factual
    return values
