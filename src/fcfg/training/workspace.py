"""The folder of a run, and the pipeline that is made of its parts.

``OUT`` itself is a pipeline folder, as :func:`fcfg.save` writes it. Beside it lies
``OUT/training`` with the configuration, the log, sheets of counterfactuals and the states from
which each part goes on.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from fcfg.causal.scm import StructuralCausalModel
from fcfg.diffusion.denoiser import Denoiser
from fcfg.diffusion.embedder import AttributeEmbedder
from fcfg.diffusion.networks import Judge, UNet
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.judge import AttributeJudge
from fcfg.pipeline.checkpoint import replaced_files, save
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.config_files import parse_json, read_text, read_yaml
from fcfg.support.errors import InputError, quoted
from fcfg.support.files import remove_unfinished, write_atomically
from fcfg.training.config import Part, Publish, TrainingConfig
from fcfg.training.settings import to_yaml
from fcfg.training.state import Checkpoints, under_prefix

# What may differ when a run goes on: how long, how it behaves, where the data lie.
_MAY_CHANGE = {
    *("name", "promise", "run", "data.path", "data.cache", "judge.steps", "judge.publish"),
    *(f"diffusion.{key}" for key in ("steps", "epochs", "publish", "accumulate")),
}
_OTHER = {
    "split": "other images in its splits, or another order",
    "labels": "other labels",
    "images": "images with other pixels",
}


class Workspace:
    """Where everything of a run lies.

    Args:
        out: The pipeline folder.
        config: Of the run.
    """

    def __init__(self, out: Path, config: TrainingConfig) -> None:
        self.out = out
        self.config = config
        self.folder = out / "training"

    @property
    def log(self) -> Path:
        """One line of JSON for every event."""
        return self.folder / "log.jsonl"

    @property
    def board(self) -> Path | None:
        """Where TensorBoard looks, where it is wanted."""
        return self.folder / "tensorboard" if self.config.run.tensorboard else None

    def sheet(self, step: int) -> Path:
        """Picture of what a step can do."""
        return self.folder / "sheets" / f"step-{step:09d}.png"

    def checkpoints(self, part: str) -> Checkpoints:
        """States of a part."""
        return Checkpoints(self.folder / "state" / part, self.config.run.keep)

    def prepare(self) -> None:
        """Make the folder, or refuse one in which the pipeline could not be saved."""
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
        """Write the configuration down, or refuse to go on with another one."""
        path = self.folder / "config.yaml"
        now = _flat(self.config.model_dump(mode="json"))
        if path.exists():
            subject, expected = f"run {self.out}, {path.name}", "the configuration it began with"
            written = read_yaml(path, subject, expected=expected, do="choose another --out")
            before = _flat(written)
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
        for folder in (self.out, self.folder, *filter(Path.is_dir, self.folder.rglob("*"))):
            remove_unfinished(folder)  # else a checkpoint's worth may stay for every kill
        write_atomically(path, to_yaml(self.config).encode())

    def check_data(self, digests: dict[str, str]) -> bool:
        """Refuse to go on with other data than the parts have learned from; write theirs down.

        Args:
            digests: Digests of the data, see :func:`fcfg.training.data_digest.digest_data`.

        Returns:
            False where parts have learned from data that nothing is known of, as older releases
            left them.
        """
        path = self.folder / "data.json"
        begun = any(self.checkpoints(part).steps() for part in get_args(Part))
        known = path.exists()
        if begun and known:
            subject, do = f"run {self.out}, {path.name}", "delete it, if the data are the same"
            before = parse_json(read_text(path, subject, expected="digests"), subject, do=do)
            changed = [what for part, what in _OTHER.items() if before.get(part) != digests[part]]
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
        """Save the pipeline of what the parts have reached, once the denoiser has begun.

        Args:
            steps: How many each part is to take.
        """
        if not self.checkpoints("diffusion").steps():
            return
        pipeline = self.pipeline()
        reached = {part: max(self.checkpoints(part).steps(), default=0) for part in steps}
        training = self.config.model_dump(mode="json", exclude_none=True)
        data: dict[str, Any] = training["data"]
        if "path" in data:  # where it lay is for config.yaml alone, which is not handed on
            data["path"] = Path(data["path"]).name
        data.pop("cache", None)
        pipeline.provenance = {
            "training": training,
            "steps": {
                part: f"{done} of {max(done, steps[part])}" for part, done in reached.items()
            },
            "torch": torch.__version__,
        }
        save(pipeline, self.out)

    def pipeline(self) -> CounterfactualPipeline:
        """The parts as they were last written; a part that was not trained is new, or missing."""
        denoiser = new_denoiser(self.config)
        tensors = self._published("diffusion", self.config.diffusion.publish)
        if tensors is not None:
            denoiser.load_state_dict(tensors)
        return CounterfactualPipeline(denoiser, self.scm(), judge=self.judge())

    def scm(self) -> StructuralCausalModel:
        """The causal model, fitted where that was done."""
        scm = StructuralCausalModel(self.config.space, self.config.causal_graph)
        checkpoint = self.checkpoints("scm").latest()
        if checkpoint is not None:
            for node, parents in checkpoint.facts["mechanisms"].items():
                scm.add_mechanism(node, parents)
            scm.load_state_dict(checkpoint.tensors)
        return scm.requires_grad_(False)

    def judge(self) -> AttributeJudge | None:
        """The judge, where there is one."""
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
        """Write down how the judge's factors are scaled."""
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


def new_denoiser(config: TrainingConfig, *, channels_last: bool = False) -> Denoiser:
    """A denoiser with new weights, the same for the same seed."""
    space, schedule, network = config.space, config.schedule, config.network
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return Denoiser(
            UNet(
                config.unet,
                gradient_checkpointing=network.gradient_checkpointing,
                channels_last=channels_last,
            ),
            AttributeEmbedder(space, network.embedding),
            NoiseSchedule(schedule.kind, schedule.steps),
            parameterisation=schedule.parameterisation,
        )


def new_judge(config: TrainingConfig, scales: dict[str, tuple[float, float]]) -> AttributeJudge:
    """A judge with new weights, the same for the same seed."""
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return AttributeJudge(Judge(config.judge_network(len(scales))), config.space, scales)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys as a.b; keys without a value are left out, as they are in files."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and prefix.count(".") < 1:
            flat |= _flat(value, f"{name}.")
        elif value is not None:
            flat[name] = value
    return flat
