"""A desk with valid inputs of every kind, which nothing may change, and small pictures."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import fcfg
from evaluations import asked, calibration_of, tiny_model
from face_folder import SPACE, faces
from fake_results import known_results
from fcfg.support.config_files import to_yaml
from hostile import Treasure, as_json
from runs import tiny
from studios import file_of
from tiny import draw, randomised


@dataclass(frozen=True, eq=False)
class World:
    """Valid inputs, in a folder that nothing may change, and a place for those that are not."""

    root: Path
    desk: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "desk", self.root / "home" / "desk")
        self.desk.mkdir(parents=True)
        self.model.save(self.desk / "model")
        calibration_of(self.model, smiling=1.0, male=2.0, young=1.0).save(self.desk / "model")
        (self.desk / "runs").mkdir()
        shutil.copytree(self.desk / "model", self.desk / "runs" / "own")
        names = draw(self.desk, ["a.png", "pictures/b.png", "pictures/c.png"])
        rows = [["file_name", *self.model.space.names], *([n.name, "0", "1", "1"] for n in names)]
        (self.desk / "labels.csv").write_bytes(as_csv(rows))
        faces(self.desk / "faces", 4)
        first = {"data": {"path": "faces"}, "attributes": SPACE.to_config()}
        (self.desk / "faces.yaml").write_bytes(as_json(first))
        (self.desk / "tiny.yaml").write_text(to_yaml(tiny()))
        (self.desk / "asked.yaml").write_text(to_yaml(asked()))
        known_results(self.desk / "results.jsonl", n=4)

    @cached_property
    def model(self) -> fcfg.CounterfactualPipeline:
        model = tiny_model(saved=True)
        randomised(model.image_model, 0.03)  # it listens to its condition
        return model

    @cached_property
    def spare(self) -> Path:
        """A folder whose files may be replaced."""
        folder = self.root / "spare"
        folder.mkdir()
        return folder

    def file(self, name: str, data: bytes) -> Path:
        path = self.spare / name
        path.write_bytes(data)
        return path

    @cached_property
    def treasure(self) -> Treasure:
        return Treasure.of(self.root / "home")


def as_csv(rows: list[list[str]], separator: str = ",") -> bytes:
    lines = (separator.join(f'"{c}"' if {*c} & {*',"\n'} else c for c in row) for row in rows)
    return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"


_MADE: list[tuple[str, bytes]] = []


def pictures() -> list[tuple[str, bytes]]:
    """Small pictures of every kind."""
    if not _MADE:
        noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        rgb, exif = Image.fromarray(noise), Image.Exif()
        exif[0x0112] = 6
        deep = Image.fromarray(noise[..., 0].astype(np.uint16) * 200)
        kinds: list[tuple[str, Image.Image, dict[str, Any]]] = [
            ("PNG", rgb, {}),
            ("PNG", rgb.convert("L"), {}),
            ("PNG", rgb.convert("P"), {}),
            ("PNG", rgb.convert("RGBA"), {}),
            ("PNG", deep, {}),
            ("JPEG", rgb, {}),
            ("JPEG", rgb, {"progressive": True, "exif": exif}),
            ("WEBP", rgb, {"lossless": True}),
            ("JPEG", rgb.convert("CMYK"), {}),
            ("WEBP", rgb, {}),
            ("GIF", rgb, {}),
            ("BMP", rgb, {}),
            ("TIFF", rgb, {}),
            ("TIFF", deep, {"compression": "tiff_lzw"}),
        ]
        _MADE.extend((f"x.{f.lower()}", file_of(p, f, **o)) for f, p, o in kinds)
    return _MADE


def volume(number: int) -> bytes:
    nibabel = pytest.importorskip("nibabel")
    kind = (np.float32, np.uint8, np.int16, np.float64)[number]
    voxels = np.random.default_rng(0).integers(0, 200, (6, 8, 4)).astype(kind)
    return nibabel.Nifti1Image(voxels, np.diag([1, -1, 2, 1])).to_bytes()
