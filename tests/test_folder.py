"""Your own folder: what is listed is what is loaded, and what is wrong is refused by name."""

from __future__ import annotations

import csv
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import fcfg
from fcfg.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.datasets.cache import cache_folder
from fcfg.datasets.examples import Splits
from fcfg.datasets.folder import FolderData, listing
from fcfg.datasets.loading import load_listing
from fcfg.datasets.pixels import Pixels, UnreadableError, read_picture
from fcfg.datasets.registry import load_data
from fcfg.datasets.splitting import drawn_splits
from fcfg.datasets.tables import read_columns
from refusal import refused

SPACE = AttributeSpace(
    [Binary("smiling"), Categorical("hair", ("dark", "fair")), Continuous("age", 0, 100)]
)


def picture(number: int, size: tuple[int, int] = (20, 16)) -> Image.Image:
    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def faces(folder: Path, count: int = 10, **columns: list[str]) -> FolderData:
    """Write a folder of small pictures; a column can be replaced or added."""
    names = [f"{'more/' if n % 3 == 0 else ''}{n}.png" for n in range(count)]
    table = {
        "file_name": names,
        "smiling": [str(n % 2) for n in range(count)],
        "hair": [["dark", "fair"][n % 2] for n in range(count)],
        "age": [str(20 + n) for n in range(count)],
    } | columns
    (folder / "more").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        picture(number).save(folder / name)
    write_table(folder / "metadata.csv", table)
    return FolderData(path=folder, size=16)


