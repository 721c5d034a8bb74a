"""Write the generated sections and figures of README, documentation and model cards.

    python tools/pages.py            # write them
    python tools/pages.py --check    # exit with 1 if a page or figure is out of date
    python tools/pages.py --hero     # also draw the pictures that run a model: hero, ghosts

A section stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. PAGES says which
sections stand on which page: to move a section, move its two marks, and its name in PAGES. Every
section is a function of the presets and of the files under docs/results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image

import anchoring_tables
import answer_seconds
import answers_figure
import diagnosis_tables
import direction_weights
import dropout_tables
import factorial_tables
import ghosts_figure
import hero
import memorisation
import portraits_figure
import reproduction_tables
import return_study
import rivals_seconds
import rivals_tables
import rivals_training
import solver_tables
import speed_tables
import studio_tables
import training_curves
import training_tables
import trust_study
import truth_tables
from fcfg.support.errors import InputError
from sections import fill, names

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MODELS = "src/fcfg/pipeline/models"

#: The sections of every page, in any order.
PAGES: dict[str, tuple[str, ...]] = {
    "README.md": ("front-brief",),
    "docs/calibrate.md": ("weights/portraits", "weights/portraits-causal", "direction-weights"),
    "docs/choosing.md": ("front", "faces-in-brief"),
    "docs/results-anchoring.md": (
        *("factorial", "factorial-seed-1"),
        *("anchored/portraits", "truth-bound", "anchored/portraits-causal", "anchored-faces"),
        *("anchored-faces-unseen", "anchored-radiographs"),
        *("drawn-noise/portraits", "drawn-noise/portraits-causal"),
        *("drawn-noise-morphomnist", "ghosts", "ghosts-drawn", "anchoring/portraits"),
        *("repeated-composition", "return-study"),
        *("anchoring/portraits-variants", "anchoring/celeba-64"),
        "anchoring/celeba-64-drawn-noise",
    ),
    "docs/generate.md": ("trust",),
    "docs/diagnose.md": ("diagnosis/portraits", "diagnosis/portraits-causal"),
    "docs/own-data.md": ("shapes-weights",),
    "docs/reproduction.md": ("claims", "real-faces", "portraits-brief", "radiographs-brief"),
    "docs/results-celeba.md": ("reproduction/celeba-hq", "reversibility"),
    "docs/results-portraits.md": ("reproduction/portraits", "reproduction/portraits-causal"),
    "docs/results-radiographs.md": (
        *("reproduction/nih-cxr14", "reproduction/embed", "reproduction/mimic-cxr"),
    ),
    "docs/results-solvers.md": (
        *("solvers/portraits-tf32", "solvers/portraits", "solvers/portraits-cpu"),
        "solvers/celeba",
    ),
    "docs/results-speed.md": (
        *("bench/h200", "bench/h200-training", "bench/cpu", "precision", "execution-cpu"),
        *("recorded-steps/celeba-hq", "recorded-steps/portraits", "recorded-steps/compiled"),
    ),
    "docs/rivals.md": (
        *("rivals/portraits", "rivals/celeba-64", "rivals/morphomnist"),
        *("rivals-distances", "rivals-paper", "rivals-seconds", "rivals-training"),
        *("rivals-sadcg-steps", "rivals-semantics"),
    ),
    "docs/speed.md": ("answer-seconds",),
    "docs/studio.md": ("studio",),
    "docs/training.md": ("presets", "weight-decay", "dropout", "training-throughput"),
    f"{MODELS}/portraits/README.md": ("truth/portraits", "anchored/portraits"),
    f"{MODELS}/portraits-causal/README.md": (
        *("truth/portraits-causal", "anchored/portraits-causal"),
    ),
    f"{MODELS}/digits/README.md": ("rivals-morphomnist-karras-20", "memorisation/digits"),
    f"{MODELS}/radiographs/README.md": ("anchored-radiographs", "memorisation/radiographs"),
}

#: Sections with a name of their own.
SECTIONS: dict[str, Callable[[], str]] = {
    "answer-seconds": answer_seconds.section,
    "anchored-faces": anchoring_tables.faces,
    "anchored-faces-unseen": anchoring_tables.unseen_faces,
    "anchored-radiographs": anchoring_tables.radiographs,
    "claims": reproduction_tables.claims_held,
    "direction-weights": direction_weights.section,
    "dropout": dropout_tables.table,
    "ghosts": anchoring_tables.ghosts,
    "ghosts-drawn": anchoring_tables.ghosts_drawn,
    "execution-cpu": speed_tables.execution,
    "factorial": factorial_tables.section,
    "factorial-seed-1": lambda: factorial_tables.section("seed 1"),
    "faces-in-brief": anchoring_tables.faces_in_brief,
    "front": anchoring_tables.front,
    "front-brief": anchoring_tables.front_brief,
    "studio": studio_tables.speed,
    "portraits-brief": reproduction_tables.portraits_brief,
    "precision": speed_tables.precision,
    "presets": training_tables.presets_table,
    "radiographs-brief": reproduction_tables.radiographs_brief,
    "real-faces": reproduction_tables.main_claim,
    "repeated-composition": anchoring_tables.repeated_composition,
    "return-study": return_study.sections,
    "reversibility": reproduction_tables.reversibility,
    "rivals-distances": rivals_tables.distances,
    "rivals-paper": rivals_tables.paper,
    "rivals-seconds": rivals_seconds.table,
    "rivals-training": rivals_training.table,
    "rivals-sadcg-steps": rivals_tables.sadcg_steps,
    "rivals-semantics": rivals_tables.semantics,
    "trust": trust_study.section,
    "truth-bound": anchoring_tables.truth_bound,
    "training-throughput": training_tables.throughput_table,
    "weight-decay": training_tables.weight_decay_table,
}

#: Sections named KIND/NAME, by kind.
KINDS: dict[str, Callable[[str], str]] = {
    "anchored": anchoring_tables.drawings,  # the shipped model NAME
    "anchoring": anchoring_tables.study,  # docs/results/anchoring-NAME.json
    "bench": speed_tables.bench,  # docs/results/bench-NAME.csv
    "diagnosis": diagnosis_tables.section,  # docs/results/diagnosis-NAME.json
    "drawn-noise": anchoring_tables.drawn_noise,  # the shipped model NAME
    "memorisation": memorisation.section,  # docs/results/memorisation-NAME.json
    "recorded-steps": speed_tables.recorded_steps,  # docs/results/recorded-steps-NAME.json
    "reproduction": reproduction_tables.part,  # all results on the data set NAME
    "rivals": rivals_tables.section,  # docs/results/rivals-NAME-*.jsonl.gz
    "solvers": solver_tables.study,  # docs/results/solvers-NAME.json
    "weights": anchoring_tables.chosen_weights,  # the shipped model NAME
    "truth": truth_tables.card_table,  # docs/results/NAME-truth.json
}


def section(name: str) -> str:
    """Return the text of a section.

    Args:
        name: Key of SECTIONS, KIND/NAME with a key of KINDS, or the name of a result file:
            ``portraits-core`` is the table of docs/results/portraits-core.jsonl.gz.
    """
    kind, _, rest = name.rpartition("/")
    if name in SECTIONS or kind in KINDS:
        text = SECTIONS[name]() if name in SECTIONS else KINDS[kind](rest)
        return text.replace("`python benchmarks/", "`python tools/")  # where the scripts are now
    file = RESULTS / f"{name}.jsonl.gz"
    if not file.exists():
        raise InputError(
            f"section '{name}'",
            expected=f"one of {', '.join(SECTIONS)}, NAME after one of {', '.join(KINDS)} and a "
            "slash, or a result file",
            got=f"no docs/results/{file.name}",
            do="add the file, or rename the section",
        )
    return reproduction_tables.result_table(file)


def filled(page: str) -> str:
    """Return a page with all its sections up to date.

    Args:
        page: Path from the root of the repository, a key of PAGES.
    """
    text = (ROOT / page).read_text("utf-8")
    if sorted(names(text)) != sorted(PAGES[page]):
        raise InputError(
            page,
            expected=f"the sections {', '.join(sorted(PAGES[page]))}",
            got=", ".join(sorted(names(text))) or "none",
            do="change the marks on the page, or PAGES in tools/pages.py",
        )
    return fill(text, section)


def figures() -> dict[str, str | Image.Image]:
    """Return every generated figure, by its path: text of SVG files, and images."""
    studies = sorted(RESULTS.glob("solvers-*.json"))
    answers = Image.open(ROOT / "docs/figures/portraits-counterfactuals.png")
    return {
        "docs/figures/portraits.png": portraits_figure.draw(),
        "docs/figures/tour.png": answers.crop((0, 0, answers.width, 344)),  # do(smiling)
        **{f"docs/figures/{file.stem}.svg": solver_tables.picture(file) for file in studies},
        **{
            f"{MODELS}/{name}/curves.svg": training_curves.draw(RESULTS / f"{name}-training.jsonl")
            for name in ("portraits", "portraits-causal", "digits", "radiographs")
        },
    }


def main(words: list[str]) -> int:
    """Write what is out of date, or only name it."""
    wanted = {page: filled(page) for page in PAGES} | figures()
    if "--hero" in words:
        wanted["docs/figures/hero.png"] = hero.draw()
        wanted["docs/figures/ghosts.png"] = ghosts_figure.draw("inferred")
        wanted["docs/figures/ghosts-drawn.png"] = ghosts_figure.draw("drawn")
        for name in answers_figure.QUESTIONS:
            wanted[f"{MODELS}/{name}/answers.png"] = answers_figure.draw(name)
    stale = [path for path, content in wanted.items() if not up_to_date(ROOT / path, content)]
    for path in stale:
        content = wanted[path]
        if "--check" in words:
            print(f"{path} is out of date: run python tools/pages.py")
        elif isinstance(content, str):
            (ROOT / path).write_text(content, "utf-8")
        else:
            content.save(ROOT / path, optimize=True)
    return 1 if stale and "--check" in words else 0


def up_to_date(path: Path, content: str | Image.Image) -> bool:
    """Return whether a file has this text, or the pixels of this image."""
    if not path.exists():
        return False
    if isinstance(content, str):
        return path.read_text("utf-8") == content
    with Image.open(path) as image:
        return image.size == content.size and image.tobytes() == content.tobytes()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
