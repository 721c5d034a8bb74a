"""Which images an experiment is about: fixed, balanced, the same for every setting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from fcfg.causal.attributes import AttributeSpace, Categorical, Column, Continuous, Table
from fcfg.datasets import portraits
from fcfg.datasets.base import Examples, OnProgress
from fcfg.datasets.portraits import EVALUATION_SEED, Portraits
from fcfg.datasets.portraits.data import PortraitsData
from fcfg.datasets.registry import DataConfig, load_data
from fcfg.evaluation.experiment import Experiment
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.config_files import read_yaml
from fcfg.support.errors import InputError, quoted
from fcfg.support.hashing import stream_seed

SPLIT = "test"


@dataclass(frozen=True, eq=False)
class Subset:
    """Held-out images with what is known of them."""

    images: Float[Tensor, "image channel height width"] = field(repr=False)
    attributes: Table = field(repr=False)  #: factual
    names: tuple[str, ...] = field(repr=False)
    drawn: Portraits | None = field(repr=False)  #: where the world is drawn, and so its truth
    about: dict[str, Any]  #: where they come from, as JSON

    def __len__(self) -> int:
        return len(self.names)


def choose_subset(
    pipeline: CounterfactualPipeline,
    experiment: Experiment,
    *,
    data: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Subset:
    """Choose images that the model has not seen: those of its data set's test split.

    Args:
        pipeline: The model; its provenance says what it was trained on.
        experiment: How many, and how they are balanced.
        data: Where the data set lies, if not where it was in training.
        on_progress: Told how far reading is.
    """
    pipeline.space.check_known(experiment.targets, f"experiment '{experiment.name}'")
    config = _data_of(pipeline, data)
    if isinstance(config, PortraitsData):
        return _drawn(pipeline.space, experiment, config)
    if config.path is None or not config.path.is_dir():
        raise InputError(
            f"data '{config.format}' of the model",
            expected="the folder it was trained on",
            got="none" if config.path is None else f"no folder {config.path}",
            do="say where it is with --data DIR",
        )
    balance = _balanced(pipeline.space, experiment)
    splits = load_data(config, pipeline.space, on_progress=on_progress)
    if SPLIT not in splits:
        raise InputError(
            f"data {config.path}",
            expected="a test split, which nothing was trained on",
            got=f"{', '.join(splits)}",
            do="set data.fractions, or a column that says which split an image is in",
        )
    examples = splits[SPLIT]
    rows = balanced_rows(pipeline.space, examples, balance, experiment.images, experiment.seed)
    return Subset(
        torch.from_numpy(examples.images[rows].astype(np.float32)) / 127.5 - 1,
        {name: column[rows] for name, column in examples.attributes.items()},
        tuple(examples.names[row] for row in rows),
        None,
        {"format": config.format, "split": SPLIT, "of": len(examples), "balanced": list(balance)},
    )


def _data_of(pipeline: CounterfactualPipeline, data: Path | None) -> DataConfig:
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
    if not isinstance(config, PortraitsData):
        places = _places(pipeline, config.path) if data is None else {"path": data.absolute()}
        return config.model_copy(update=places)
    if data is not None:
        raise InputError(
            "--data",
            expected="nothing, since this model's world is drawn",
            got=str(data),
            do="leave it out",
        )
    return config


def _places(pipeline: CounterfactualPipeline, named: Path | None) -> dict[str, Path | None]:
    """Where data and cache lay in training, which the run's own folder knows.

    Args:
        pipeline: The model.
        named: Folder of the data as the model has it: its name alone, unless the model is old.
    """
    run = None if pipeline.folder is None else pipeline.folder / "training" / "config.yaml"
    if run is None or not run.is_file():
        return {"path": named if named is not None and named.is_absolute() else None}
    expected, advice = "the configuration of a training", "say where the data are with --data DIR"
    section = read_yaml(run, str(run), expected=expected, do=advice).get("data")
    known: dict[str, object] = section if isinstance(section, dict) else {}
    keys = ("path", "cache")
    return {key: Path(str(known[key])) if key in known else None for key in keys}


def _drawn(space: AttributeSpace, experiment: Experiment, config: PortraitsData) -> Subset:
    """The first drawings of the seed that is kept for evaluation, as they come."""
    if space != portraits.space(config.format) or experiment.balance:
        raise InputError(
            f"experiment '{experiment.name}'",
            expected=f"all attributes of the world '{config.format}', and no balance",
            got=f"{list(space.names)}, balance {experiment.balance}",
            do="train on all of them; drawings are taken as they come",
        )
    seed = EVALUATION_SEED + experiment.seed
    drawn = portraits.sample(experiment.images, seed, config.size, config.format)
    names = tuple(f"{seed}-{number:08d}.png" for number in range(experiment.images))
    about = {"format": config.format, "split": "evaluation", "seed": seed}
    return Subset(drawn.images, drawn.attributes, names, drawn, about)


def _balanced(space: AttributeSpace, experiment: Experiment) -> tuple[str, ...]:
    discrete = tuple(a.name for a in space if not isinstance(a, Continuous))
    if experiment.balance is None:
        return discrete
    unfit = [name for name in experiment.balance if name not in discrete]
    if unfit:
        raise InputError(
            f"experiment '{experiment.name}', balance",
            expected=f"binary or categorical attributes among {list(discrete)}",
            got=unfit,
            do="leave them out",
        )
    return experiment.balance


def balanced_rows(
    space: AttributeSpace, examples: Examples, names: Sequence[str], count: int, seed: int
) -> NDArray[np.int64]:
    """Rows with equally many of every combination of values, at most ``count`` in all, by name.

    Which of them is drawn from the seed and the names of the files, so that it depends neither on
    their order nor on the machine. With nothing to balance, they are drawn from all.

    Args:
        space: The attributes.
        examples: To choose from.
        names: Of the discrete attributes that are balanced.
        count: The most rows.
        seed: Of which are chosen.
    """
    cells: dict[tuple[object, ...], list[int]] = {}
    for row in range(len(examples)):
        cells.setdefault(tuple(examples.attributes[n][row] for n in names), []).append(row)
    combinations = math.prod(_levels(space, name) for name in names)
    each = min([count // combinations, *map(len, cells.values())])
    if len(cells) < combinations or each == 0:
        raise InputError(
            f"images balanced over {quoted(names)}",
            expected=f"to ask for at least {combinations}, and one for each combination of values",
            got=f"{count} asked for, {len(cells)} combinations among {len(examples)} images",
            do="balance over fewer attributes, or ask for more images",
        )
    chosen = [
        row
        for rows in cells.values()
        for row in sorted(rows, key=lambda row: stream_seed(seed, "subset", examples.names[row]))[
            :each
        ]
    ]
    return np.array(sorted(chosen, key=lambda row: examples.names[row]), dtype=np.int64)


def _levels(space: AttributeSpace, name: str) -> int:
    attribute = space[name]
    return len(attribute.levels) if isinstance(attribute, Categorical) else 2


def draw_targets(
    space: AttributeSpace,
    attributes: Table,
    targets: Sequence[str],
    names: Sequence[str],
    seed: int,
    continuous: str = "permuted",
) -> Table:
    """Values to set: binary ones flipped, other levels of categorical ones; continuous ones so.

    They are permuted over the images, or all far from the factual ones: the 10th or the 90th
    percentile of the images, whichever is farther (the smallest or the largest value, where both
    are the same).

    >>> from fcfg.causal.attributes import Binary
    >>> space, factual = AttributeSpace([Binary("male")]), {"male": np.array([0, 1])}
    >>> draw_targets(space, factual, ["male"], ["a.png", "b.png"], seed=0)
    {'male': array([1, 0])}

    Args:
        space: The attributes.
        attributes: Factual.
        targets: Which to set.
        names: Of the images; a level is drawn from the seed and its image's name.
        seed: Of what is drawn.
        continuous: 'permuted' or 'quantiles'.
    """
    values: Table = {}
    for name in targets:
        attribute, factual = space[name], attributes[name]
        if isinstance(attribute, Continuous) and continuous == "quantiles":
            values[name] = _far(factual)
        elif isinstance(attribute, Continuous):
            rng = np.random.default_rng(stream_seed(seed, "permute", name))
            values[name] = rng.permutation(factual)
        elif isinstance(attribute, Categorical):
            further = [
                1 + stream_seed(seed, "level", name, image) % (len(attribute.levels) - 1)
                for image in names
            ]
            values[name] = (factual + np.array(further)) % len(attribute.levels)
        else:
            values[name] = 1 - factual
    return values


def _far(factual: Column) -> Column:
    """Of two values that occur, the one that is farther from each."""
    low, high = np.quantile(factual, [0.1, 0.9], method="nearest")
    if low == high:
        low, high = factual.min(), factual.max()
    return np.where(factual - low > high - factual, low, high)
