r"""Does a model repeat its training images? Distances of new images to the nearest of them.

    python tools/memorisation.py radiographs --data ../shared/data/nih_cxr14 \
        --out docs/results/memorisation-radiographs.json

Images are generated from noise, without guidance, under the attributes of test images. Each has a
nearest training image, and so has each test image, which cannot have been memorised. A model that
repeats training images makes images that are much nearer to them than test images are.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import Tensor

import fcfg
from fcfg.datasets.registry import load_data
from fcfg.evaluation import choose_subset, find_experiment
from fcfg.evaluation.subset import find_data
from fcfg.pipeline.records import Abduction
from fcfg.sampling import Trajectory, as_sampling
from fcfg.support.images import images_from_bytes
from model_samples import EXPERIMENTS
from reproduction_tables import RESULTS
from study import model_arguments, provenance, write_json

SAMPLING = "dpm-2m karras 20"


def generated(pipeline: fcfg.CounterfactualPipeline, attributes: Any, seed: int) -> Tensor:
    """Return new images with these attributes.

    Args:
        pipeline: The model.
        attributes: Columns of values.
        seed: Seed of the noise.
    """
    sampling = as_sampling(SAMPLING)
    times = sampling.times(pipeline.denoiser.schedule)
    count = len(next(iter(attributes.values())))
    shape = (count, pipeline.channels, pipeline.size, pipeline.size)
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    keys = [str(row) for row in range(count)]
    start = Abduction(Trajectory(noise), attributes, keys, times, sampling.solver)
    action = pipeline.act(attributes, {pipeline.space.names[0]: lambda values: values}, keys=keys)
    return pipeline.predict(start, action, fcfg.Guidance.none()).images


def nearest(images: Tensor, training: Tensor) -> list[float]:
    """Return the root mean squared difference of each image to the nearest training image."""
    distances = torch.cdist(images.flatten(1), training.flatten(1))
    return (distances.min(dim=1).values / images[0].numel() ** 0.5).tolist()


def quantiles(values: list[float]) -> dict[str, float]:
    """Return the least value, the lowest percent, and the median."""
    shares = torch.tensor([0.0, 0.01, 0.5])
    least, low, median = torch.tensor(values).quantile(shares).tolist()
    return {"least": least, "low": low, "median": median}


def section(name: str) -> str:
    """Return what was found about a model, as text for its card.

    Args:
        name: ``docs/results/memorisation-NAME.json`` holds it.
    """
    found = json.loads((RESULTS / f"memorisation-{name}.json").read_text("utf-8"))
    lines = ["| images | least | lowest percent | median |", "|---|---|---|---|"]
    for key, label in (("generated", "generated from noise"), ("test", "test images")):
        row = found[key]
        cells = " | ".join(f"{row[column]:.3f}" for column in ("least", "low", "median"))
        lines.append(f"| {found['counts'][key]} {label} | {cells} |")
    counts = found["counts"]
    about = (
        f"Root mean squared difference to the nearest of {counts['training']:,} training images, "
        f"pixels in [-1, 1]. {found['nearer']} of {counts['generated']} generated images are "
        f"nearer to a training image than any test image is. `{found['command']}`"
    )
    return "\n".join([*lines, "", about])


def main(words: list[str]) -> None:
    """Measure the distances and write them."""
    parser = model_arguments(__doc__ or "")
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(words)
    pipeline = fcfg.load(args.model)
    experiment = find_experiment(EXPERIMENTS[args.model], images=args.images)
    test = choose_subset(pipeline, experiment, data=args.data)
    splits = load_data(find_data(pipeline, args.data), pipeline.space)
    training = images_from_bytes(splits["train"].images[:])
    new = nearest(generated(pipeline, test.attributes, args.seed), training)
    held_out = nearest(test.images, training)
    counts = {"generated": len(new), "test": len(held_out), "training": len(training)}
    write_json(
        args.out,
        {
            "counts": counts,
            "generated": quantiles(new),
            "test": quantiles(held_out),
            "nearer": sum(value < min(held_out) for value in new),
            **provenance("memorisation", words, args),
        },
    )


if __name__ == "__main__":
    main(sys.argv[1:])
