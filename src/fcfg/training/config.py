"""What a training run is told: frozen, checked at the door, printed and kept beside the run.

The defaults of the sections are the paper's (App. D) wherever it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph
from fcfg.causal.scm import StructuralCausalModel
from fcfg.datasets.registry import DataConfig
from fcfg.diffusion.networks import JudgeConfig, UNetConfig
from fcfg.diffusion.schedule import Kind, NoiseSchedule, Parameterisation
from fcfg.support.config_errors import refusal
from fcfg.support.errors import InputError, check_integer
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.names import check_folder_name
from fcfg.training.state import LAST_STEP

Part = Literal["all", "scm", "judge", "diffusion"]
Publish = Literal["last", "best"]
Decay = Literal["constant", "cosine"]
Steps = Annotated[PositiveInt, Field(le=LAST_STEP)]
Rows = Annotated[PositiveInt, Field(le=10**6)]  # that are computed at once
Shape = TypeVar("Shape", UNetConfig, JudgeConfig)


class Section(BaseModel):
    """A part of the configuration: frozen, and nothing in it that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Network(Section):
    """The U-Net; image size, channels and the width of the condition follow from the data."""

    base: PositiveInt = 32  #: channels of the first level
    multipliers: tuple[PositiveInt, ...] = (1, 2, 4)  #: of the base, one for each level
    attention: tuple[int, ...] = ()  #: sizes with attention; the middle always has it
    blocks: PositiveInt = 2  #: residual blocks in each level
    dropout: float = Field(default=0.0, ge=0, lt=1)  #: inside residual blocks
    head_channels: PositiveInt = 64  #: of an attention head
    embedding: PositiveInt = 32  #: width of an attribute's block of the condition
    gradient_checkpointing: bool = False  #: less memory, about a third more time


class Schedule(Section):
    """Noise levels, and what the network predicts."""

    kind: Kind = "linear"
    steps: PositiveInt = 1000  #: T
    parameterisation: Parameterisation = "noise"


class Diffusion(Section):
    """How the denoiser is trained."""

    batch: Rows = 128  #: images in a step, over all processes
    steps: Steps | None = None  #: either this
    epochs: Steps | None = None  #: or this
    learning_rate: PositiveFloat = 1e-4
    weight_decay: float = Field(default=1e-4, ge=0)
    warmup: NonNegativeInt = 0  #: steps in which the learning rate rises from 0
    decay: Decay = "constant"  #: of the learning rate after the warm-up
    clip: PositiveFloat | None = None  #: norm of the gradient above which it is shortened
    ema: float = Field(default=0.9999, ge=0, lt=1)  #: decay of the moving average of weights
    p_null: float = Field(default=0.5, ge=0, le=1)  #: of dropping the whole condition
    p_group: float = Field(default=0.0, ge=0, le=1)  #: of dropping each attribute; not the paper's
    accumulate: PositiveInt = 1  #: parts of a batch, one after the other: less memory
    publish: Publish = "last"  #: which weights the pipeline gets; 'best' by validation loss

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("exactly one of 'steps' and 'epochs' must be given")
        return self


class JudgeTraining(Section):
    """How the judge is trained: AdamW, a warm-up, then a cosine decay."""

    width: PositiveInt = 64  #: channels of the first stage; 64 is ResNet-18
    batch: Rows = 128
    steps: Steps = 5000
    learning_rate: PositiveFloat = 1e-3
    weight_decay: float = Field(default=0.05, ge=0)
    warmup: NonNegativeInt = 100
    publish: Publish = "best"


class ScmTraining(Section):
    """How the mechanisms of attributes with parents are fitted."""

    steps: PositiveInt = Field(default=1000, le=10**6)  #: for each of them
    batch: Rows = 4096
    learning_rate: PositiveFloat = 1e-2


