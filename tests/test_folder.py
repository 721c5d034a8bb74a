"""Your own folder: what is listed is what is loaded, and what is wrong is refused by name."""

from __future__ import annotations

import gzip
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from face_folder import SPACE, faces, picture
from fcfg.datasets.base import Splits, split_by_group
from fcfg.datasets.folder import FolderData
from fcfg.datasets.loading import cache_folder
from fcfg.support.tables import read_columns
from refusal import refused


def load(config: FolderData, **options: Any) -> Splits:
    return config.load(SPACE, **options)


def with_(config: FolderData, **changes: Any) -> FolderData:
    return config.model_copy(update=changes)


def caches(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / ".fcfg-cache").iterdir())


def test_a_folder_becomes_splits_with_every_label_beside_its_image(tmp_path: Path) -> None:
    config = faces(tmp_path)
    told: list[tuple[str, int, int]] = []
    splits = load(config, on_progress=lambda *record: told.append(record))
    assert told == [("reading images", done, 10) for done in range(11)]
    again = load(config, on_progress=lambda *record: pytest.fail("decoded again"))
    sizes = {split: len(examples) for split, examples in splits.items()}
    assert sizes == {"train": 8, "val": 1, "test": 1}
    for split, examples in splits.items():
        assert np.array_equal(examples.images, again[split].images)
        assert examples.names == again[split].names
        assert examples.images.shape == (len(examples), 3, 16, 16)
        assert isinstance(examples.images, np.memmap)
        for row, name in enumerate(examples.names):
            number = int(Path(name).stem)
            assert np.array_equal(examples.images[row], expected(number))
            values = {"smiling": number % 2, "hair": number % 2, "age": 20 + number}
            assert {name: column[row] for name, column in examples.attributes.items()} == values


def expected(number: int) -> np.ndarray:
    square = picture(number).crop((2, 0, 18, 16))
    return np.asarray(square).transpose(2, 0, 1)


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
    refused("data, cache", "can be written").by(cache_folder, data, blocked / ".fcfg-cache")