def write_table(path: Path, table: dict[str, list[str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def load(config: FolderData, **options: Any) -> Splits:
    return load_data(config, SPACE, **options)


def with_(config: FolderData, **changes: Any) -> FolderData:
    return config.model_copy(update=changes)


def caches(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".fcfg-cache").iterdir())


def test_a_folder_becomes_splits_with_every_label_beside_its_image(tmp_path: Path) -> None:
    config = faces(tmp_path)
    splits = load(config)
    assert {split: len(examples) for split, examples in splits.items()} == {
        "train": 8,
        "val": 1,
        "test": 1,
    }
    for examples in splits.values():
        assert examples.images.shape == (len(examples), 3, 16, 16)
        assert isinstance(examples.images, np.memmap)
        for row, name in enumerate(examples.names):
            number = int(Path(name).stem)
            assert np.array_equal(examples.images[row], expected(number))
            assert examples.attributes["smiling"][row] == number % 2
            assert examples.attributes["hair"][row] == number % 2
            assert examples.attributes["age"][row] == 20 + number
    assert fcfg.datasets.folder.FolderData is FolderData


def expected(number: int) -> np.ndarray:
    square = picture(number).crop((2, 0, 18, 16))
    return np.asarray(square).transpose(2, 0, 1)


def test_the_second_time_nothing_is_decoded_and_all_is_the_same(tmp_path: Path) -> None:
    config = faces(tmp_path)
    told: list[tuple[str, int, int]] = []
    first = load(config, on_progress=lambda *record: told.append(record))
    assert told[0] == ("reading images", 0, 10)
    assert told[-1] == ("reading images", 10, 10)
    second = load(config, on_progress=lambda *record: pytest.fail("decoded again"))
    for split in first:
        assert np.array_equal(first[split].images, second[split].images)
        assert first[split].names == second[split].names


@pytest.mark.parametrize("change", ["picture", "size", "split_seed", "index", "images"])
def test_whatever_pixels_depend_on_makes_a_new_cache(tmp_path: Path, change: str) -> None:
    config = faces(tmp_path)
    before = load(config)
    index, images = (tmp_path / ".fcfg-cache" / name for name in caches(tmp_path))
    if change == "picture":
        picture(99).save(tmp_path / before["train"].names[0])
    elif change == "index":  # as if the power had failed before it was written
        index.unlink()
    elif change == "images":
        images.write_bytes(images.read_bytes()[:100])
    else:
        config = with_(config, **{change: 8})
    told: list[int] = []
    load(config, on_progress=lambda what, done, total: told.append(done))
    assert told[-1] == 10
    assert len(caches(tmp_path)) == (2 if change in {"index", "images"} else 4)


def test_a_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    config = faces(tmp_path)

    def stop(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(config, on_progress=stop)
    assert caches(tmp_path) == []
    assert len(load(config)["train"]) == 8


def test_the_cache_lies_where_it_is_wanted_or_can_be_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    data = tmp_path / "data"
    data.mkdir()
    assert cache_folder(data) == data / ".fcfg-cache"
    assert cache_folder(data, tmp_path / "there") == tmp_path / "there"
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / ".fcfg-cache").write_text("a file where the folder would be")
    assert cache_folder(blocked) == tmp_path / "home" / "fcfg"
    with refused("data, cache", "can be written", "another folder"):
        cache_folder(data, blocked / ".fcfg-cache")


def test_bad_images_are_all_named_and_left_out_only_when_asked(tmp_path: Path) -> None:
    config = faces(tmp_path, count=20)
    (tmp_path / "1.png").write_bytes(b"no image")
    (tmp_path / "2.png").write_bytes((tmp_path / "2.png").read_bytes()[:60])
    (tmp_path / "4.png").unlink()
    for _ in range(2):  # freshly decoded, and from the cache
        with refused("images in", "20 images", "3 that cannot", "1.png", "2.png", "4.png"):
            load(config)
    with pytest.warns(UserWarning, match="3 of 20 images .* left out"):
        splits = load(config, skip_bad=True)
    names = [name for examples in splits.values() for name in examples.names]
    assert len(names) == 17
    assert not {"1.png", "2.png", "4.png"} & set(names)
    for examples in splits.values():
        for row, name in enumerate(examples.names):
            assert np.array_equal(examples.images[row], expected(int(Path(name).stem)))
            assert examples.attributes["age"][row] == 20 + int(Path(name).stem)


def test_nothing_but_bad_images_is_refused_in_any_case(tmp_path: Path) -> None:
    config = faces(tmp_path, count=3)
    for path in [*tmp_path.glob("*.png"), *tmp_path.glob("more/*.png")]:
        path.write_bytes(b"")
    with refused("images in", "3 that cannot"):
        load(config, skip_bad=True)


def test_true_and_false_are_one_and_nought(tmp_path: Path) -> None:
    config = faces(tmp_path, count=6, smiling=["TRUE", "false", "1.0", "0.0", "1", "0"])
    found = listing(config, SPACE)
    assert dict(zip(found.names, found.columns["smiling"], strict=True))["1.png"] == "false"
    values = {
        name: int(value)
        for examples in load(config).values()
        for name, value in zip(examples.names, examples.attributes["smiling"], strict=True)
    }
    assert [values[name] for name in found.names] == [1, 0, 1, 0, 1, 0]


def test_a_column_says_the_split_and_another_the_name(tmp_path: Path) -> None:
    parts = ["train"] * 6 + ["val"] * 4
    people = [f"p{n // 2}" for n in range(10)]
    config = faces(tmp_path, part=parts, person=people, Smile=[str(n % 2) for n in range(10)])
    config = with_(config, split="part", group="person", rename={"smiling": "Smile"})
    splits = load(config)
    assert list(splits) == ["train", "val"]
    assert {Path(name).stem for name in splits["val"].names} == {"6", "7", "8", "9"}


@given(
    st.lists(st.text(max_size=3), min_size=3, max_size=60),
    st.integers(0, 3),
    st.permutations(range(60)),
)
def test_drawn_splits_keep_groups_whole_whatever_the_order(groups, seed, order) -> None:
    fractions = (0.6, 0.2, 0.2)
    if len(set(groups)) < 3:
        with refused("data, fractions", "at least 3 groups"):
            drawn_splits(groups, fractions, seed)
        return
    splits = drawn_splits(groups, fractions, seed)
    of_group = dict(zip(groups, splits, strict=True))
    assert [of_group[group] for group in groups] == splits
    for split, fraction in zip(("train", "val", "test"), fractions, strict=True):
        assert abs(list(of_group.values()).count(split) - fraction * len(of_group)) <= 1
    shuffled = [groups[i] for i in order if i < len(groups)]
    assert drawn_splits(shuffled, fractions, seed) == [of_group[group] for group in shuffled]


def test_seeds_draw_other_splits_and_a_fraction_may_be_nought() -> None:
    names = [str(n) for n in range(100)]
    assert drawn_splits(names, (0.8, 0.1, 0.1), 0) != drawn_splits(names, (0.8, 0.1, 0.1), 1)
    assert set(drawn_splits(names, (0.5, 0.5, 0.0), 0)) == {"train", "val"}


@pytest.mark.parametrize(
    ("columns", "options", "subject", "fragments"),
    [
        (
            {"smiling": ["2"] * 10},
            {},
            "attribute 'smiling'",
            ["0 or 1", "'2' for 'more/0.png'", "9 more"],
        ),
        (
            {"age": ["", "nan"] + ["5"] * 8},
            {},
            "attribute 'age'",
            ["none for 'more/0.png', '1.png'"],
        ),
        ({"age": ["old"] + ["5"] * 9}, {}, "attribute 'age'", ["0 to 100", "'old'"]),
        ({"age": ["inf"] + ["5"] * 9}, {}, "attribute 'age'", ["'inf'"]),
        ({"hair": ["blue"] * 10}, {}, "attribute 'hair'", ["'dark', 'fair'", "'blue'"]),
        ({"file_name": ["../0.png"] + ["1.png"] * 9}, {}, "file_name", ["'../0.png'"]),
        ({"file_name": ["1.png"] * 10}, {}, "metadata.csv", ["'1.png' more than once"]),
        ({}, {"split": "fold"}, "metadata.csv", ["'fold'"]),
        ({}, {"rename": {"smilng": "x"}}, "data, rename", ["did you mean 'smiling'"]),
        ({}, {"rename": {"smiling": "smile"}}, "metadata.csv", ["did you mean 'smiling'"]),
        (
            {"part": ["train"] * 9 + ["valid"]},
            {"split": "part"},
            "split 'part'",
            ["'valid'", "'val'"],
        ),
        ({"part": ["train"] * 10}, {"split": "part"}, "data in", ["one example in 'val'"]),
        (
            {"part": ["train", "val"] * 5, "who": ["ann"] * 10},
            {"split": "part", "group": "who"},
            "data, split",
            ["'ann' in several"],
        ),
        ({"who": [""] * 10}, {"group": "who"}, "group 'who'", ["none for", "'1.png'"]),
        ({}, {"fractions": (0.5, 0.6, 0.1)}, "data, fractions", ["sum to 1"]),
        ({}, {"path": None}, "data, path", ["got none"]),
        ({}, {"path": Path("nowhere")}, "data, path", ["'nowhere'"]),
    ],
)
def test_what_is_wrong_with_labels_is_refused_before_images_are_read(
    tmp_path: Path, columns, options, subject: str, fragments: list[str]
) -> None:
    config = with_(faces(tmp_path, **columns), **options)
    with refused(subject, *fragments):
        load(config)
    assert not (tmp_path / ".fcfg-cache").exists()


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        (b"", ["an empty file"]),
        (b"file_name,age,age\n", ["'age' more than once"]),
        (b"file_name,age\na.png\n", ["line 2", "2 values"]),
        (b"file_name,age\n\xff\xfe,1\n", ["UTF-8"]),
        (b'file_name\n"a', ["comma-separated"]),
    ],
)
def test_broken_tables_are_refused(tmp_path: Path, content: bytes, fragments: list[str]) -> None:
    (tmp_path / "metadata.csv").write_bytes(content)
    with refused("metadata.csv", *fragments):
        read_columns(tmp_path / "metadata.csv")