class Run(Section):
    """How a run behaves; nothing here changes what it converges to."""

    device: Literal["auto", "cpu"] = "auto"
    precision: Literal["auto", "float32", "bf16"] = "auto"  #: bf16 autocast where there is a GPU
    compile: bool | None = None  #: torch.compile; where there is a GPU by default
    cuda_graphs: bool = True  #: with it, where one process feeds one GPU
    checkpoint_steps: PositiveInt = 1000  #: a checkpoint at least every so many steps
    checkpoint_minutes: PositiveFloat = 5.0  #: and at least every so many minutes
    keep: PositiveInt = 2  #: of the last checkpoints
    log_steps: PositiveInt = 20  #: steps between two lines of the log
    validations: PositiveInt = 20  #: how often the validation loss is measured
    validation_images: PositiveInt = 1024  #: and on how many images at most
    sheets: NonNegativeInt = 4  #: how many sheets of counterfactuals show the training
    tensorboard: bool = False


class Promise(Section):
    """What a preset stands for."""

    source: str  #: where its values come from
    images: PositiveInt | None = None  #: training images it was made for
    expect: str  #: what comes out, and how long it takes


class TrainingConfig(Section):
    """Everything ``fcfg train`` needs to know."""

    name: str  #: and that of its folder in runs/
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

    _is_a_folder = field_validator("name")(check_folder_name)

    @field_validator("graph", mode="before")
    @classmethod
    def _empty_means_no_parents(cls, graph: object) -> object:
        """In YAML, ``age:`` with nothing after it has no parents."""
        if not isinstance(graph, Mapping):
            return graph
        return {node: () if parents is None else parents for node, parents in graph.items()}

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        StructuralCausalModel(self.space, self.causal_graph)  # both, and that they fit
        NoiseSchedule(self.schedule.kind, self.schedule.steps)
        self.unet  # noqa: B018  # its own checks
        self.judge_network(0)
        if self.diffusion.batch % self.diffusion.accumulate:
            raise ValueError("diffusion.batch must be divisible by diffusion.accumulate")
        return self

    @property
    def space(self) -> AttributeSpace:
        """The attributes."""
        return AttributeSpace.from_config(self.attributes)

    @property
    def causal_graph(self) -> CausalGraph:
        """The graph over them."""
        return CausalGraph(self.graph)

    @property
    def unet(self) -> UNetConfig:
        """The network as it will be built."""
        shape = self.network.model_dump(exclude={"embedding", "gradient_checkpointing"})
        condition = len(self.attributes) * self.network.embedding
        image = {"channels": self.data.channels, "size": self.data.size}
        return _shape("network", UNetConfig, image | {"condition": condition} | shape)

    def judge_network(self, factors: int) -> JudgeConfig:
        """The judge as it will be built, with a number of factors beside the attributes."""
        outputs, width = sum(self.space.widths) + factors, self.judge.width
        shape = {"channels": self.data.channels, "outputs": outputs, "width": width}
        return _shape("judge", JudgeConfig, shape)

    def diffusion_steps(self, images: int) -> int:
        """Steps of the denoiser's training on so many images."""
        diffusion = self.diffusion
        if diffusion.steps is not None:
            return diffusion.steps
        assert diffusion.epochs is not None
        steps = diffusion.epochs * images // diffusion.batch
        return check_integer("diffusion.epochs, steps", max(1, steps), 1, LAST_STEP, do="lower it")

    def with_data(self, path: Path) -> TrainingConfig:
        """The same run on data that lie elsewhere."""
        if "path" not in type(self.data).model_fields:
            raise InputError(
                "--data",
                expected=f"none, since '{self.data.format}' is drawn",
                got=path,
                do="leave it out",
            )
        return self.model_copy(update={"data": self.data.model_copy(update={"path": path})})


def _shape(section: str, kind: type[Shape], values: Mapping[str, Any]) -> Shape:
    """The shape of a network, or a refusal that names the section of the configuration."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise refusal(error, kind, section) from None