@pytest.mark.skipif(
    not hasattr(os, "getuid"), reason="Windows finds a home without HOME, so nobody is without one"
)
@pytest.mark.promise("A clock that goes back, a missing home and closed streams change no answer")
def test_a_user_without_a_home_needs_none(tmp_path: Path, monkeypatch) -> None:
    """As in a container that runs by a number."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    assert cache_folder(tmp_path) == tmp_path / ".fcfg-cache"
    refused("data, cache", "can be written").by(cache_folder, None)
    assert not (tmp_path / "~").exists()


def test_bad_images_are_all_named_and_left_out_only_when_asked(tmp_path: Path) -> None:
    config = faces(tmp_path, count=20)
    (tmp_path / "1.png").write_bytes(b"no image")
    (tmp_path / "2.png").write_bytes((tmp_path / "2.png").read_bytes()[:60])
    (tmp_path / "4.png").unlink()
    for _ in range(2):  # freshly decoded, and from the cache
        with refused("images in", "20 images", "3 that cannot", "1.png", "2.png", "4.png"):
            load(config)
    with pytest.warns(UserWarning, match="3 of 20 images .* cannot be read and are skipped"):
        splits = load(config, skip_bad=True)
    names = [name for examples in splits.values() for name in examples.names]
    assert len(names) == 17
    assert not {"1.png", "2.png", "4.png"} & set(names)
    for examples in splits.values():
        for row, name in enumerate(examples.names):
            assert np.array_equal(examples.images[row], expected(int(Path(name).stem)))
            assert examples.attributes["age"][row] == 20 + int(Path(name).stem)
    for path in [*tmp_path.glob("*.png"), *tmp_path.glob("more/*.png")]:
        path.write_bytes(b"")
    refused("images in", "20 that cannot").by(load, config, skip_bad=True)


def test_a_column_says_the_split_and_another_the_name(tmp_path: Path) -> None:
    parts = ["train"] * 6 + ["val"] * 4
    people = [f"p{n // 2}" for n in range(10)]
    smiles = ["TRUE", "false", "1.0", "0.0", "1", "0", "True", "NO", "yes", "False"]
    config = faces(tmp_path, part=parts, person=people, Smile=smiles)
    config = with_(config, split="part", group="person", rename={"smiling": "Smile"})
    splits = load(config)
    assert list(splits) == ["train", "val"]
    assert splits["train"].attributes["smiling"].tolist() == [1, 0] * 3
    assert [Path(name).stem for name in splits["val"].names] == ["6", "7", "8", "9"]
    assert splits["val"].groups == ("p3", "p3", "p4", "p4")
    assert load(config.model_copy(update={"group": None}))["val"].groups is None


NAMES = st.lists(st.text("aäA1/. \n", max_size=3), min_size=3, max_size=60)


@given(NAMES, st.integers(0, 3), st.permutations(range(60)))
def test_random_splits_keep_groups_together_in_any_order(groups, seed, order) -> None:
    fractions = (0.6, 0.2, 0.2)
    if len(set(groups)) < 3:
        refused("data, fractions", "at least 3 groups").by(split_by_group, groups, fractions, seed)
        return
    splits = split_by_group(groups, fractions, seed)
    of_group = dict(zip(groups, splits, strict=True))
    assert [of_group[group] for group in groups] == splits
    for split, fraction in zip(("train", "val", "test"), fractions, strict=True):
        assert abs(list(of_group.values()).count(split) - fraction * len(of_group)) <= 1
    names = [str(n) for n in range(100)]
    assert split_by_group(names, fractions, seed) != split_by_group(names, fractions, seed + 1)
    assert set(split_by_group(names, (0.5, 0.5, 0.0), seed)) == {"train", "val"}
    shuffled = [groups[i] for i in order if i < len(groups)]
    assert split_by_group(shuffled, fractions, seed) == [of_group[group] for group in shuffled]


def test_what_is_wrong_with_labels_is_refused_before_images_are_read(tmp_path: Path) -> None:
    def wrong(subject: str, fragment: str, columns: Any = None, **options: Any) -> None:
        config = with_(faces(tmp_path, **columns or {}), **options)
        refused(subject, fragment).by(load, config)

    wrong("attribute 'smiling'", "'2' for 'more/0.png'", {"smiling": ["2"] * 10})
    gaps = {"age": ["", "nan", *"56789567"]}
    wrong("'age'", "none for 2: 'more/0.png', '1.png'", gaps)
    for text in ("old", "inf"):
        wrong("attribute 'age'", f"'{text}'", {"age": [text, *"567895678"]})
    wrong("attribute 'hair'", "'dark', 'fair'", {"hair": ["blue"] * 10})
    wrong("data in", "'../0.png'", {"file_name": ["../0.png"] * 10})
    wrong("data in", "'1.png' more than once", {"file_name": ["1.png"] * 10})
    wrong("metadata.csv", "'fold'", split="fold")
    wrong("data, rename", "did you mean 'smiling'", rename={"smilng": "x"})
    wrong("metadata.csv", "if you mean 'smiling', rename", rename={"smiling": "smile"})
    wrong("split", "'valid'", {"part": ["train"] * 9 + ["valid"]}, split="part")
    wrong("data in", "none in 'val'", {"part": ["train"] * 10}, split="part")
    people = {"part": ["train", "val"] * 5, "who": ["ann"] * 10}
    wrong("data in", "'ann' in several", people, split="part", group="who")
    wrong("group", "'1.png'", {"who": [""] * 10}, group="who")
    wrong("data, fractions", "sum to 1", fractions=(0.5, 0.6, 0.1))
    wrong("data, path", "got none", path=None)
    wrong("data, path", "'nowhere'", path=Path("nowhere"))
    assert not (tmp_path / ".fcfg-cache").exists()


def test_broken_tables_are_refused(tmp_path: Path) -> None:
    for content, fragment in {
        b"": "an empty file",
        b"file_name,age,age\n": "'age' more than once",
        b"file_name,age\na.png\n": "line 2",
        b"file_name,age\n\xff\xfe,1\n": "a table in UTF-8, got another encoding: the byte 0xff",
        "file_name,name\na.png,Zoë\n".encode("latin-1"): "0xeb; save it as 'CSV UTF-8'",
        "file_name,name\nb.png,Zoë\n".encode("latin-1"): "iconv -f LATIN1 -t UTF-8 OLD > NEW",
        b'file_name\n"a': "comma-separated",
        b"file_name;age\na.png;3,5\n": "semicolons in its first line",
        b"file_name\tage\na.png\t3\n": "tabs in its first line",
        b"file_name" + b"," * 2**20: "rows of at most 1,048,576 characters",
        b"file_name\n" + b'"\n",' * 2**19: "rows of at most 1,048,576 characters",
    }.items():
        (tmp_path / "metadata.csv").write_bytes(content)
        refused("metadata.csv", fragment).by(read_columns, tmp_path / "metadata.csv")


def test_tables_may_end_in_an_empty_line_and_begin_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n")
    (tmp_path / "t.csv.gz").write_bytes(b"not compressed")
    assert read_columns(tmp_path / "t.csv") == {"a": ["1"], "b": ["2"]}
    assert read_columns(tmp_path / "t.csv", ["b"]) == {"b": ["2"]}
    for name, wanted, fragments in (
        ("t.csv", ["c"], ["a column 'c'"]),
        ("gone.csv", None, ["that can be read", "No such file", "check the path"]),
        ("t.csv.gz", None, ["comma-separated"]),
    ):
        refused(name, *fragments).by(read_columns, tmp_path / name, wanted)


def test_what_a_small_file_becomes_is_bounded(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("fcfg.support.tables._CELLS", 1000)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"text,1\n" * 500))
    texts = read_columns(path)["a"]
    assert len(texts) == 500
    assert len({id(text) for text in texts}) == 1  # texts that recur are kept once
    path.write_bytes(gzip.compress(b"a,b\n" + b"0,1\n" * 10**6))
    for wanted, line in ((None, "502"), (["b"], "1,002")):
        with refused("bomb.csv.gz", "at most 1,000 values", f"after {line} lines", "remove rows"):
            read_columns(path, wanted)


def test_several_frames_are_said_at_every_loading_and_nothing_that_is_reported(tmp_path) -> None:
    config = faces(tmp_path)
    picture(1).save(tmp_path / "1.png", save_all=True, append_images=[picture(2)])
    for _ in range(2):  # decoded, then from the cache
        with pytest.warns(UserWarning, match=r"1 of 10 .* first of several frames: '1\.png'"):
            load(config)
    picture(1).save(tmp_path / "1.png", "JPEG", exif=b"Exif\0\0broken")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(config)["train"]) == 8
