"""Python and a command that give the same answer without the studio."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fcfg.causal.attributes import Continuous
from fcfg.generation.results import Value
from fcfg.studio.pictures import SAMPLES, SEED
from fcfg.studio.questions import PreparedQuestion

_FILE = "picture.png"  # what the page calls the downloaded picture


def as_python(question: PreparedQuestion) -> str:
    """Return a program that writes the counterfactual to a file."""
    asked, model, plan = question.asked, question.model, question.plan
    device = str(model.model.device)
    execution = "" if device == "cpu" else f".to({device!r})"
    execution += "" if model.model.precision is None else f".prepare({model.model.precision!r})"
    lines = ["import fcfg"]
    drawing = question.picture.drawing
    if drawing is None:
        lines = [*lines, "from PIL import Image"]
        picture = [f'picture = Image.open("{_FILE}")  # downloaded from the page']
    else:
        place = int(question.picture.id.removeprefix("s"))
        shape = f"{SAMPLES}, {SEED}, {drawing.size}, {drawing.variant!r}"
        picture = [
            f"faces = fcfg.datasets.portraits.sample({shape})",
            f"picture = fcfg.to_pictures(faces.images)[{place}]",
        ]
    if model.model.traits.steps:
        options = [
            f"guidance=fcfg.Guidance.parse({repr(plan.setting)!r}),",
            f'sampling="{plan.sampling}",',
        ]
    else:
        options = [f'plan={{"setting": model.parse_setting({repr(plan.setting)!r})}},']
    columns = {name: [value] for name, value in question.before.items()}
    return "\n".join(
        [
            *lines,
            "",
            f"model = fcfg.load({model.source!r}){execution}",
            *picture,
            "answer = model.counterfactual(",
            *(f"    {line}" for line in ("picture,", f"{columns!r},", f"do={asked.do!r},")),
            *(f"    {line}" for line in options),
            f"    seed={asked.seed},",
            ")",
            'fcfg.to_pictures(answer.images)[0].save("counterfactual.png")',
            "",
        ]
    )


def as_command(question: PreparedQuestion) -> str:
    """Return the command that writes the counterfactual to a folder."""
    asked, model, plan = question.asked, question.model, question.plan
    space = model.model.space
    targets = {
        # A number alone could be read as a decrease.
        name: f"={value}" if isinstance(space[name], Continuous) and _is_number(value) else value
        for name, value in asked.do.items()
    }
    words = ["fcfg", "generate", model.source, _FILE]
    words += ["--attributes", _pairs(question.before), "--do", _pairs(targets)]
    words += ["--guidance", repr(plan.setting)]
    words += [] if plan.sampling is None else ["--sampling", str(plan.sampling)]
    words += ["--seed", str(asked.seed)]
    words += [] if model.model.precision is None else ["--precision", model.model.precision]
    return shlex.join(words)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _pairs(values: Mapping[str, Value]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
