"""Python and a command that give the same answer without the studio."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fcfg.causal.attributes import Continuous
from fcfg.generation.results import Value
from fcfg.studio.pictures import SAMPLES, SEED
from fcfg.studio.questions import PreparedQuestion

_FILE = "picture.png"  # what the page calls the downloaded picture
_PROGRAM = """\
import fcfg
{imports}
model = fcfg.load({source!r}){execution}
{picture}
answer = model.counterfactual(
    picture,
    {columns!r},
    do={do!r},
    {options}
    seed={seed},
)
fcfg.to_pictures(answer.images)[0].save("counterfactual.png")
"""


def as_python(question: PreparedQuestion) -> str:
    """Return a program that writes the counterfactual to a file."""
    asked, plan, drawing = question.asked, question.plan, question.picture.drawing
    model, setting = question.model.model, repr(repr(plan.setting))
    device, precision = str(model.device), model.precision
    execution = "" if device == "cpu" else f".to({device!r})"
    execution += "" if precision is None else f".prepare({precision!r})"
    if drawing is None:
        imports = "from PIL import Image\n"
        picture = f'picture = Image.open("{_FILE}")  # downloaded from the page'
    else:
        imports, place = "", int(question.picture.id.removeprefix("s"))
        shape = f"{SAMPLES}, {SEED}, {drawing.size}, {drawing.variant!r}"
        picture = f"faces = fcfg.datasets.portraits.sample({shape})\n"
        picture += f"picture = fcfg.to_pictures(faces.images)[{place}]"
    options = f'plan={{"setting": model.parse_setting({setting})}},'
    if model.traits.steps:
        options = f'guidance=fcfg.Guidance.parse({setting}),\n    sampling="{plan.sampling}",'
    return _PROGRAM.format(
        imports=imports,
        source=question.model.source,
        execution=execution,
        picture=picture,
        columns={name: [value] for name, value in question.before.items()},
        do=asked.do,
        options=options,
        seed=asked.seed,
    )


def as_command(question: PreparedQuestion) -> str:
    """Return the command that writes the counterfactual to a folder."""
    asked, model, plan = question.asked, question.model.model, question.plan
    targets = dict(asked.do)
    for name, value in asked.do.items():
        if isinstance(model.space[name], Continuous) and not isinstance(value, str):
            targets[name] = f"={value}"  # a number alone could be read as a decrease
    words = ["fcfg", "generate", question.model.source, _FILE]
    words += ["--attributes", _pairs(question.before), "--do", _pairs(targets)]
    words += ["--guidance", repr(plan.setting)]
    words += [] if plan.sampling is None else ["--sampling", str(plan.sampling)]
    words += ["--seed", str(asked.seed)]
    words += [] if model.precision is None else ["--precision", model.precision]
    return shlex.join(words)


def _pairs(values: Mapping[str, Value]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
