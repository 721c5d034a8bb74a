"""What all data sets have in common, whatever their format."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from fcfg.datasets.celeba import MosaicData
from fcfg.datasets.morphomnist import MorphoMNISTData
from fcfg.datasets.nih import NIHData
from fcfg.datasets.registry import DATA_SETS, DataConfig, DiskData
from refusal import refused
from trees import celeba, embed, mimic, morphomnist, mosaic, nih, space_of

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.parametrize("maker", [celeba, mosaic, nih, embed, mimic, morphomnist])
def test_what_a_tree_lacks_is_named_with_where_to_get_it(tmp_path: Path, maker) -> None:
    config = maker(tmp_path)
    suffixes = (".csv", ".gz", ".txt", ".zip", ".npz")
    needed = [path for path in tmp_path.rglob("*") if path.suffix in suffixes]
    for path in needed:
        path.rename(tmp_path / "away")
        with refused("data in", path.name.removesuffix(".gz"), "get it from http"):
            config.listing(space_of(config))
        (tmp_path / "away").rename(path)
    with refused("data, path", "got none"):
        type(config)().listing(space_of(config))


def test_every_format_is_a_configuration() -> None:
    for name, options in DATA_SETS.items():
        config = TypeAdapter(DataConfig).validate_python({"format": name})
        assert isinstance(config, options)
        assert config.model_dump()["format"] == name


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        (MosaicData(path=SHARED / "celeba64"), (24183, 2993, 2824)),
        (NIHData(path=SHARED / "nih_cxr14"), None),
        (MorphoMNISTData(path=SHARED / "morphomnist"), (54000, 6000, 10000)),
    ],
)
def test_real_labels_are_listed(config: DiskData, sizes) -> None:
    if config.path is None or not config.path.exists():
        pytest.skip(f"real data are not at {config.path}")
    found = config.listing(space_of(config))
    counts = tuple(len(found.split(split)) for split in ("train", "val", "test"))
    assert sizes in (None, counts)
    assert sum(counts) == len(found.cases)
