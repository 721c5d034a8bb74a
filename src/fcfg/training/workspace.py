"""The folder of a run, and the model that is assembled from its parts.

``OUT`` is the folder of a model, as :func:`fcfg.save` writes it. ``OUT/training`` holds the
configuration, the log, sheets of counterfactuals and the checkpoints of each part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from fcfg.causal.scm import StructuralCausalModel
from fcfg.datasets.base import Splits
from fcfg.hvae import HVAE, HVAEModel
from fcfg.judge import AttributeJudge
from fcfg.model import AnyModel
from fcfg.pipeline.checkpoint import replaced_files, save
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.config_files import parse_json, read_text, read_yaml, to_yaml
from fcfg.support.errors import InputError, quoted
from fcfg.support.files import remove_unfinished, write_atomically
from fcfg.training.config import Part, TrainingConfig
from fcfg.training.models import new_denoiser, new_judge, new_vae
from fcfg.training.sections import Publish
from fcfg.training.state import Checkpoints, under_prefix

# Keys that may change when a run is resumed: its length, its behaviour, the place of its data.
_MAY_CHANGE = {
    *("name", "promise", "run", "data.path", "data.cache"),
    *(f"diffusion.{key}" for key in ("steps", "epochs", "publish", "accumulate")),
    *(f"{part}.{key}" for part in ("judge", "hvae", "finetuning") for key in ("steps", "publish")),
}
_ADDED = {"diffusion.independence": 0.0}  # by later releases: what older runs were trained with
_CHANGES = {  # by part of the digest
    "split": "other images in its splits, or another order",
    "labels": "other labels",
    "images": "images with other pixels",
}
_ROWS = 4096  # images to hash at a time


class Workspace:
    """The files of a run.

    Args:
        out: Pipeline folder.
        config: Configuration of the run.
    """

    def __init__(self, out: Path, config: TrainingConfig) -> None:
        self.out = out
        self.config = config
        self.folder = out / "training"
        self.log = self.folder / "log.jsonl"

    def checkpoints(self, part: str) -> Checkpoints:
        """Return the checkpoints of a part."""
        return Checkpoints(self.folder / "state" / part, self.config.run.keep)

    def prepare(self) -> None:
        """Make the folder; refuse one in which the pipeline cannot be saved."""
        replaced_files(self.out)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out {self.out}",
                expected="a folder that can be written",
                got=error.strerror,
                do="choose another",
            ) from error

    def claim(self) -> None:
        """Write the configuration, or refuse to resume with a different one."""
        path = self.folder / "config.yaml"
        now = _flat(self.config.model_dump(mode="json"))
        if path.exists():
            subject, expected = f"run {self.out}, {path.name}", "the configuration it began with"
            stored = read_yaml(path, subject, expected=expected, do="choose another --out")
            before = {key: value for key, value in _ADDED.items() if key in now} | _flat(stored)
            different = sorted(
                key
                for key in before.keys() | now.keys()
                if before.get(key) != now.get(key) and not {key, key.split(".")[0]} & _MAY_CHANGE
            )
            if different:
                key = different[0]
                raise InputError(
                    f"run {self.out}",
                    expected=f"the configuration it began with ({key}: {before.get(key)})",
                    got=f"others in {quoted(different)} ({key}: {now.get(key)})",
                    do="choose another --out, or go back to the old values",
                )
        for part in self.config.parts[1:]:
            key, done = f"{part}.steps", max(self.checkpoints(part).steps(), default=0)
            if (now.get(key) or done) < done:
                raise InputError(
                    f"run {self.out}",
                    expected=f"{key} of {done:,} or more, which are done",
                    got=now[key],
                    do="choose another --out for a shorter training",
                )
        for folder in (self.out, self.folder, *filter(Path.is_dir, self.folder.rglob("*"))):
            remove_unfinished(folder)  # a kill may have left a checkpoint half written
        write_atomically(path, to_yaml(self.config).encode())

    def check_data(self, digests: dict[str, str]) -> bool:
        """Write the digests of the data, or refuse to resume with different data.

        Args:
            digests: Result of :func:`digest_data`.

        Returns:
            False if the run was begun by an older release, which wrote no digests.
        """
        path = self.folder / "data.json"
        begun = any(self.checkpoints(part).steps() for part in get_args(Part))
        known = path.exists()
        if begun and known:
            subject, do = f"run {self.out}, {path.name}", "delete it, if the data are the same"
            before = parse_json(read_text(path, subject, expected="digests"), subject, do=do)
            changed = [
                text for part, text in _CHANGES.items() if before.get(part) != digests[part]
            ]
            if changed:
                raise InputError(
                    f"run {self.out}",
                    expected="the data it began with",
                    got=changed[0],
                    do="choose another --out, or go back to the old data",
                )
        write_atomically(path, json.dumps(digests, indent=1).encode())
        return known or not begun

    def publish(self, steps: dict[str, int]) -> None:
        """Save the model from the latest checkpoints, once its networks have one.

        Args:
            steps: Total number of steps of each part.
        """
        if self._image_part is None:
            return
        model = self.model()
        reached = {part: max(self.checkpoints(part).steps(), default=0) for part in steps}
        training = self.config.model_dump(mode="json", exclude_none=True)
        data: dict[str, Any] = training["data"]
        if "path" in data:  # full paths stay in config.yaml, which is not published
            data["path"] = Path(data["path"]).name
        data.pop("cache", None)
        model.provenance = {
            "training": training,
            "steps": {
                part: f"{done} of {max(done, steps[part])}" for part, done in reached.items()
            },
            "torch": torch.__version__,
        }
        save(model, self.out)

    @property
    def _image_part(self) -> str | None:
        """The last part of the image model that has a checkpoint."""
        trained = [part for part in self.config.parts[2:] if self.checkpoints(part).steps()]
        return trained[-1] if trained else None

    def model(self) -> AnyModel:
        """Assemble the model from checkpoints; an untrained part is new or missing."""
        scm, judge = self.scm(), self.judge()
        if self.config.hvae is not None:
            return HVAEModel(self.vae().eval(), scm, judge=judge)
        denoiser = new_denoiser(self.config)
        tensors = self._published("diffusion", self.config.diffusion.publish)
        if tensors is not None:
            denoiser.load_state_dict(tensors)
        return CounterfactualPipeline(denoiser, scm, judge=judge)

    def vae(self, *, tuned: bool = True) -> HVAE:
        """Return the hierarchical VAE; a new one, if it has no checkpoint.

        Args:
            tuned: Whether to return the fine-tuned one, if there is one.
        """
        network, settings = new_vae(self.config), self.config.finetuning
        if tuned and settings is not None and self._image_part == "finetuning":
            tensors = self._published("finetuning", settings.publish)
            tensors = None if tensors is None else under_prefix("network", tensors)
        else:
            assert self.config.hvae is not None
            tensors = self._published("hvae", self.config.hvae.publish)
        if tensors is not None:
            network.load_state_dict(tensors)
        return network

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
        tensors = self._published("judge", self.config.judge.publish)
        if tensors is None:
            return None
        path = self.checkpoints("judge").folder / "factors.json"
        text = read_text(path, f"run {self.out}, {path.name}", expected="factors of the judge")
        factors = parse_json(text, f"run {self.out}, {path.name}", do="train the judge again")
        judge = new_judge(self.config, {name: (m, sd) for name, (m, sd) in factors.items()})
        judge.load_state_dict(tensors)
        return judge.eval()

    def keep_factors(self, scales: dict[str, tuple[float, float]]) -> None:
        """Write the mean and standard deviation of each factor of the judge."""
        folder = self.checkpoints("judge").folder
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "factors.json", json.dumps(scales).encode())

    def _published(self, part: str, which: Publish) -> dict[str, Tensor] | None:
        checkpoints = self.checkpoints(part)
        latest = checkpoints.latest()
        if latest is None:
            return None
        if which == "best" and latest.facts["best"] is not None:
            latest = checkpoints.read(int(latest.facts["best"]["step"]))
        average = under_prefix("average", latest.tensors)
        return average or under_prefix("weights", latest.tensors)


def digest_data(splits: Splits, on_progress: Callable[[int, int], None]) -> dict[str, str]:
    """Return digests of the names, labels and pixels used for training and validation.

    They do not depend on the place or the age of the files.

    Args:
        splits: Images and labels as loaded.
        on_progress: Callback with the number of images that are done, and of all.
    """
    used = {split: splits[split] for split in ("train", "val")}
    parts = {part: hashlib.blake2b(digest_size=16) for part in _CHANGES}
    done, total = 0, sum(map(len, used.values()))
    for split, examples in used.items():
        parts["split"].update(json.dumps([split, examples.names]).encode())
        for name, column in examples.attributes.items():
            parts["labels"].update(json.dumps([split, name, str(column.dtype)]).encode())
            parts["labels"].update(np.ascontiguousarray(column).data)
        parts["images"].update(json.dumps([split, examples.images.shape]).encode())
        for start in range(0, len(examples), _ROWS):
            rows = examples.images[start : start + _ROWS]
            parts["images"].update(np.ascontiguousarray(rows).data)
            done += len(rows)
            on_progress(done, total)
    return {part: digest.hexdigest() for part, digest in parts.items()}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested keys to a.b, without keys whose value is None."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and prefix.count(".") < 1:
            flat |= _flat(value, f"{name}.")
        elif value is not None:
            flat[name] = value
    return flat