def test_tables_may_end_in_an_empty_line_and_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n")
    assert read_columns(tmp_path / "t.csv") == {"a": ["1"], "b": ["2"]}
    assert read_columns(tmp_path / "t.csv", ["b"]) == {"b": ["2"]}
    with refused("t.csv", "a column 'c'"):
        read_columns(tmp_path / "t.csv", ["c"])
    (tmp_path / "t.csv.gz").write_bytes(b"not compressed")
    with refused("t.csv.gz", "comma-separated"):
        read_columns(tmp_path / "t.csv.gz")


def test_a_listing_must_have_every_attribute(tmp_path: Path) -> None:
    found = listing(faces(tmp_path), AttributeSpace([Binary("smiling")]))
    with refused("the labels of", "a column 'hair'"):
        load_listing(found, SPACE, Pixels(8, 1))


# One image: orientation, channels, depth, shape.


def saved(tmp_path: Path, image: Image.Image, name: str = "x.png", **options: Any) -> Path:
    image.save(tmp_path / name, **options)
    return tmp_path / name


def test_the_centre_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    values = np.zeros((8, 16), dtype=np.uint8)
    values[:, 4:12] = 200
    path = saved(tmp_path, Image.fromarray(values))
    assert (read_picture(path, Pixels(8, 1)) == 200).all()
    padded = read_picture(path, Pixels(16, 1, fit="pad"))
    assert np.array_equal(padded[0, 4:12], values)
    assert padded[0, :4].max() == padded[0, 12:].max() == 0
    stretched = read_picture(path, Pixels(8, 1, fit="stretch"))
    assert stretched[0, :, 0].max() < 50
    assert stretched[0, :, 4].min() > 150


