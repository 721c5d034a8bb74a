"""The training configuration: read from YAML and ``--set``, validated, frozen.

:func:`read_config` turns a preset or a file into a :class:`TrainingConfig`. Defaults are those of
the paper (App. D) wherever it states one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import check_graph
from fcfg.datasets.registry import DataConfig
from fcfg.diffusion.networks import JudgeConfig, UNetConfig
from fcfg.diffusion.schedule import Kind, NoiseSchedule, Parameterisation
from fcfg.support.config_errors import validate
from fcfg.support.config_files import looks_like_a_file, parse_yaml, parse_yaml_value, read_yaml
from fcfg.support.errors import InputError, check_integer, nearest, short
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.names import check_folder_name
from fcfg.training.state import LAST_STEP

Part = Literal["all", "scm", "judge", "diffusion"]
Publish = Literal["last", "best"]
Decay = Literal["constant", "cosine"]
Steps = Annotated[PositiveInt, Field(le=LAST_STEP)]
BatchSize = Annotated[PositiveInt, Field(le=10**6)]

_PRESETS = resources.files("fcfg.training") / "presets"


class Section(BaseModel):
    """Base of all sections: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Network(Section):
    """The U-Net; image size, channels and condition width follow from the data."""

    base: PositiveInt = 32  #: channels of the first level
    multipliers: tuple[PositiveInt, ...] = (1, 2, 4)  #: factors of the base, one per level
    attention: tuple[int, ...] = ()  #: image sizes with attention; the middle always has it
    blocks: PositiveInt = 2  #: residual blocks per level
    dropout: float = Field(default=0.0, ge=0, lt=1)  #: inside residual blocks
    head_channels: PositiveInt = 64  #: channels of an attention head
    embedding: PositiveInt = 32  #: condition width per attribute
    gradient_checkpointing: bool = False  #: saves memory, costs about a third more time


class Schedule(Section):
    """The noise schedule, and what the network predicts."""

    kind: Kind = "linear"
    steps: PositiveInt = 1000  #: T
    parameterisation: Parameterisation = "noise"


class Diffusion(Section):
    """Training of the denoiser; set either ``steps`` or ``epochs``."""

    batch: BatchSize = 128  #: images per step, over all processes
    steps: Steps | None = None
    epochs: Steps | None = None
    learning_rate: PositiveFloat = 1e-4
    weight_decay: float = Field(default=1e-4, ge=0)
    warmup: NonNegativeInt = 0  #: steps of linear learning-rate warm-up
    decay: Decay = "constant"  #: learning-rate schedule after the warm-up
    clip: PositiveFloat | None = None  #: largest gradient norm
    ema: float = Field(default=0.9999, ge=0, lt=1)  #: decay of the moving average of weights
    p_null: float = Field(default=0.5, ge=0, le=1)  #: probability of dropping the whole condition
    p_group: float = Field(default=0.0, ge=0, le=1)  #: and each attribute; not in the paper
    independence: float = Field(default=0.0, ge=0)  #: weight of groups adding up; from CoInD
    accumulate: PositiveInt = 1  #: gradient accumulation steps, to save memory
    publish: Publish = "last"  #: weights to publish; 'best' has the lowest validation loss

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("exactly one of 'steps' and 'epochs' must be given")
        return self


class JudgeTraining(Section):
    """Training of the judge: AdamW with warm-up and cosine decay."""

    decay: ClassVar[Decay] = "cosine"
    clip: ClassVar[float | None] = None
    ema: ClassVar[float | None] = None
    accumulate: ClassVar[int] = 1

    width: PositiveInt = 64  #: channels of the first stage; 64 is ResNet-18
    batch: BatchSize = 128
    steps: Steps = 5000
    learning_rate: PositiveFloat = 1e-3
    weight_decay: float = Field(default=0.05, ge=0)
    warmup: NonNegativeInt = 100
    publish: Publish = "best"


class ScmTraining(Section):
    """Training of the mechanisms of attributes that have parents."""

    steps: PositiveInt = Field(default=1000, le=10**6)  #: per mechanism
    batch: BatchSize = 4096
    learning_rate: PositiveFloat = 1e-2


class Run(Section):
    """Settings that do not change the result of the training."""

    device: Literal["auto", "cpu"] = "auto"
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: auto: bf16 autocast on a GPU
    compile: bool | None = None  #: torch.compile; by default on a GPU
    cuda_graphs: bool = True  #: with compile, for one process on one GPU
    checkpoint_steps: PositiveInt = 1000  #: largest number of steps between checkpoints
    checkpoint_minutes: PositiveFloat = 5.0  #: largest number of minutes between them
    keep: PositiveInt = 2  #: number of latest checkpoints to keep
    log_steps: PositiveInt = 20  #: steps between two lines of the log
    validations: PositiveInt = 20  #: number of validations
    validation_images: PositiveInt = 1024  #: largest number of images per validation
    sheets: NonNegativeInt = 4  #: number of sheets of counterfactuals
    tensorboard: bool = False


class Promise(Section):
    """The purpose of a preset."""

    source: str  #: origin of its values
    images: PositiveInt | None = None  #: number of training images it was made for
    expect: str  #: expected result and duration


