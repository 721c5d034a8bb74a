"""Sections of a training configuration; :mod:`fcfg.training.kinds` has those of networks."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from fcfg.support.errors import check_integer

LAST_STEP = 10**9 - 1  # names of checkpoints have nine digits

Publish = Literal["last", "best"]
Decay = Literal["constant", "cosine"]
Steps = Annotated[PositiveInt, Field(le=LAST_STEP)]
Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]
BatchSize = Annotated[PositiveInt, Field(le=10**6)]


class Section(BaseModel):
    """Base of all sections: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Optimisation(Section):
    """The training of one network with AdamW: length, batch and rates."""

    may_change: ClassVar = ("steps", "epochs", "publish", "accumulate")  #: when a run is resumed
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)  #: decays of the moments
    cost: ClassVar[float] = 1.0  #: time of an image, in that of the first part of its model

    batch: BatchSize = 128  #: images per step, over all processes
    steps: Steps | None = None  #: or else epochs
    epochs: Steps | None = None
    learning_rate: PositiveFloat = 1e-4
    weight_decay: float = Field(default=1e-4, ge=0)
    warmup: NonNegativeInt = 0  #: steps of linear learning-rate warm-up
    decay: Decay = "constant"  #: learning-rate schedule after the warm-up
    clip: PositiveFloat | None = None  #: largest gradient norm
    skip: PositiveFloat | None = None  #: gradient norm from which a step is not taken
    ema: Annotated[float, Field(ge=0, lt=1)] | None = None  #: decay of the average of weights
    accumulate: PositiveInt = 1  #: gradient accumulation steps, to save memory
    publish: Publish = "last"  #: weights to publish; 'best' has the lowest validation loss

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("exactly one of 'steps' and 'epochs' must be given")
        if self.batch % self.accumulate:
            raise ValueError("batch must be divisible by accumulate")
        return self

    def length(self, images: int | None) -> int | None:
        """Return the number of steps for a number of training images, if it is known."""
        if self.epochs is None or images is None:
            return self.steps
        steps = max(1, self.epochs * images // self.batch)
        return check_integer("epochs, steps", steps, 1, LAST_STEP, do="lower it")


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
    shard: bool = False  #: weights of the image model in shards, one for each process
    checkpoint_steps: PositiveInt = 1000  #: largest number of steps between checkpoints
    checkpoint_minutes: PositiveFloat = 5.0  #: largest number of minutes between them
    keep: PositiveInt = 2  #: number of latest checkpoints to keep
    log_steps: PositiveInt = 20  #: steps between two lines of the log
    validations: PositiveInt = 20  #: number of validations
    validation_images: PositiveInt = 1024  #: largest number of images per validation
    sheets: NonNegativeInt = 4  #: number of sheets of counterfactuals
    trackers: tuple[Tracker, ...] = ()  #: that get the numbers of the log, too

    @model_validator(mode="after")
    def _shards_are_not_compiled(self) -> Self:
        if self.shard and self.compile:
            raise ValueError("compile must be left out or false with shard")
        return self


class Promise(Section):
    """The purpose of a preset."""

    source: str  #: origin of its values
    images: PositiveInt | None = None  #: number of training images it was made for
    expect: str  #: expected result and duration