def test_grey_becomes_three_equal_channels_and_colour_its_luma(tmp_path: Path) -> None:
    grey = saved(tmp_path, Image.new("L", (8, 8), 77))
    assert (read_picture(grey, Pixels(8, 3)) == 77).all()
    red = saved(tmp_path, Image.new("RGB", (8, 8), (255, 0, 0)), "red.png")
    assert (read_picture(red, Pixels(8, 1)) == round(0.299 * 255)).all()
    for mode in ("1", "P", "LA", "RGBA", "CMYK"):
        path = saved(tmp_path, Image.new("RGB", (8, 8), "white").convert(mode), f"{mode}.tiff")
        assert (read_picture(path, Pixels(8, 3)) == 255).all(), mode


def test_transparent_pixels_have_no_colour(tmp_path: Path) -> None:
    path = saved(tmp_path, Image.new("RGBA", (8, 8), (1, 2, 3, 100)))
    with pytest.raises(UnreadableError, match="transparent"):
        read_picture(path, Pixels(8, 3))


def test_pictures_are_turned_as_the_camera_was(tmp_path: Path) -> None:
    values = np.zeros((8, 8), dtype=np.uint8)
    values[:4] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    path = saved(tmp_path, Image.fromarray(values), exif=exif)
    assert read_picture(path, Pixels(8, 1))[0, 7].min() == 255


