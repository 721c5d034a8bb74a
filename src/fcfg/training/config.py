"""The training configuration: read from YAML and ``--set``, validated, frozen.

:func:`read_config` turns a preset or a file into a :class:`TrainingConfig`. Defaults are those of
the paper (App. D) wherever it states one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph, check_graph
from fcfg.datasets.registry import DataConfig
from fcfg.support.config_errors import validate
from fcfg.support.config_files import looks_like_a_file, parse_yaml, parse_yaml_value, read_yaml
from fcfg.support.errors import (
    InputError,
    check_among,
    check_integer,
    nearest,
    short,
    together,
)
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.names import check_folder_name
from fcfg.training.sections import (
    LAST_STEP,
    Diffusion,
    FineTuning,
    HVAETraining,
    JudgeTraining,
    Network,
    Promise,
    Run,
    Schedule,
    ScmTraining,
    Section,
    Semantic,
)

if TYPE_CHECKING:  # with torch: imported when all sections are legal, to fit them together
    from fcfg.diffusion.networks import JudgeConfig, UNetConfig
    from fcfg.diffusion.schedule import NoiseSchedule
    from fcfg.hvae import HVAEConfig

Part = Literal["all", "scm", "judge", "diffusion", "hvae", "finetuning"]
_PRESETS = resources.files("fcfg.training") / "presets"
_OTHERS = ("network", "schedule", "diffusion")  # sections that a hierarchical VAE does not have


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
    semantic: Semantic | None = None  #: given for SA-DCG
    hvae: HVAETraining | None = None  #: given for a hierarchical VAE
    finetuning: FineTuning | None = None  #: of a hierarchical VAE
    judge: JudgeTraining = JudgeTraining(width=24)
    scm: ScmTraining = ScmTraining()
    run: Run = Run()

    _check_name = field_validator("name")(check_folder_name)

    @model_validator(mode="before")
    @classmethod
    def _one_image_model(cls, values: object) -> object:
        """Refuse sections that would have no effect."""
        if isinstance(values, Mapping) and values.get("hvae") is not None:
            unused = [name for name in _OTHERS if name in values]
            if unused:
                raise ValueError(f"hvae excludes {' and '.join(unused)}")
        return values

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
        derived = ("noise_schedule", "unet", "judge_network", "vae")
        together(
            lambda: check_graph(self.space, self.causal_graph),
            *(partial(getattr, self, name) for name in derived),
        )
        if self.hvae is not None and self.semantic is not None:
            raise ValueError("hvae and semantic exclude each other")
        if self.finetuning is not None and self.hvae is None:
            raise ValueError("finetuning needs hvae")
        if self.diffusion.batch % self.diffusion.accumulate:
            raise ValueError("diffusion.batch must be divisible by diffusion.accumulate")
        if self.diffusion.independence and len(self.attributes) == 1:
            raise ValueError("diffusion.independence must be 0 for a single attribute")
        if self.semantic is not None and (self.diffusion.independence or self.diffusion.p_group):
            raise ValueError(
                "diffusion.independence and p_group must be 0, since SA-DCG masks all attributes "
                "together"
            )
        return self

    @model_serializer(mode="wrap")
    def _used_sections(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out sections of other kinds of models."""
        others = set(_OTHERS if self.hvae is not None else ())
        others |= {key for key in ("semantic", "hvae", "finetuning") if getattr(self, key) is None}
        return {key: value for key, value in serialise(self).items() if key not in others}

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
        from fcfg.diffusion.schedule import NoiseSchedule

        return NoiseSchedule(self.schedule.kind, self.schedule.steps)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of the training, in order; the image model comes last."""
        if self.hvae is None:
            return "scm", "judge", "diffusion"
        tuned = () if self.finetuning is None else ("finetuning",)
        return "scm", "judge", "hvae", *tuned

    @cached_property
    def unet(self) -> UNetConfig:
        """The shape of the U-Net, and of the encoder of SA-DCG."""
        from fcfg.diffusion.networks import SemanticConfig, UNetConfig

        shape = self.network.model_dump(exclude={"embedding", "gradient_checkpointing"})
        shape |= {"channels": self.data.channels, "size": self.data.size}
        if self.semantic is None:
            shape |= {"condition": len(self.attributes) * self.network.embedding}
            return validate(UNetConfig, shape, "network")
        del shape["head_channels"]  # attention has one head
        shape |= self.semantic.model_dump(exclude={"kl_weight"})
        shape |= {"condition": self.semantic.latent + sum(self.space.widths)}
        return validate(SemanticConfig, shape, "network and semantic")

    @cached_property
    def vae(self) -> HVAEConfig | None:
        """The shape of the hierarchical VAE, if it is one."""
        from fcfg.hvae import HVAEConfig

        if self.hvae is None:
            return None
        self.space.check_known(self.hvae.dropped, "hvae.dropped")
        values = [
            name
            for name, width in zip(self.space.names, self.space.widths, strict=True)
            for _ in range(width)
        ]
        keys = ("encoder", "decoder", "widths", "latent", "largest_latent", "prior")
        shape = {key: getattr(self.hvae, key) for key in keys}
        shape |= {"channels": self.data.channels, "size": self.data.size, "parents": len(values)}
        shape |= {"dropped": [i for i, name in enumerate(values) if name in self.hvae.dropped]}
        return validate(HVAEConfig, shape, "hvae")

    @cached_property
    def judge_network(self) -> JudgeConfig:
        """The shape of the judge, without outputs for factors."""
        from fcfg.diffusion.networks import JudgeConfig

        shape = {"channels": self.data.channels, "width": self.judge.width}
        return validate(JudgeConfig, shape | {"outputs": sum(self.space.widths)}, "judge")

    def image_steps(self, images: int) -> int:
        """Return the number of steps of the image model for a number of training images."""
        diffusion = self.diffusion
        if self.hvae is not None:
            return self.hvae.steps
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
    together(*(partial(_override, values, override) for override in overrides))
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
        return _extended(parse_yaml(text, subject, do=advice), subject), Path.cwd()
    expected = "a preset or a YAML file"
    if not looks_like_a_file(source):
        do = nearest(source, presets())
        raise InputError(subject, expected=expected, got="neither", do=do)
    values = read_yaml(path, subject, expected=expected, do=advice)
    return _extended(values, subject), path.absolute().parent


def _extended(values: dict[str, Any], subject: str) -> dict[str, Any]:
    """Add the values of the preset that a configuration extends, section by section."""
    if "extends" not in values:
        return values
    base = values.pop("extends")
    check_among(f"{subject}, extends", base, presets())
    merged = _read_values(base)[0]
    for other in _OTHERS if "hvae" in values else ():
        merged.pop(other, None)
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merged[key] | value if both else value
    return merged


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
