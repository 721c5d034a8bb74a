"""The sections of a training configuration; defaults are the paper's (App. D) where it has one."""

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

LAST_STEP = 10**9 - 1  # names of checkpoints have nine digits

# Those of fcfg.diffusion.schedule, which needs torch.
Kind = Literal["linear", "cosine"]
Parameterisation = Literal["noise", "image", "velocity"]
Publish = Literal["last", "best"]
Decay = Literal["constant", "cosine"]
Steps = Annotated[PositiveInt, Field(le=LAST_STEP)]
BatchSize = Annotated[PositiveInt, Field(le=10**6)]


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
    skip: ClassVar[float | None] = None

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("exactly one of 'steps' and 'epochs' must be given")
        return self


class Semantic(Section):
    """The semantic encoder of SA-DCG, beside the network; see :mod:`fcfg.diffusion.semantic`."""

    latent: PositiveInt = 32  #: width of the semantics
    encoder_multipliers: tuple[PositiveInt, ...] = (1, 2, 4, 8, 8)  #: factors of network.base
    kl_weight: float = Field(default=1e-3, ge=0)  #: weight of the divergence of the semantics


class VAETraining(Section):
    """Training of a hierarchical VAE, or its fine-tuning: AdamW at a constant rate."""

    decay: ClassVar[Decay] = "constant"
    accumulate: ClassVar[int] = 1
    betas: ClassVar[tuple[float, float]] = (0.9, 0.9)

    batch: BatchSize = 32
    steps: Steps
    learning_rate: PositiveFloat = 1e-3
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: NonNegativeInt = 100
    clip: PositiveFloat | None = 350.0
    skip: PositiveFloat | None = 500.0  #: gradient norm from which a step is not taken
    ema: float = Field(default=0.999, ge=0, lt=1)
    publish: Publish = "last"


class HVAETraining(VAETraining):
    """The hierarchical VAE, in place of network and diffusion; see :mod:`fcfg.hvae`."""

    encoder: str = "32b3d2,16b3d2,8b3d2,4b3d4,1b4"
    decoder: str = "1b4,4b4,8b4,16b4,32b4"
    widths: tuple[PositiveInt, ...] = (16, 32, 64, 128, 256)
    latent: PositiveInt = 16
    largest_latent: PositiveInt | None = None
    prior: Literal["conditional", "exogenous"] = "conditional"
    dropped: tuple[str, ...] = ()  #: attributes that training hides from the prior or the decoder
    beta: PositiveFloat = 1.0  #: weight of the divergence in the free energy
    publish: Publish = "best"


class FineTuning(VAETraining):
    """Fine-tuning of a hierarchical VAE on what the judge reads from its counterfactuals."""

    learning_rate: PositiveFloat = 1e-4
    skip: PositiveFloat | None = 10_000.0
    """Far above that of the VAE: where the constraint is broken, steep steps lead back to it."""
    targets: Literal["hard", "soft"] = "hard"
    """Targets of attributes that an intervention does not affect: their values, or what the judge
    reads from the factual image."""
    damping: PositiveFloat = 100.0  #: of the constraint on the free energy
    multiplier_rate: PositiveFloat = 1e-2  #: learning rate of its Lagrange multiplier


class JudgeTraining(Section):
    """Training of the judge: AdamW with warm-up and cosine decay."""

    decay: ClassVar[Decay] = "cosine"
    clip: ClassVar[float | None] = None
    ema: ClassVar[float | None] = None
    accumulate: ClassVar[int] = 1
    skip: ClassVar[float | None] = None

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
