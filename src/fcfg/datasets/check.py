"""A look at a folder of images before training: everything that is wrong with it, at once.

Loading refuses the first thing that is wrong; this collects all of them, and never refuses.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image

from fcfg.causal.attributes import AttributeSpace
from fcfg.datasets.columns import missing_column
from fcfg.datasets.examples import SPLITS, OnProgress
from fcfg.datasets.findings import (
    MOST_LABELS,
    Finding,
    Findings,
    Labels,
    check_attributes,
    check_files,
    check_splits,
    correlations,
)
from fcfg.datasets.folder import METADATA, FolderData
from fcfg.datasets.infer import inferred, inferred_space
from fcfg.datasets.listing import Source
from fcfg.datasets.reading import read_all
from fcfg.datasets.tables import folder_of, read_columns
from fcfg.support.errors import InputError
from fcfg.support.fonts import font_for, missing_letters

_SAMPLE = 8  # images of each split to show


@dataclass(frozen=True, eq=False)
class Report:
    """What was found in a folder."""

    path: Path
    findings: tuple[Finding, ...]
    images: int = 0  #: rows of the table
    space: AttributeSpace | None = None  #: as given, or as guessed from the columns
    splits: dict[str, int] = field(default_factory=dict)  #: rows of each
    labels: tuple[str, ...] = ()  #: of the correlations
    correlations: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    sample: dict[str, UInt8[np.ndarray, "example channel height width"]] = field(
        default_factory=dict, repr=False
    )
    """A few images of each split, as many of each."""
    grey: bool = False  #: whether no image has colour
    side: int | None = None  #: the shortest of any image, where one could be measured
    reasons: dict[str, str] = field(default_factory=dict)  #: for guesses, column by column

    @property
    def ok(self) -> bool:
        """Whether training could begin."""
        return not any(finding.severity == "error" for finding in self.findings)


def check_folder(
    path: Path,
    config: FolderData | None = None,
    space: AttributeSpace | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Look at every label and every image of a folder.

    Args:
        path: The folder; that it does not exist is the one thing that is refused.
        config: How it would be loaded; the default options otherwise.
        space: The attributes; guessed from the columns otherwise, see :mod:`fcfg.datasets.infer`.
        on_progress: Called with 'reading images', how many are read, of how many.
    """
    root = folder_of(path)
    config = (config or FolderData()).model_copy(update={"path": root})
    findings = Findings()
    table = _table(root, findings)
    if table is None:
        return Report(root, tuple(findings.all))
    names = table["file_name"]
    check_files(root, names, findings)
    splits = check_splits(config, table, findings)
    reasons: dict[str, str] = {}
    if space is None:
        space, reasons = _guessed(config, table, findings)
    labels: tuple[str, ...] = ()
    matrix = np.zeros((0, 0))
    if space is None:
        findings.add("error", f"{METADATA} has no column that looks like an attribute", [*table])
    else:
        whole = check_attributes(config, table, space, findings)
        if whole.any():
            labels, matrix = correlations(config, table, space, whole)
            _check_labels(labels, space, findings)
    grey, side = _check_kinds([root / name for name in names], findings)
    sample = _check_images(root, config, names, splits, findings, on_progress)
    counts = Counter(splits or ())
    return Report(
        root,
        tuple(findings.all),
        len(names),
        space,
        {split: counts[split] for split in SPLITS if counts[split]},
        labels,
        matrix,
        sample,
        grey,
        side,
        reasons,
    )


def _guessed(
    config: FolderData, table: Labels, findings: Findings
) -> tuple[AttributeSpace | None, dict[str, str]]:
    """Attributes that the columns look like, and why; the other columns are findings."""
    others = ("file_name", config.split, config.group)
    guesses = {name: inferred(name, c) for name, c in table.items() if name not in others}
    aside = {name: guess for name, guess in guesses.items() if guess.attribute is None}
    findings.add(
        "info",
        "columns that look like no attribute",
        [f"{name} ({guess.why})" for name, guess in aside.items() if guess.named],
    )
    findings.add(
        "warning",
        "columns left aside: no attribute may have their names; rename them, or use data.rename",
        [f"{name} ({guess.why})" for name, guess in aside.items() if not guess.named],
    )
    return inferred_space(guesses), {name: guess.why for name, guess in guesses.items()}


