"""``fcfg calibrate``: choose the weights of a model's guidance from validation images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fcfg.cli.computing import Computing, computing_by, load_pipeline
from fcfg.cli.options import Given, options_of, with_options

if TYPE_CHECKING:
    from fcfg.pipeline.calibration import Calibration, WeightEstimate

_IMAGES = {"cpu": 24, "cuda": 512}  # by default
_TRUSTED = {"cpu": 100, "cuda": 256}  # images for thresholds of trust


@with_options
def calibrate(
    model: str,
    /,
    *,
    asked: Given = options_of(
        "calibration.run.calibrate",
        "guidance sampling weights at_least_real accept seed cache",
        defaults={"cache": Path("runs/calibrations")},
    ),
    computing: Computing = computing_by("batch_size precision device"),
    methods: str | None = None,
    images: int | None = None,
    data: Path | None = None,
    out: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Choose the weights of a model's guidance, and make them its default.

    For every attribute, the weight is the one under which the judge reads on counterfactuals what
    it reads on real images that have the value, over the whole distribution, while it reads the
    other attributes as before. Images are those of the validation split. An interrupted
    calibration resumes with the same command. On the same images, thresholds are measured by which
    'fcfg generate' says which answers not to trust.

    With --methods, every method is first calibrated under several samplings and in several
    variants. What was found is kept in methods.json and methods.csv, and the best method is the
    one whose weights are chosen.

    Examples:
      fcfg calibrate runs/faces
      fcfg calibrate runs/faces --methods all
      fcfg calibrate runs/faces --methods 'FCFG plain,contrast drawn,FlowEdit'
      fcfg calibrate runs/faces --guidance 'cfg:1;anchor=true' --images 1000
      fcfg calibrate runs/faces --sampling 'dpm-2m karras 20' --weights 1,1.5,2,3,5
      fcfg calibrate portraits --images 16 --out mine

    Options:
        methods: Compare methods, named with commas between them, or 'all', and take the best;
            --sampling is then the only one that is tried.
        images: Largest number of images; more make the intervals shorter. By default 512 on a GPU,
            24 on a CPU.
        out: Folder of calibration.json: by default that of the model, which then uses it; for a
            shipped model runs/calibrate/NAME.
    """
    from fcfg.calibration import WEIGHTS, Tried, choose_images, compare_methods
    from fcfg.calibration import calibrate as run
    from fcfg.calibration.run import checked_search
    from fcfg.cli.comparing import TABLE, print_methods, to_csv, wanted_methods
    from fcfg.cli.progress import ProgressReporter, resumable
    from fcfg.evaluation.measurements import judge_of
    from fcfg.guidance import Guidance
    from fcfg.model.thresholds import Thresholds
    from fcfg.pipeline.calibration import Calibration
    from fcfg.pipeline.methods import Methods
    from fcfg.pipeline.plans import DEFAULT_GUIDANCE, chosen_sampling
    from fcfg.sampling import as_sampling
    from fcfg.storage import shipped
    from fcfg.support.files import write_atomically
    from fcfg.support.outputs import Outputs, make_folder
    from fcfg.support.progress import share_bar
    from fcfg.trust import trust_thresholds

    target, seed, accept = computing.target, asked["seed"], asked.pop("accept")
    wanted = None if methods is None else wanted_methods(methods, asked)
    rule = Guidance.parse(asked["guidance"]) if "guidance" in asked else DEFAULT_GUIDANCE
    chosen = chosen_sampling(asked["sampling"], None, rule.anchor, rule.drawn_noise)
    pipeline = load_pipeline(model, "fcfg calibrate").to(target).prepare(computing.precision)
    judge_of(pipeline)  # refuses a model without a judge before images are read
    assert pipeline.folder is not None
    count = _IMAGES[target] if images is None else images
    weights = asked["weights"].split(",") if "weights" in asked else WEIGHTS
    search = checked_search(rule, chosen, weights, pipeline.space)
    asked |= {"guidance": rule, "sampling": chosen, "weights": search[1]}
    folder = out or (Path("runs/calibrate") / model if model in shipped() else pipeline.folder)
    is_own = folder.resolve() == pipeline.folder.resolve()
    digest = Calibration.digest(pipeline.denoiser)
    subject = f"{digest} {search} {chosen} {count} {seed} {data and data.resolve()}"
    subject += "" if wanted is None else f" {wanted}"
    raised = {None: " raised if many", True: " at least real", False: ""}
    subject += raised[asked.get("at_least_real")]
    outputs = Outputs(folder, "calibrate", subject, overwrite)

    def write(files: dict[str, bytes]) -> None:
        if not is_own:
            outputs.write(files)
            return
        for name, content in files.items():
            write_atomically(folder / name, content)

    if not is_own:
        further = () if wanted is None else (Methods.file, TABLE)
        outputs.check([Calibration.file, Thresholds.file, *further])
    with ProgressReporter() as reporter:
        found = choose_images(pipeline, count, seed=seed, data=data, on_progress=reporter.progress)
    size = computing.rows(pipeline, found.images.shape[2:])
    these = pipeline, found.images, found.attributes
    about: dict[str, Any] = {"data": found.data, "batch_size": size}
    make_folder(folder)
    before = pipeline.calibration
    measured = f"what is measured is in {asked['cache']}"
    told = f"{measured}, run the same command to resume"
    if wanted is not None:
        print(f"{found.count} images, {len(wanted['methods'])} methods, on {target}", flush=True)
        wanted |= {name: asked[name] for name in ("weights", "seed", "cache")}
        wanted |= {"count": found.count, "truth": found.truth, **about}
        tried: list[Tried] = []
        with resumable(lambda: told) as on_progress:
            progress: dict[str, Any] = {"on_progress": on_progress, "on_tried": tried.append}
            compared = compare_methods(*these, **wanted, **progress)
        print_methods(compared)
        write({Methods.file: compared.to_bytes(), TABLE: to_csv(tried)})
        best = compared.methods[compared.best]
        rule, chosen = Guidance.parse(best.guidance), as_sampling(best.sampling)
        asked |= {"guidance": rule, "sampling": chosen}
    print(f"{found.count} images, {rule}, {chosen}, on {target}", flush=True)
    with resumable(lambda: told) as on_progress:
        about |= {"on_progress": on_progress}
        known = {"count": found.count, "truth": found.truth, "accept": True}  # or not, below
        calibration = run(*these, **asked, **known, **about)
    print_calibration(calibration)
    is_kept = is_own and not accept and bool(calibration.doubts)
    if is_kept:
        pipeline.calibration = before
    else:
        write({calibration.file: calibration.to_bytes()})
    with share_bar() as on_progress:
        about |= {"on_progress": on_progress}
        thresholds = trust_thresholds(*these, count=_TRUSTED[target], **about)
    write({thresholds.file: thresholds.to_bytes()})
    if is_kept:
        names = pipeline.space.names
        settings = {repr(pipeline.plan([name]).setting): None for name in names}
        print(f"The model keeps its default, {' and '.join(settings)}, with thresholds of trust.")
        print(f"To use the new weights, add --accept; {measured}.")
        return
    used = "the model uses it from now on" if is_own else "the model is as before"
    path = folder / Calibration.file
    print(f"Written to {path}, and thresholds of trust beside it; {used}.")


