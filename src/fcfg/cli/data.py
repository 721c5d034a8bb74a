"""``fcfg data``: looks at data before anything is trained on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from fcfg.support.errors import InputError
from fcfg.support.outputs import Outputs

if TYPE_CHECKING:  # both are heavy, and --help needs neither
    from fcfg.causal.attributes import AttributeSpace
    from fcfg.datasets.check import Report
    from fcfg.datasets.folder import FolderData

data = typer.Typer(no_args_is_help=True)

_SHEET, _CORRELATIONS = _PICTURES = ("sheet.png", "correlations.png")
_MULTIPLIERS = (1, 2, 2)  # of the network in a first configuration
_SMALLEST, _LARGEST = 8, 64  # images of a first configuration
_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@data.callback()
def _group() -> None:
    """Look at data before training on it."""


@data.command("check")
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with metadata.csv and images.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="Training configuration: its data and attributes.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column with the patient or person.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Column that holds train, val or test.")
    ] = None,
    init: Annotated[
        Path | None, typer.Option(help="Write a first training configuration to this file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where sheet.png and correlations.png go. [DIR/.fcfg-check]"),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace pictures that are not of an earlier check."),
    ] = False,
) -> None:
    """List everything that is wrong with a folder of images, at once.

    Exits with 0 if training could begin, with 1 if it could not, with 2 if there was nothing to
    look at. A sheet of some images and a picture of the correlations show the rest.

    Example:
        fcfg data check faces/ --group person --init faces.yaml
    """
    from fcfg.datasets.check import check_folder

    if init is not None and init.exists():
        raise InputError(
            "--init",
            expected="a file that does not exist yet",
            got=f"'{init}'",
            do="choose another name, or remove it",
        )
    place = folder / ".fcfg-check" if out is None else out
    subject = os.path.relpath(folder.resolve(), place.resolve())  # both may move
    outputs = Outputs(place, "data check", subject, overwrite)
    outputs.check(_PICTURES)
    options, space = _options(config, group, split)
    console = Console(highlight=False, soft_wrap=True)
    with Console(stderr=True).status("reading images") as status:
        report = check_folder(
            folder,
            options,
            space,
            lambda what, done, total: status.update(f"{what}: {done} of {total}"),
        )
    _print(report, console)
    _write_pictures(report, outputs, console)
    if init is not None and report.space is not None:
        init.write_text(starting_config(report, options, init.parent), encoding="utf-8")
        size, why = proposed_size(report, options)
        console.print(escape(f"size {size}: {why}"))
        console.print(escape(f"Wrote {init}: read it, correct it, then: fcfg train {init}"))
    raise typer.Exit(0 if report.ok else 1)


@data.command("example")
def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write.")],
    count: Annotated[int, typer.Option(metavar="N", help="Number of pictures.")] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed; another draws others.")] = 0,
) -> None:
    """Draw a folder of grey shapes to try the other commands on.

    Each picture shows a disc or a square; metadata.csv says its radius, its brightness, which
    grows with the radius, and whether it is a square.

    Example:
        fcfg data example shapes
    """
    from fcfg.datasets.shapes import write_shapes

    place = write_shapes(folder, count, seed)
    print(f"Wrote {count} pictures and metadata.csv to {place}; next: fcfg data check {place}")


def _options(
    config: Path | None, group: str | None, split: str | None
) -> tuple[FolderData, AttributeSpace | None]:
    from pydantic import BaseModel

    from fcfg.causal.attributes import AttributeSpace
    from fcfg.datasets.folder import FolderData
    from fcfg.support.config_errors import validate
    from fcfg.support.config_files import read_yaml

    class Sections(BaseModel):
        data: FolderData = FolderData()
        attributes: dict[str, dict[str, Any]] | None = None

    written: dict[str, Any] = {}
    if config is not None:
        expected, advice = "a training configuration", "write one with --init"
        written = read_yaml(config, str(config), expected=expected, do=advice)
    sections = validate(Sections, written, str(config))
    attributes, options = sections.attributes, sections.data
    space = None if attributes is None else AttributeSpace.from_config(attributes)
    said = {name: value for name, value in (("group", group), ("split", split)) if value}
    return options.model_copy(update=said), space


def _print(report: Report, console: Console) -> None:
    for finding in report.findings:
        names = escape(", ".join(finding.names))
        more = f" and {finding.count - len(finding.names)} more"
        rest = more if finding.count > len(finding.names) > 0 else ""
        line = f"[{_STYLE[finding.severity]}]{finding.severity:<8}[/]{escape(finding.what)}"
        count = f" [dim]({finding.count})[/]" if finding.names else ""
        console.print(f"{line}{count}: {names}{rest}" if names else line)
    kinds = {} if report.space is None else report.space.to_config()
    for name, kind in kinds.items():
        details = ", ".join(f"{key} {value}" for key, value in kind.items() if key != "kind")
        why = f" ({report.reasons[name]})" if name in report.reasons else ""
        line = f"attribute {name}: {kind['kind']} {details}".rstrip()
        console.print(escape(f"{line}{why}"))
    sizes = ", ".join(f"{split} {count}" for split, count in report.splits.items())
    console.print(f"{report.images} images{': ' if sizes else ''}{sizes}")
    verdict = "[green]Training could begin.[/]" if report.ok else "[red]Not ready for training.[/]"
    console.print(verdict)


def _write_pictures(report: Report, outputs: Outputs, console: Console) -> None:
    import torch

    from fcfg.cli.heatmap import heatmap
    from fcfg.sheet import sheet
    from fcfg.support.images import to_png

    pictures: dict[str, bytes] = {}
    if report.sample:
        rows = {
            split: torch.from_numpy(images).float() / 127.5 - 1
            for split, images in report.sample.items()
        }
        pictures[_SHEET] = to_png(sheet(rows))
    if report.labels:
        pictures[_CORRELATIONS] = to_png(heatmap(report.labels, report.correlations))
    for path in outputs.write(pictures) if pictures else ():
        console.print(f"Wrote {escape(str(path))}")


def proposed_size(report: Report, options: FolderData) -> tuple[int, str]:
    """Height and width of images for a first configuration, and why.

    Never more than the images have, nor more than a first look needs; a size that the network
    can halve at each of its levels.

    Args:
        report: Findings of the check.
        options: Options that the folder was read with.
    """
    if "size" in options.model_fields_set:
        return options.size, "as configured"
    if report.side is None:
        return options.size, "the default, since no image could be measured"
    parts = 2 ** (len(_MULTIPLIERS) - 1)
    size = max(_SMALLEST, min(report.side, _LARGEST) // parts * parts)
    shortest = f"the shortest side of any image is {report.side}"
    if size == report.side:
        return size, shortest
    if size == _LARGEST:
        return size, f"enough for a first look; {shortest}"
    if size > report.side:
        return size, f"the smallest there is; {shortest}"
    return size, f"{shortest}, and the network needs a multiple of {parts}"


def _relative(path: Path, folder: Path) -> str:
    """A path as it is written in a file of a folder: absolute where they share no folder."""
    place, start = path.resolve(), folder.resolve()
    if os.path.commonpath([place, start]) == place.anchor:
        return str(place)
    return Path(os.path.relpath(place, start)).as_posix()


def starting_config(report: Report, options: FolderData, folder: Path) -> str:
    """A first training configuration, with comments on what to correct.

    Args:
        report: What was found.
        options: How the folder was read.
        folder: Folder of the configuration, at which its paths start.
    """
    space = report.space
    assert space is not None
    guess = report.grey and "channels" not in options.model_fields_set
    said = options.model_dump(mode="json", exclude_defaults=True) | {
        "format": "folder",
        "path": _relative(report.path, folder),
        "size": proposed_size(report, options)[0],
        "channels": 1 if guess else options.channels,
    }
    order = ("format", "path", "size", "channels", "split", "group")
    keys = dict.fromkeys([key for key in (*order, *sorted(said)) if key in said])
    notes = {"size": "  # height and width", "channels": "  # 3: colour, 1: grey"}
    lines = [
        "# A start, made by fcfg data check --init from what the folder holds.",
        "data:",
        *(f"  {key}: {_yaml(said[key])}{notes.get(key, '')}" for key in keys),
        "",
        "# Kinds were guessed from the values. Remove what the model should not know of, add",
        "# levels that may occur later, and give continuous attributes the range they can have.",
        "attributes:",
        *(f"  {_yaml(name)}: {_yaml(kind)}" for name, kind in space.to_config().items()),
        "",
        "# Which attributes cause which: for every attribute the list of its causes. Nothing",
        "# causes anything yet. If age causes glasses, write   glasses: [age]",
        "graph:",
        *(f"  {_yaml(name)}: []" for name in space.names),
        "",
        "# Small and short enough for a first look on a CPU. Good pictures want a GPU, a network",
        "# of base 64 with multipliers [1, 2, 4, 8], and tens of thousands of steps.",
        f"network: {_yaml({'base': 16, 'multipliers': list(_MULTIPLIERS)})}",
        "diffusion: {batch: 32, steps: 1500, learning_rate: 1.0e-3, ema: 0.99}",
        "judge: {width: 8, batch: 32, steps: 600}",
    ]
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("...\n").strip()
