"""Write the pictures that come with a shipped model: held-out ones, as PNG files with a table.

    python tools/model_samples.py radiographs ../shared/data/nih_cxr14
    python tools/model_samples.py digits ../shared/data/morphomnist

They are chosen as ``fcfg evaluate`` chooses its images, so they are in no training set.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import fcfg
from fcfg.evaluation import choose_subset, find_experiment
from fcfg.generation.results import values_of
from fcfg.support.images import to_pictures

EXPERIMENTS = {"radiographs": "nih-cxr14/core", "digits": "morphomnist/core"}
COUNTS = {"radiographs": 12, "digits": 10}  # the latter one of each


def main(name: str, data: Path) -> None:
    """Choose the pictures of a model and write them beside it."""
    model = fcfg.load(name)
    assert model.folder is not None
    experiment = find_experiment(EXPERIMENTS[name], images=COUNTS[name])
    subset = choose_subset(model, experiment, data=data)
    folder = model.folder / "samples"
    folder.mkdir(exist_ok=True)
    with (folder / "attributes.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["file_name", *model.space.names])
        for row, picture in enumerate(to_pictures(subset.images)):
            picture.save(folder / f"{row:02}.png", optimize=True)
            values = values_of(model.space, subset.attributes, row)
            table.writerow([f"{row:02}.png", *values.values()])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