def _check_labels(labels: Sequence[str], space: AttributeSpace, findings: Findings) -> None:
    """What the picture of the correlations does not show as it is."""
    shown = {label.split(":")[0] for label in labels}  # no name has a colon
    findings.add(
        "info",
        f"attributes without correlations: {MOST_LABELS} numbers are shown at most",
        [name for name in space.names if name not in shown],
    )
    font = font_for(labels, 13)
    findings.add(
        "info",
        "labels with letters that no font of this machine has: pictures show their codes",
        [label for label in labels if missing_letters(label, font)],
    )


def _table(root: Path, findings: Findings) -> Labels | None:
    try:
        if not (root / METADATA).is_file():
            raise InputError(
                f"data in {root}",
                expected=f"a file '{METADATA}' with a column 'file_name'",
                got="none",
                do="list the images and their attributes in it",
            )
        table = read_columns(root / METADATA)
        if "file_name" not in table:
            raise missing_column(METADATA, "file_name", table)
    except InputError as error:
        findings.add("error", str(error), [METADATA])
        return None
    if not table["file_name"]:
        findings.add("error", f"{METADATA} lists no image", [METADATA])
        return None
    return table


def _check_images(
    root: Path,
    config: FolderData,
    names: Sequence[str],
    splits: Sequence[str] | None,
    findings: Findings,
    on_progress: OnProgress | None,
) -> dict[str, UInt8[np.ndarray, "example channel height width"]]:
    present = [row for row, name in enumerate(names) if (root / name).is_file()]
    sources = [Source(root / names[row]) for row in present]
    bad: list[str] = []
    several: list[str] = []
    digests: dict[bytes, list[int]] = {}
    shown: dict[str, list[UInt8[np.ndarray, "channel height width"]]] = {}
    with warnings.catch_warnings():  # Pillow warns of what is reported here
        warnings.simplefilter("ignore")
        try:
            for done, (row, result) in enumerate(
                zip(present, read_all(sources, config.pixels), strict=True), start=1
            ):
                if on_progress is not None:
                    on_progress("reading images", done, len(present))
                if isinstance(result, str):
                    bad.append(f"{names[row]} ({result})")
                    continue
                several.extend([names[row]] if result.several else [])
                digests.setdefault(_digest(result.pixels), []).append(row)
                split = splits[row] if splits is not None else "all"
                if len(shown.setdefault(split, [])) < _SAMPLE:
                    shown[split].append(result.pixels)
        except InputError as error:  # no reader for this kind of image
            findings.add("error", str(error), [METADATA])
    findings.add("error", "images that cannot be read", bad)
    findings.add("warning", "files of several frames, of which the first is used", several)
    _check_doubles(digests, names, splits, findings)
    fewest = min((len(images) for images in shown.values()), default=0)
    order = sorted(shown, key=lambda split: (*SPLITS, split).index(split))
    return {split: np.stack(shown[split][:fewest]) for split in order}


def _digest(image: UInt8[np.ndarray, "channel height width"]) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()


def _check_doubles(
    digests: dict[bytes, list[int]],
    names: Sequence[str],
    splits: Sequence[str] | None,
    findings: Findings,
) -> None:
    within: list[str] = []
    across: list[str] = []
    for rows in digests.values():
        if len({names[row] for row in rows}) > 1:
            several = splits is not None and len({splits[row] for row in rows}) > 1
            (across if several else within).append(" = ".join(names[row] for row in rows[:3]))
    findings.add("warning", "same image in more than one split", across)
    findings.add("info", "same image more than once in a split", within)


def _check_kinds(paths: Sequence[Path], findings: Findings) -> tuple[bool, int | None]:
    """Sizes and modes, from the beginning of each file: whether all are grey, shortest side."""
    kinds: Counter[tuple[tuple[int, int], str]] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in paths:
            try:
                with Image.open(path) as picture:
                    kinds[picture.size, picture.mode] += 1
            except Exception:  # reported where it is read whole; DICOM has no such beginning
                continue
    if len(kinds) > 1:
        several = [f"{w}x{h} {mode}: {count}" for ((w, h), mode), count in kinds.most_common()]
        findings.add("info", "kinds of images, all brought to one", several)
    grey = bool(kinds) and all(mode[0] in "1LIF" for _, mode in kinds)
    return grey, min((min(size) for size, _ in kinds), default=None)
