"""``fcfg data``: check a folder of images before training, or draw an example."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from fcfg.cli.options import Given, options_of, with_options
from fcfg.support.errors import InputError
from fcfg.support.files import write_atomically
from fcfg.support.outputs import Outputs, check_file

if TYPE_CHECKING:  # slow imports that --help does not need
    from fcfg.causal.attributes import AttributeSpace
    from fcfg.datasets.check import FolderReport
    from fcfg.datasets.folder import FolderData

data = typer.Typer(no_args_is_help=True)

_SHEET, _CORRELATIONS = _PICTURES = ("sheet.png", "correlations.png")
_MULTIPLIERS = (1, 2, 2)  # of the network in a first configuration
_SMALLEST, _LARGEST = 8, 64  # image sizes of a first configuration
_FIRST = {  # templates, by the dimensions of images
    2: Path(__file__).with_name("first_configuration.yaml"),
    3: Path(__file__).with_name("first_configuration_of_volumes.yaml"),
}
_SHOWN = 10  # names of a finding
_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@data.callback()
def _group() -> None:
    """Check data before training."""


@data.command("check")
@with_options
def check(
    folder: Path,
    /,
    *,
    given: Given = options_of("datasets.folder.FolderData", "group split missing", changes=True),
    config: Path | None = None,
    init: Path | None = None,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """List all problems of a folder of images.

    Also draws a sheet of some images and the correlations of the attributes. Exits with 0 if
    training could begin, with 1 if it could not, with 2 if there was nothing to check.

    Example:
        fcfg data check faces/ --group person --init faces.yaml

    Options:
        folder: Folder with metadata.csv and images.
        config: Training configuration with data and attributes.
        init: Write a first training configuration to this file.
        out: Folder for sheet.png and correlations.png, by default DIR/.fcfg-check.
    """
    from fcfg.cli.progress import ProgressReporter
    from fcfg.datasets.base import existing_folder
    from fcfg.datasets.check import check_folder

    existing_folder(folder)
    if init is not None:
        check_file(init, overwrite=overwrite)
    target = folder / ".fcfg-check" if out is None else out
    subject = os.path.relpath(folder.resolve(), target.resolve())  # both may be moved together
    outputs = Outputs(target, "data check", subject, overwrite)
    outputs.check(_PICTURES)
    options, space = _options(config, given)
    console = Console(highlight=False, soft_wrap=True)
    with ProgressReporter() as reporter:
        report = check_folder(folder, options, space, reporter.progress)
    _print(report, console)
    _write_pictures(report, outputs, console)
    if init is not None and report.space is not None:
        write_atomically(init, starting_config(report, options, init.parent).encode())
        size, why = proposed_size(report, options)
        console.print(escape(f"size {size}: {why}"))
        first = "read it, correct it" if report.ok else "correct the errors above, read it"
        console.print(escape(f"Wrote {init}: {first}, then: fcfg train {init}"))
    raise typer.Exit(0 if report.ok else 1)


@data.command("example")
@with_options
def example(
    folder: Path, /, *, asked: Given = options_of("datasets.shapes.write_shapes", "count seed")
) -> None:
    """Draw a folder of grey shapes as an example for the other commands.

    Each picture shows a disc or a square. metadata.csv holds its radius, its brightness, which
    grows with the radius, and whether it is a square.

    Example:
        fcfg data example shapes

    Options:
        folder: Folder to write.
    """
    from fcfg.datasets.shapes import write_shapes

    path, count = write_shapes(folder, **asked), asked["count"]
    print(f"Wrote {count} pictures and metadata.csv to {path}; next: fcfg data check {path}")


def _options(
    config: Path | None, given: dict[str, str]
) -> tuple[FolderData, AttributeSpace | None]:
    """Return the options of a configuration, changed by those given, and its attributes."""
    from pydantic import BaseModel

    from fcfg.causal.attributes import AttributeSpace
    from fcfg.datasets.folder import FolderData
    from fcfg.support.config_files import validate
    from fcfg.training.config import read_values

    class Sections(BaseModel):
        data: FolderData = FolderData()
        attributes: dict[str, dict[str, Any]] | None = None

    values = {} if config is None else read_values(str(config))[0]
    section = values.get("data")
    kind = section.get("format", "folder") if isinstance(section, dict) else "folder"
    if kind != "folder":
        do = "start 'fcfg train', which checks them before its first step"
        expected = "'folder', the data checked here"
        raise InputError(f"{config}, data.format", expected=expected, got=repr(kind), do=do)
    sections = validate(Sections, values, str(config))
    stated, kinds = sections.data.model_dump(exclude_unset=True), sections.attributes
    space = None if kinds is None else AttributeSpace.from_config(kinds)
    return validate(FolderData, stated | given, "data"), space


def _print(report: FolderReport, console: Console) -> None:
    for finding in report.findings:
        line = f"[{_STYLE[finding.severity]}]{finding.severity:<8}[/]{escape(finding.what)}"
        if finding.names:
            more = len(finding.names) - _SHOWN
            told = ", ".join(finding.names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
            line += f" [dim]({len(finding.names)})[/]: {escape(told)}"
        console.print(line)
    for name, kind in ({} if report.space is None else report.space.to_config()).items():
        details = ", ".join(f"{key} {value}" for key, value in kind.items() if key != "kind")
        why = f" ({report.reasons[name]})" if name in report.reasons else ""
        line = f"attribute {name}: {kind['kind']} {details}".rstrip()
        console.print(escape(f"{line}{why}"))
    sizes = ", ".join(f"{split} {count}" for split, count in report.splits.items())
    console.print(f"{report.images} images{': ' if sizes else ''}{sizes}")
    ready, not_ready = "[green]Training could begin.[/]", "[red]Not ready for training.[/]"
    console.print(ready if report.ok else not_ready)


def _write_pictures(report: FolderReport, outputs: Outputs, console: Console) -> None:
    from fcfg.sheet import heatmap, sheet
    from fcfg.support.images import images_from_bytes, to_png

    rows = {split: images_from_bytes(images) for split, images in report.sample.items()}
    pictures = {_SHEET: to_png(sheet(rows))} if rows else {}
    if report.labels:
        pictures[_CORRELATIONS] = to_png(heatmap(report.labels, report.correlations))
    for path in outputs.write(pictures) if pictures else ():
        console.print(f"Wrote {escape(str(path))}")


def proposed_size(report: FolderReport, options: FolderData) -> tuple[int, str]:
    """Propose an image size for a first configuration, with the reason.

    It is at most the size of the images, small enough for a first look, and can be halved at
    every level of the network.
    """
    if "size" in options.model_fields_set:
        return options.size, "as configured"
    if report.side is None:
        return options.size, "the default, since no image could be measured"
    parts = 2 ** (len(_MULTIPLIERS) - 1)
    size = max(_SMALLEST, min(report.side, _LARGEST) // parts * parts)
    limits = f"a multiple of {parts} from {_SMALLEST} to {_LARGEST}"
    return size, f"the shortest side of any image is {report.side}, and this is {limits}"


def _relative(path: Path, folder: Path) -> str:
    """Express a path relative to a folder; absolute if they only share the root."""
    path, start = path.resolve(), folder.resolve()
    if os.path.commonpath([path, start]) == path.anchor:
        return str(path)
    return Path(os.path.relpath(path, start)).as_posix()


def starting_config(report: FolderReport, options: FolderData, folder: Path) -> str:
    """Write a first training configuration, with comments on what to correct."""
    assert report.space is not None
    own = options.model_dump(mode="json", exclude_defaults=True)
    grey = report.grey and "channels" not in options.model_fields_set
    first: dict[str, object] = {"format": "folder", "path": _relative(report.path, folder)}
    first["size"] = proposed_size(report, options)[0]
    first["channels"] = 1 if grey else options.channels
    first |= {"dimensions": 3} if report.dimensions == 3 else {}
    return (
        _FIRST[report.dimensions]
        .read_text("utf-8")
        .format(
            data=_section(first | own | first, False),
            attributes=_section(report.space.to_config(), None),
            graph=_section({name: [] for name in report.space.names}, None),
            multipliers=list(_MULTIPLIERS),
        )
    )


def _section(values: Mapping[str, object], flow: bool | None) -> str:
    import yaml

    lines = yaml.safe_dump(values, default_flow_style=flow, sort_keys=False, width=10**6)
    return indent(lines, "  ")