def test_sixteen_bits_keep_their_range_or_take_their_own(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    full = saved(tmp_path, Image.fromarray(ramp), "full.png")
    exact = np.round(ramp / 257).astype(np.uint8)
    assert np.abs(read_picture(full, Pixels(8, 1))[0].astype(int) - exact).max() <= 1
    part = saved(tmp_path, Image.fromarray(ramp // 16), "part.png")  # 12 bits in 16
    assert read_picture(part, Pixels(8, 1)).max() == 16
    own = read_picture(part, Pixels(8, 1, "minmax"))[0]
    assert (own.min(), own.max()) == (0, 255)
    assert (read_picture(part, Pixels(8, 3, "minmax")) == own).all()
    flat = saved(tmp_path, Image.fromarray(np.full((8, 8), 900, np.uint16)), "flat.png")
    assert read_picture(flat, Pixels(8, 1, "minmax")).max() == 0
    real = saved(tmp_path, Image.fromarray(ramp.astype(np.float32)), "real.tiff")
    assert read_picture(real, Pixels(8, 1, "minmax")).max() == 255
    with pytest.raises(UnreadableError, match="minmax"):
        read_picture(real, Pixels(8, 1))


def test_large_photographs_shrink_as_if_decoded_whole(tmp_path: Path) -> None:
    smooth = picture(1, (8, 8)).resize((512, 512), Image.Resampling.BICUBIC)
    path = saved(tmp_path, smooth, "large.jpg", quality=95)
    whole = np.asarray(smooth.resize((16, 16), Image.Resampling.LANCZOS)).transpose(2, 0, 1)
    assert np.abs(read_picture(path, Pixels(16, 3)).astype(int) - whole).mean() < 2


def dicom(tmp_path: Path, pixels: np.ndarray, **elements: Any) -> Path:
    """A file as a scanner writes it."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    record = Dataset()
    record.file_meta = FileMetaDataset()
    record.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    record.file_meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    record.file_meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["fcfg"])
    record.SOPClassUID = record.file_meta.MediaStorageSOPClassUID
    record.SOPInstanceUID = record.file_meta.MediaStorageSOPInstanceUID
    record.Rows, record.Columns = pixels.shape[:2]
    record.SamplesPerPixel = 1 if pixels.ndim == 2 else 3
    record.PhotometricInterpretation = "MONOCHROME2"
    record.BitsAllocated = 8 * pixels.itemsize
    record.BitsStored = record.BitsAllocated if pixels.itemsize == 1 else 12
    record.HighBit, record.PixelRepresentation = record.BitsStored - 1, 0
    if pixels.ndim == 3:
        record.PlanarConfiguration = 0
    record.PixelData = pixels.tobytes()
    for name, value in elements.items():
        setattr(record, name, value)
    record.save_as(tmp_path / "x.dcm", enforce_file_format=True)
    return tmp_path / "x.dcm"


def test_dicom_is_shown_through_its_window_and_bright_is_dense(tmp_path: Path) -> None:
    ramp = (np.arange(64, dtype=np.uint16) * 65).reshape(8, 8)
    plain = read_picture(dicom(tmp_path, ramp), Pixels(8, 1))[0]
    assert np.abs(plain - np.round(ramp / ramp.max() * 255)).max() <= 1
    window = {"WindowCenter": 2048, "WindowWidth": 2048}
    shown = read_picture(dicom(tmp_path, ramp, **window), Pixels(8, 1))[0].astype(int)
    wanted = np.clip((ramp.astype(float) - 1024) / 2048, 0, 1) * 255
    assert np.abs(shown - wanted).max() <= 2
    narrow = dicom(tmp_path, np.full((8, 8), 2048, np.uint16), **window)
    assert 120 <= read_picture(narrow, Pixels(8, 1)).min() <= 135  # by the window, not its range
    inverted = dicom(tmp_path, ramp, PhotometricInterpretation="MONOCHROME1", **window)
    assert np.abs(read_picture(inverted, Pixels(8, 1))[0] + shown - 255).max() <= 1
    colour = dicom(tmp_path, np.zeros((8, 8, 3), np.uint8), PhotometricInterpretation="RGB")
    with pytest.raises(UnreadableError, match="one grey image"):
        read_picture(colour, Pixels(8, 1))


def test_dicom_needs_its_reader_and_says_which(tmp_path: Path, monkeypatch) -> None:
    config = faces(tmp_path, file_name=["x.dcm", *(f"{n}.png" for n in range(1, 10))])
    monkeypatch.setitem(sys.modules, "pydicom", None)  # as where it is not installed
    with refused("DICOM images", "pip install 'fcfg[medical]'"):
        load(config)


def test_reading_warns_of_nothing_that_is_reported(tmp_path: Path) -> None:
    config = faces(tmp_path)
    data = io.BytesIO()
    picture(1).save(data, "JPEG", exif=b"Exif\0\0broken")
    (tmp_path / "1.png").write_bytes(data.getvalue())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(config)["train"]) == 8
    os.utime(tmp_path / "1.png")  # touched: another time of change, another cache
    load(config)
    assert len(caches(tmp_path)) == 4
