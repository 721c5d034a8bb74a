"""The studio shows volumes by three slices: its own, uploads, and the answers to both."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from browser import Tab, browsing, chromium
from convolutions import convolutional
from fcfg.support.volumes import unpacked
from refusal import check_form
from studios import ask, client_of, of, picture_in, pixels_of, serving, studio_of

SIZE = (8, 10, 12)
SHOWN = (12, 10 + 8 + 8)  # sagittal, coronal and axial slices side by side
KNOWN = {"a": 0, "b": 1}


def packed(values: np.ndarray, **header: Any) -> bytes:
    """A packed NIfTI file."""
    image = nibabel.Nifti1Image(values, np.eye(4))
    for name, value in header.items():
        image.header[name] = value
    return gzip.compress(image.to_bytes())


def noise(*size: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1000, 3000, size).astype(np.int16)


def model(folder: Path | None = None) -> Any:
    found = convolutional(3, channels=1, stride=2)
    found.folder = folder
    return found


def with_samples(folder: Path) -> None:
    """Write two volumes that come with a model."""
    samples = folder / "samples"
    samples.mkdir()
    for name in ("one", "two"):
        (samples / f"{name}.nii.gz").write_bytes(packed(noise(*SIZE)))
    (samples / "attributes.csv").write_text("file_name,a,b\none.nii.gz,0,1\ntwo.nii.gz,1,1\n")


def test_volumes_that_come_with_a_model_are_shown_and_answered(tmp_path: Path) -> None:
    with_samples(tmp_path)
    with client_of(studio_of(model(tmp_path))) as client:
        found = client.get("/api/samples").json()["samples"]
        assert [each["attributes"] for each in found] == [KNOWN, {"a": 1, "b": 1}]
        assert found[0]["slices"] == {"sagittal": 10, "coronal": 8, "axial": 8}
        slices = pixels_of(client.get(found[0]["image"]).content)
        assert slices.shape == SHOWN
        events = ask(client, "s0", attributes=KNOWN, do={"a": 1}, sampling="ddim uniform 4")
    (answer,) = of(events, "answer")
    assert picture_in(answer["image"]).shape == SHOWN
    assert picture_in(answer["difference"]).shape == (*SHOWN, 3)
    assert np.abs(picture_in(answer["image"]) - slices).max() > 3
    (done,) = of(events, "done")
    assert "volume.nii.gz" in done["command"]
    assert 'read_files([Path("volume.nii.gz")]' in done["python"]


@browsing
def test_slices_are_named_and_fill_a_phone(tmp_path: Path) -> None:
    with_samples(tmp_path)
    with serving(studio_of(model(tmp_path))) as address, chromium() as browser:
        tab = Tab(browser, (390, 844), "light", is_mobile=True)
        tab.page.goto(address)
        tab.page.wait_for_selector(".tile canvas[style]")  # which was painted
        seen = tab.page.evaluate(
            """() => ({
              words: [...document.querySelectorAll(".slices")].map((each) => each.innerText),
              shapes: [...document.querySelectorAll("#before, #after, .tile canvas[style]")]
                .map((each) => each.getBoundingClientRect()).map((box) => box.width / box.height),
              width: document.documentElement.scrollWidth,
              view: document.querySelector("[aria-pressed=true][data-view]").dataset.view,
            })"""
        )
        assert tab.errors == []
    assert [words.split() for words in seen["words"]] == [["sagittal", "coronal", "axial"]] * 2
    height, width = SHOWN
    assert seen["shapes"] == pytest.approx([width / height] * len(seen["shapes"]), rel=0.02)
    assert (seen["width"], seen["view"]) == (390, "answer")


def test_uploads_are_volumes_where_the_model_is_one_of_volumes() -> None:
    data = packed(noise(*SIZE))
    with client_of(studio_of(model())) as client:
        for each in (data, gzip.decompress(data)):
            reply = client.post("/api/images", content=each)
            assert reply.status_code == 200, reply.text
            assert "its own range of values scaled to -1..1" in reply.json()["notes"]
            assert pixels_of(client.get(reply.json()["image"]).content).shape == SHOWN
        events = ask(client, reply.json()["id"], attributes=KNOWN, do={"a": 1})
        assert of(events, "answer")


def claimed() -> bytes:
    """A file whose header says more than it has."""
    image = nibabel.Nifti1Image(noise(8, 8, 8), np.eye(4))
    image.header["dim"] = [3, 3000, 3000, 3000, 1, 1, 1, 1]
    return gzip.compress(image.header.binaryblock + bytes(100))


def test_no_more_of_a_file_is_unpacked_than_is_needed() -> None:
    bomb = gzip.compress(bytes(2**24))
    assert len(unpacked(bomb, 1000)) == 1000
    assert unpacked(b"plain", 3) == b"plain"


#: What a stranger may send, none of which is a volume of this model.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"hello",
    "a broken packet": lambda: b"\x1f\x8b" + b"x" * 100,
    "half a packet": lambda: packed(noise(32, 32, 32))[:5000],
    "a gigavoxel": claimed,
    "few voxels": lambda: packed(noise(8, 8, 4)),
    "two channels": lambda: packed(noise(8, 8, 8, 2)),
    "one axis": lambda: packed(noise(64)),
    "complex numbers": lambda: packed(noise(8, 8, 8).astype(np.complex64)),
    "not a number": lambda: packed(np.full((8, 8, 8), np.nan, np.float32)),
}


def test_a_hostile_volume_is_refused_in_one_clear_line() -> None:
    with client_of(studio_of(model())) as client:
        for kind, make in HOSTILE.items():
            reply = client.post("/api/images", content=make())
            assert reply.status_code == 400, kind
            check_form(reply.json()["error"], "picture")