class TrainingConfig(Section):
    """The whole configuration of ``fcfg train``."""

    name: str  #: also the default folder in runs/
    promise: Promise | None = None
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    data: DataConfig
    attributes: dict[str, dict[str, Any]]  #: name to kind, as in AttributeSpace.from_config
    graph: dict[str, tuple[str, ...]]  #: name to parents
    network: Network = Network()
    schedule: Schedule = Schedule()
    diffusion: Diffusion = Diffusion(steps=20_000)
    judge: JudgeTraining = JudgeTraining(width=24)
    scm: ScmTraining = ScmTraining()
    run: Run = Run()

    _check_name = field_validator("name")(check_folder_name)

    @field_validator("graph", mode="before")
    @classmethod
    def _empty_means_no_parents(cls, graph: object) -> object:
        """Read ``age:`` with nothing after it as no parents."""
        if not isinstance(graph, Mapping):
            return graph
        return {node: () if parents is None else parents for node, parents in graph.items()}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Derive the objects of the run; each of them checks the values it is made of."""
        check_graph(self.space, self.causal_graph)
        for derived in ("noise_schedule", "unet", "judge_network"):
            getattr(self, derived)
        if self.diffusion.batch % self.diffusion.accumulate:
            raise ValueError("diffusion.batch must be divisible by diffusion.accumulate")
        if self.diffusion.independence and len(self.attributes) == 1:
            raise ValueError("diffusion.independence must be 0 for a single attribute")
        return self

    @cached_property
    def space(self) -> AttributeSpace:
        """The attributes."""
        return AttributeSpace.from_config(self.attributes)

    @cached_property
    def causal_graph(self) -> CausalGraph:
        """The graph over the attributes."""
        return CausalGraph(self.graph)

    @cached_property
    def noise_schedule(self) -> NoiseSchedule:
        """The noise schedule."""
        return NoiseSchedule(self.schedule.kind, self.schedule.steps)

    @cached_property
    def unet(self) -> UNetConfig:
        """The shape of the U-Net."""
        shape = self.network.model_dump(exclude={"embedding", "gradient_checkpointing"})
        shape |= {"channels": self.data.channels, "size": self.data.size}
        shape |= {"condition": len(self.attributes) * self.network.embedding}
        return validate(UNetConfig, shape, "network")

    @cached_property
    def judge_network(self) -> JudgeConfig:
        """The shape of the judge, without outputs for factors."""
        shape = {"channels": self.data.channels, "width": self.judge.width}
        return validate(JudgeConfig, shape | {"outputs": sum(self.space.widths)}, "judge")

    def diffusion_steps(self, images: int) -> int:
        """Return the number of steps of the denoiser for a number of training images."""
        diffusion = self.diffusion
        if diffusion.steps is not None:
            return diffusion.steps
        assert diffusion.epochs is not None
        steps = diffusion.epochs * images // diffusion.batch
        return check_integer("diffusion.epochs, steps", max(1, steps), 1, LAST_STEP, do="lower it")

    def with_data(self, path: Path) -> TrainingConfig:
        """Return the same configuration for data in another folder."""
        if "path" not in type(self.data).model_fields:
            raise InputError(
                "--data",
                expected=f"none, since '{self.data.format}' is drawn",
                got=path,
                do="leave it out",
            )
        return self.model_copy(update={"data": self.data.model_copy(update={"path": path})})


def presets() -> tuple[str, ...]:
    """Return the names of the configurations in the package."""
    names = (entry.name for entry in _PRESETS.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def read_config(
    source: str, overrides: Sequence[str] = (), *, data: Path | None = None
) -> TrainingConfig:
    """Read a configuration.

    >>> read_config("portraits", ["diffusion.batch=64"]).diffusion.batch
    64

    Args:
        source: Name of a preset, or path of a YAML file. Relative paths in a file start at its
            folder.
        overrides: Changes of the form ``a.b=c``, with values in YAML.
        data: Folder of the data, instead of ``data.path``.
    """
    values, base = _read_values(source)
    values.setdefault("name", Path(source).stem)
    for override in overrides:
        _override(values, override)
    section = values.get("data")
    if isinstance(section, dict):
        for key in ("path", "cache"):
            if isinstance(section.get(key), str):
                section[key] = str(base / Path(section[key]).expanduser())
    config = validate(TrainingConfig, values, f"configuration {source}")
    return config if data is None else config.with_data(data.absolute())


def _read_values(source: str) -> tuple[dict[str, Any], Path]:
    """Return the values of a preset or a file, and the folder at which its paths start."""
    advice = "correct it; see the presets, or `fcfg data check DIR --init my.yaml`"
    subject, path = f"configuration '{source}'", Path(source)
    if source in presets():
        text = (_PRESETS / f"{source}.yaml").read_text("utf-8")
        return parse_yaml(text, subject, do=advice), Path.cwd()
    expected = f"a preset ({', '.join(presets())}) or a YAML file"
    if not looks_like_a_file(source):
        do = nearest(source, presets())
        raise InputError(subject, expected=expected, got="neither", do=do)
    return read_yaml(path, subject, expected=expected, do=advice), path.absolute().parent


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    *sections, name = key.strip().split(".")
    if not equals or not all((*sections, name)):
        raise InputError(
            "--set", expected="key.key=value", got=repr(override), do="write diffusion.batch=64"
        )
    section: Any = values
    for parent in sections:
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            raise InputError(
                f"--set {key}",
                expected=f"'{parent}' to hold keys",
                got=short(section),
                do="shorten the key",
            )
    section[name] = parse_yaml_value(text, f"--set {key}", do="quote it")
    rival = {"steps": "epochs", "epochs": "steps"}.get(name)
    if sections == ["diffusion"] and rival:  # one of the two replaces the other
        section.pop(rival, None)
