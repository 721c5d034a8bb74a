"""``fcfg diagnose``: do the groups of a model's attributes act independently?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from fcfg.cli.computing import Computing, computing_by, load_pipeline
from fcfg.cli.options import Given, options_of, with_options

if TYPE_CHECKING:
    from fcfg.diagnosis import Diagnosis


@with_options
def diagnose(
    model: str,
    /,
    *,
    asked: Given = options_of("diagnosis.diagnosis.diagnose", "noised threshold seed"),
    of: Given = options_of("evaluation.experiment.Experiment", "images", defaults={"images": 500}),
    computing: Computing = computing_by("batch_size device"),
    out: Path | None = None,
    data: Path | None = None,
    overwrite: bool = False,
    commit: str | None = None,
) -> None:
    """Find out which attributes can have guidance weights of their own.

    Factored guidance adds up what each group of attributes changes in the network's prediction.
    The gap is how far the sum is from what they change together: 0 % if the groups are
    independent. It is measured on held-out images with noise, for one group per attribute, for
    the groups of every intervention and for every pair. Attributes with a gap above the
    threshold should share a group. If the network predicts noise no better with the attributes
    of an image than with those of another, nothing is said about groups. The folder
    gets index.html, a page that needs no other file, and diagnosis.json.

    Examples:
      fcfg diagnose portraits
      fcfg diagnose runs/faces --noised 256 --device cuda
      fcfg diagnose runs/faces --data /data/faces --out runs/diagnosis
    """
    from fcfg.cli.progress import ProgressReporter
    from fcfg.diagnosis import diagnose, diagnosis_page
    from fcfg.evaluation.experiment import Experiment
    from fcfg.evaluation.provenance import collect_provenance
    from fcfg.evaluation.subset import choose_subset
    from fcfg.support.config_files import validate
    from fcfg.support.hashing import digest_of
    from fcfg.support.outputs import Outputs
    from fcfg.support.progress import share_bar

    name, target = Path(model).resolve().name, computing.target
    # In float32, because small differences of predictions are measured.
    pipeline = load_pipeline(model, "fcfg diagnose").to(target).prepare("float32")
    values = {"name": "diagnose", "do": pipeline.space.names[:1], "guidance": ()}
    values |= {**of, "seed": asked["seed"], "balance": ()}  # as frequent as in data
    experiment = validate(Experiment, values, "diagnose")
    digest = digest_of(pipeline.denoiser)
    subject = f"{digest} {of['images']} {asked} {data and data.resolve()}"
    outputs = Outputs(out or Path("runs/diagnose") / name, "diagnose", subject, overwrite)
    outputs.check(["index.html", "diagnosis.json"])
    with ProgressReporter() as reporter:
        subset = choose_subset(pipeline, experiment, data=data, on_progress=reporter.progress)
    with share_bar() as on_progress:
        diagnosis = diagnose(
            *(pipeline, subset.images, subset.attributes),
            **asked,
            batch_size=computing.rows(pipeline, subset.images.shape[2:]),
            on_progress=on_progress,
        )
    about = {"model": f"{name}, digest {digest}", "data": subset.about}
    about |= collect_provenance(target, "float32", commit=commit)
    numbers = json.dumps(diagnosis.to_json() | about, indent=1, ensure_ascii=False).encode()
    page = diagnosis_page(diagnosis, name, about).encode()
    paths = outputs.write({"index.html": page, "diagnosis.json": numbers})
    _show(diagnosis)
    print(f"Page: {paths[0]}")


def _show(diagnosis: Diagnosis) -> None:
    """Print gaps, the verdict and the suggestion; the verdict alone if attributes are unused."""
    from fcfg.cli.tables import show_rows
    from fcfg.diagnosis.diagnosis import percent
    from fcfg.diagnosis.page import groupings, largest_pairs

    if not diagnosis.uses_attributes:
        print(*diagnosis.verdict, sep="\n")
        return
    pairs = largest_pairs(diagnosis, 20)
    for title, gaps in {"groups": groupings(diagnosis), "pairs": pairs}.items():
        show_rows((title, "gap"), [(name, percent(gap.overall)) for name, gap in gaps.items()])
    noised, known = diagnosis.images, diagnosis.correlated
    print(f"Gaps of {noised} images with noise, correlations of {known}.")
    print(*diagnosis.verdict, f"Suggested groups: fcfg.{diagnosis.suggestion}", sep="\n")