def print_calibration(calibration: Calibration) -> None:
    """Print a row for each attribute and each of its directions, which alone have readings."""
    from fcfg.cli.tables import show_rows

    is_read = any(own.directions for own in calibration.attributes.values())
    read = ("judge on\nreal images", "judge on\nanswers") if is_read else ()
    rows: list[tuple[str, ...]] = []
    for name, own in calibration.attributes.items():
        rows.append((f"do({name})", *_estimate(own), *("" for _ in read), f"{own.off_target:.2f}"))
        for label, side in own.directions.items():
            texts = [f"{mean:.2f} ± {sd:.2f}" for mean, sd in (side.real, side.read)]
            rows.append((f"  {label}", *_estimate(side), *texts, ""))
    show_rows(("intervention", "weight", "95 % interval", *read, "off-target"), rows)
    if is_read:
        said = "The judge reads log-odds of the value, or the value minus the true one"
        print(f"{said} (mean ± sd).")
    print("Off-target: mean shift of the reading of other attributes, in standard deviations.")
    for name, own in calibration.attributes.items():
        if own.truth:
            reading, mae, change = (f"{own.truth[key]:g}" for key in ("reading", "mae", "change"))
            print(
                f"do({name}): the truth would choose {reading} by the judge's reading of it, "
                f"{mae} by the error of all pixels, {change} by that of changed pixels."
            )
        if own.separation is not None:
            real, answers = own.separation
            can_rise = answers < real and not calibration.at_least_real
            note = ": --at-least-real raises it" if can_rise else ""
            if own.raised_from:
                note = f", raised from {own.raised_from:g}"
            print(
                f"do({name}): the judge tells the two values apart with AUROC {100 * answers:.1f} "
                f"on answers and {100 * real:.1f} on real images, at weight {own.weight:g}{note}."
            )
        if own.directions_differ:
            print(f"do({name}): its directions differ; the weight is a compromise.")
    for doubt in calibration.doubts:
        print(f"{doubt}.")


def _estimate(found: WeightEstimate) -> tuple[str, str]:
    return f"{found.weight:g}", f"{found.low:g}–{found.high:g}"
