"""The folder of a run, and the model that is assembled from its parts.

``OUT`` is the folder of a model, as :func:`fcfg.save` writes it. ``OUT/training`` holds the
configuration, the log, sheets of counterfactuals and the checkpoints of each part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fcfg.causal.scm import StructuralCausalModel
from fcfg.datasets.base import OnProgress, Splits
from fcfg.judge import AttributeJudge
from fcfg.model import AnyModel, save
from fcfg.storage import replaced_files
from fcfg.storage.kinds import find_kind
from fcfg.support.config_files import parse_json, read_text, to_yaml
from fcfg.support.errors import InputError
from fcfg.support.files import remove_unfinished, single_writer, write_atomically
from fcfg.support.outputs import check_same, make_folder
from fcfg.training.config import TrainingConfig, read_config
from fcfg.training.kinds import Scales
from fcfg.training.state import Checkpoints, under_prefix

_PARTS = ("splits", "labels", "pixels")  # of the data, with a digest each
_ROWS = 4096  # images to hash at a time


class Workspace:
    """The files of a run in the folder of its model."""

    def __init__(self, out: Path, config: TrainingConfig) -> None:
        self.out = out
        self.config = config
        self.folder = out / "training"
        self._new = [path for path in (self.folder, *self.folder.parents) if not path.exists()]

    def checkpoints(self, part: str) -> Checkpoints:
        """Return the checkpoints of a part."""
        return Checkpoints(self.folder / "state" / part, self.config.run.keep)

    def prepare(self) -> None:
        """Make the folder; refuse one in which the pipeline cannot be saved."""
        replaced_files(self.out)
        make_folder(self.folder)

    @contextmanager
    def owned(self) -> Generator[None]:
        """Lock the folder; remove what is new if the run is refused before a checkpoint."""
        with single_writer(self.folder):
            try:
                yield
            except InputError:
                if self._new and not self._is_begun:
                    rmtree(self.folder, ignore_errors=True)
                    with suppress(OSError):  # not empty
                        for path in self._new[1:]:
                            path.rmdir()
                raise

    def claim(self) -> None:
        """Write the configuration, or refuse to resume with a different one."""
        for name, part in self.config.networks.items():
            steps, done = part.settings.steps, max(self.checkpoints(name).steps(), default=0)
            if (steps or done) < done:
                raise InputError(
                    f"run {self.out}",
                    expected=f"{part.key}.steps of {done:,} or more, which are done",
                    got=steps,
                    do="choose another --out for a shorter training",
                )
        path = self.folder / "config.yaml"
        if path.exists():
            do = "choose another --out, or go back to the old values"
            before = read_config(str(path)).identity()
            check_same(f"run {self.out}", before, self.config.identity(), do=do)
        for folder in (self.out, self.folder, *filter(Path.is_dir, self.folder.rglob("*"))):
            remove_unfinished(folder)  # a kill may have left a checkpoint half written
        write_atomically(path, to_yaml(self.config).encode())

    def claim_data(self, splits: Splits, on_progress: OnProgress) -> None:
        """Write digests of the images and their labels, or refuse to resume with others."""
        path, digests = self.folder / "data.json", _digests(splits, on_progress)
        if path.exists() and self._is_begun:
            subject, do = f"run {self.out}, {path.name}", "delete it, if the data are the same"
            before = parse_json(read_text(path, subject, expected="digests"), subject, do=do)
            do = "choose another --out, or go back to the old data"
            check_same(f"run {self.out}", before, digests, do=do)
        write_atomically(path, json.dumps(digests, indent=1).encode())

    @property
    def _is_begun(self) -> bool:
        return any(self.checkpoints(part).steps() for part in self.config.parts)

    def publish(self, steps: dict[str, int]) -> None:
        """Save the model from the latest checkpoints, once its networks have one.

        The provenance names the total number of ``steps`` of each part.
        """
        if not any(self.checkpoints(part.name).steps() for part in self.config.model.parts):
            return
        model = self.model()
        reached = {part: max(self.checkpoints(part).steps(), default=0) for part in steps}
        training = self.config.model_dump(mode="json", exclude_none=True)
        data: dict[str, Any] = training["data"]
        if "path" in data:  # full paths stay in config.yaml, which is not published
            data["path"] = Path(data["path"]).name
        data.pop("cache", None)
        module = training["model"].get("codec", {"module": {}})["module"]
        if Path(module.get("source", "a name of the hub")).is_dir():
            module["source"] = Path(module["source"]).name
        model.provenance = {
            "training": training,
            "steps": {
                part: f"{done} of {max(done, steps[part])}" for part, done in reached.items()
            },
            "torch": torch.__version__,
        }
        save(model, self.out)

    def model(self) -> AnyModel:
        """Assemble the model from checkpoints; an untrained part is new or missing."""
        training = self.config.model
        network, weights = training.build(self.config.inputs), training.published(self.weights)
        if weights is not None:
            network.load_state_dict(weights)
        kind = find_kind(training.trains, "model, kind").model
        image_model = training.finished(network).eval()
        return kind(image_model, self.scm(), judge=self.judge())

    def scm(self) -> StructuralCausalModel:
        """Return the causal model, fitted if it has a checkpoint."""
        scm = StructuralCausalModel(self.config.space, self.config.causal_graph)
        checkpoint = self.checkpoints("scm").latest()
        if checkpoint is not None:
            for node, parents in checkpoint.facts["mechanisms"].items():
                scm.add_mechanism(node, parents)
            scm.load_state_dict(checkpoint.tensors)
        return scm.requires_grad_(False)

    def judge(self) -> AttributeJudge | None:
        """Return the judge, if it has a checkpoint."""
        tensors = self.weights("judge")
        if tensors is None:
            return None
        path = self.checkpoints("judge").folder / "factors.json"
        text = read_text(path, f"run {self.out}, {path.name}", expected="factors of the judge")
        factors = parse_json(text, f"run {self.out}, {path.name}", do="train the judge again")
        scales = {name: (mean, sd) for name, (mean, sd) in factors.items()}
        judge = self.config.judge.build(replace(self.config.inputs, factors=scales))
        judge.load_state_dict(tensors)
        return judge.eval()

    def keep_factors(self, scales: Scales) -> None:
        """Write the mean and standard deviation of each factor of the judge."""
        folder = self.checkpoints("judge").folder
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "factors.json", json.dumps(scales).encode())

    def weights(self, part: str) -> dict[str, Tensor] | None:
        """Return the weights to publish of a part, if it has a checkpoint."""
        checkpoints, which = self.checkpoints(part), self.config.networks[part].settings.publish
        latest = checkpoints.latest()
        if latest is None:
            return None
        if which == "best" and latest.facts["best"] is not None:
            latest = checkpoints.read(int(latest.facts["best"]["step"]))
        average = under_prefix("average", latest.tensors)
        return average or under_prefix("weights", latest.tensors)


def _digests(splits: Splits, on_progress: OnProgress) -> dict[str, str]:
    """Return digests of names, labels and pixels, whatever the place and age of their files."""
    used = {split: splits[split] for split in ("train", "val")}
    parts = {part: hashlib.blake2b(digest_size=16) for part in _PARTS}
    done, total = 0, sum(map(len, used.values()))
    for split, examples in used.items():
        parts["splits"].update(json.dumps([split, examples.names]).encode())
        for name, column in examples.attributes.items():
            parts["labels"].update(json.dumps([split, name, str(column.dtype)]).encode())
            parts["labels"].update(np.ascontiguousarray(column).data)
        parts["pixels"].update(json.dumps([split, examples.images.shape]).encode())
        for start in range(0, len(examples), _ROWS):
            rows = examples.images[start : start + _ROWS]
            parts["pixels"].update(np.ascontiguousarray(rows).data)
            done += len(rows)
            on_progress("hashing images", done, total)
    return {part: digest.hexdigest() for part, digest in parts.items()}
