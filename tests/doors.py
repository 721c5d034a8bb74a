"""The doors by which input of strangers enters: valid inputs of each, and how they are tried."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

import fcfg
from asked_studio import AskedStudio
from desk import World, as_csv, pictures, volume
from evaluations import asked
from face_folder import SPACE
from fcfg.cli import main
from fcfg.cli.tables import print_numbers
from fcfg.datasets.check import check_folder
from fcfg.evaluation.presets import find_experiment
from fcfg.evaluation.result_files import read_results
from fcfg.evaluation.summary import summarise
from fcfg.generation.parsing import find_attributes
from fcfg.generation.picture_files import read_files
from fcfg.reports import compare
from fcfg.storage.folder import digest
from fcfg.studio.models import as_studio_models
from fcfg.support.hashing import digest_of_values
from fcfg.support.images import read_images
from fcfg.support.pictures import Pixels
from fcfg.support.volumes import Voxels
from fcfg.training import read_config
from fcfg.training.preflight import describe
from hostile import (
    Broken,
    Given,
    Outcome,
    as_json,
    check_line,
    mutated_bytes,
    mutated_rows,
    mutated_text,
    mutated_tree,
    mutated_words,
    outcome,
)
from local_hub import Hub, local_hub
from runs import MODELS, tiny

#: Words of commands; what stands behind ``|`` is kept.
COMMANDS = (
    "generate model a.png --do smiling=flip --sampling 1 --out out",
    "generate model pictures --do young=0,male=flip --attributes labels.csv --guidance"
    " cfg:2;anchor=true --sampling ddim+uniform+2 --out out --reverse --trust --seed 3",
    "generate model a.png --attributes smiling=0,male=1,young=1 --do smiling=1 --batch-size 8"
    " --sampling 1 --out out --shard 0/2 --device cpu",
    "models runs",
    "data check faces --out out --group hair",
    "data check faces --config faces.yaml --init first.yaml --out out",
    "data example shapes --count 3 --seed 1",
    "train tiny.yaml --set model.batch=4 --data faces | --dry-run",
    "train portraits --set judge.width=4 --set data.size=16 | --dry-run",
    "evaluate --list model",
    "evaluate model asked.yaml --images 4 --seed 2 --sampling 1 --show",
    "evaluate model default --images 2 --sampling 1 --out out --no-report",
    "calibrate model --images 4 --weights 1,2 --sampling 1 --out out | --batch-size x",
    "diagnose model --images 4 --noised 2 --out out | --device x",
    "report results.jsonl results.jsonl --out out | --unfinished",
    "bench --steps 1 | --device x",
    "studio model --port 0 --host localhost --no-open | --device x",
    "--version",
)


def _as_yaml(tree: Any) -> bytes:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        return yaml.dump(tree, Dumper=dumper, sort_keys=False).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, UnicodeEncodeError):  # a lone surrogate
        return as_json(tree)


class Doors:
    """Each method is a door: it takes a hostile input, or refuses it."""

    def __init__(self, world: World) -> None:
        self.world, self.stack = world, ExitStack()

    def arguments(self, given: Given) -> Outcome:
        changing, _, kept = COMMANDS[given.base % len(COMMANDS)].partition("|")
        words = mutated_words(changing.replace("+", "\0").split(), given.parts)
        words = [word.replace("\0", " ") if "uniform" in word else word for word in words]
        said, told = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        words = [word.replace("\0", "+") for word in words] + kept.split()
        with redirect_stdout(said), redirect_stderr(told):
            code = main(words)
        told.seek(0)
        lines = [line for line in told.read().splitlines() if "warning: " not in line]
        if code == 2 and len(lines) == 1:
            check_line(lines[0])
            return "refused"
        if code == 130:
            return "stopped"
        if code == 0 or (code == 1 and words[:1] == ["data"]):
            return "accepted"
        raise Broken(f"exit code {code}: {lines[:5]} by {words}")

    def configurations(self, given: Given) -> None:
        kinds = [*MODELS, "folder"]
        kind = kinds[given.base % len(kinds)]
        values = _training(kind, self.world.desk / "faces")
        data = mutated_bytes(_as_yaml(mutated_tree(values, given.parts)), given.raw)
        config = read_config(str(self.world.file("x.yaml", data)))
        if kind != "folder" and given.base % 128 == 0:
            describe(config)

    def experiments(self, given: Given) -> None:
        data = mutated_bytes(_as_yaml(mutated_tree(_experiment(), given.parts)), given.raw)
        path = self.world.file("asked.yaml", data)
        find_experiment(str(path), model=self.world.model).plans(self.world.model)

    def tables(self, given: Given) -> None:
        folder = self.world.desk / "faces"
        own = [line.split(",") for line in (folder / "metadata.csv").read_text().splitlines()]
        separators = (*",,,,,,", ";", "\t", "|")
        data = as_csv(mutated_rows(own, given.parts), separators[given.base % len(separators)])
        if given.base % 11 == 10:
            data = data.decode("utf-8", "replace").encode("utf-16")
        data = mutated_bytes(data, given.raw)
        if given.base % 2:
            packed = given.base % 4 == 1
            path = self.world.file("x.csv", mutated_bytes(data, given.raw))
            files = [Path(f"{number}.png") for number in range(4)]
            find_attributes(path, SPACE, files, None)
            if packed:
                self.world.file("x.csv.gz", mutated_bytes(gzip.compress(data), given.raw))
            return
        other = self.world.spare / "faces"
        if not other.exists():
            shutil.copytree(folder, other)
        (other / "metadata.csv").write_bytes(data)
        for fault in check_folder(other).findings:
            if "\n" in fault.what:
                raise Broken(fault.what)

    def pictures(self, given: Given) -> None:
        name, data = pictures()[given.base % len(pictures())]
        changed = given.raw + given.parts  # of bytes alone
        path = self.world.file(name, mutated_bytes(data, changed))
        if given.base % 3:
            read_files([path], Pixels(8, 3, "minmax" if given.base % 2 else "full"))
        else:
            read_images([path], channels=3)

    def volumes(self, given: Given) -> None:
        data, name = volume(given.base % 4), "x.nii.gz" if given.base % 3 == 0 else "x.nii"
        data = mutated_bytes(data, given.parts)
        if name == "x.nii.gz":
            data = mutated_bytes(gzip.compress(data, 1), given.raw)
        read_files([self.world.file(name, data)], Voxels(1, 2))

    def folders(self, given: Given) -> None:
        """A copy of the model with one other file, whose digest is right in half of the cases."""
        folder, model = self.world.spare / "model", self.world.desk / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(model, folder)
        (folder / "words.json").write_text('{"smiling": ["calm", "smiling"]}')
        (folder / "phrases.json").write_text('{"smiling": ["calm?", "smiling?"]}')
        picture = "data:image/png;base64,AAAA"
        opening = {"weights": "x", "asked": {"do": {"smiling": 1}}, "image": picture}
        (folder / "opening.json").write_bytes(as_json(opening))
        files = sorted(folder.glob("*"))
        files += [folder / "config.json"] * len(files)
        path, sealed = files[given.base % len(files)], given.base % 128 < 96
        data = path.read_bytes()
        if path.suffix == ".json":
            values = mutated_tree(json.loads(data), given.parts)
            if sealed and isinstance(values, dict) and "digest" in values:
                values.pop("digest")
                values["digest"] = _digest_of(values)
            path.write_bytes(mutated_bytes(as_json(values), given.raw))
        else:
            data = mutated_bytes(_reheaded(data, given), given.raw)
            path.unlink()
            part = path.name.partition("-")[0]
            name = f"{part}-{digest(data)}.safetensors" if sealed else path.name
            (folder / name).write_bytes(data)
            values = json.loads((folder / "config.json").read_bytes())
            values["files"][part] = name
            values.pop("digest")
            (folder / "config.json").write_bytes(as_json(values))
        found = fcfg.load(folder)
        as_studio_models([("x", found)])[0].describe()

    def results(self, given: Given) -> None:
        lines = (self.world.desk / "results.jsonl").read_bytes().splitlines()
        row = (0, given.base % len(lines))[given.base // 64 % 2]
        values = json.loads(lines[row])
        values.pop("check", None)
        if given.base % 5 == 0:
            lines.insert(row, lines[given.base // 7 % len(lines)])
        lines[row] = as_json(mutated_tree(values, given.parts))
        data = b"\n".join(lines) + b"\n"
        if given.base % 2:
            data, name = mutated_bytes(gzip.compress(data, 1), given.raw), "x.jsonl.gz"
        else:
            data, name = mutated_bytes(data, given.raw), "x.jsonl"
        path = self.world.file(name, data)
        summarise(read_results(path), resamples=2)
        if given.base % 8 < 2:
            with redirect_stdout(io.StringIO()):
                print_numbers(compare(path, resamples=2))

    @cached_property
    def _studio(self) -> AskedStudio:
        return self.stack.enter_context(AskedStudio.of(self.world.model))

    def studio(self, given: Given) -> Outcome:
        return self._studio.meets(given)

    @cached_property
    def _hub(self) -> Hub:
        hub = self.stack.enter_context(local_hub())
        files = {p.name: p.read_bytes() for p in (self.world.desk / "model").iterdir()}
        hub.commit("me/tiny", "main", files)
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("HF_ENDPOINT", hub.address)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(self.world.spare / "cache"))
        patch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_PROGRESS_BARS", True)
        return hub

    def hub(self, given: Given) -> None:
        shutil.rmtree(self.world.spare / "cache", ignore_errors=True)
        number = [0]

        def distort(status: int, headers: dict[str, str], data: bytes) -> Any:
            number[0] += 1
            if number[0] != 1 + given.base % 14:
                return status, headers, data
            if data.startswith((b"{", b"[")):
                data = as_json(mutated_tree(json.loads(data), given.parts))
            else:
                headers = {
                    k: _header(mutated_text(v, m))
                    for (k, v), m in zip(headers.items(), given.parts, strict=False)
                } or headers
            if given.base % 64 > 50:
                status = (301, 401, 403, 404, 416, 429, 500, 503, 204)[given.base // 64 % 9]
            return status, headers, mutated_bytes(data, given.raw)

        self._hub.distort = distort
        before = {*self.world.spare.iterdir()}
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("time.sleep", lambda _: None)  # between the tries of its client
                fcfg.load("hf://me/tiny")
        finally:
            if new := {*self.world.spare.iterdir()} - before - {self.world.spare / "cache"}:
                raise Broken(f"written outside of the cache: {new}")


@cache
def _training(kind: str, folder: Path) -> Any:
    """A training configuration."""
    values = tiny("diffusion" if kind == "folder" else kind).model_dump(mode="json")
    if kind == "folder":
        values["data"] = {"format": "folder", "path": str(folder)}
        values["data"] |= {"size": 8, "missing": ["?"], "group": "hair"}
        values["attributes"] = SPACE.to_config()
        values["graph"] = {"smiling": [], "hair": ["age"], "age": []}
    return values


@cache
def _experiment() -> Any:
    return asked(also={"smiling": ["cfg:2"]}, balance=("male",)).model_dump(mode="json")


def _header(text: str) -> str:
    return "".join(letter for letter in text if " " <= letter <= "~")[:5000]


def _digest_of(values: Mapping[str, Any]) -> str:
    try:
        return digest_of_values(dict(values))
    except (ValueError, TypeError):
        return "none"


def _reheaded(data: bytes, given: Given) -> bytes:
    """Weights with another header, in half of the cases, and with other numbers otherwise."""
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    if given.base % 2:
        return data[: 8 + length] + mutated_bytes(rest, given.parts)
    head = as_json(mutated_tree(header, given.parts))
    return len(head).to_bytes(8, "little") + head + rest


#: Doors, with the number of inputs of each in the tests, and among 100,000.
DOORS = {
    "arguments": (50, 2_000),
    "configurations": (50, 3_000),
    "experiments": (50, 3_000),
    "tables": (70, 28_000),
    "pictures": (80, 32_000),
    "volumes": (50, 14_000),
    "folders": (30, 1_500),
    "results": (50, 3_000),
    "studio": (60, 13_200),
    "hub": (20, 300),
}


@contextmanager
def open_doors(root: Path) -> Generator[Callable[[str, Given], Outcome]]:
    """A function that tries an input of a door, and tells what becomes of it."""
    world, before = World(root), Path.cwd()
    doors, treasure, numbers = Doors(world), world.treasure, count()
    with doors.stack, pytest.MonkeyPatch.context() as patch:
        for name in ("HF_ENDPOINT", "FCFG_WEIGHTS"):
            patch.setenv(name, "http://127.0.0.1:9")
        patch.setenv("XDG_CACHE_HOME", str(world.spare / "caches"))
        os.chdir(world.desk)
        try:

            def meet(door: str, given: Given) -> Outcome:
                try:
                    return outcome(lambda: getattr(doors, door)(given))
                finally:
                    if door == "arguments" or next(numbers) % 50 == 0:
                        treasure.check()

            yield meet
            treasure.check()
        finally:
            os.chdir(before)
