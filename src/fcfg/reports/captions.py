"""What the page says beside its tables and figures."""

from __future__ import annotations

from fcfg.evaluation.summary import Summary
from fcfg.reports.numbers import drift_words, knows_truth, listed, named
from fcfg.reports.rule_styles import setting
from fcfg.reports.texts import steps_text

CAPTIONS = {
    "delta": (
        "Difference of effectiveness to no guidance, one panel an intervention; lines are 95 % "
        "intervals. On the target more is better; on attributes that should stay put, a rise "
        "means that they were amplified, though nobody asked. (Of a continuous attribute it is "
        "an error that rises, and less is better.)"
    ),
    "tradeoff": (
        "To the right the target moves further; away from the horizontal line at 0, what should "
        "stay put moves with it. A good rule runs along that line. Points of one rule are joined "
        "along its weights, dotted from where there is no guidance; crosses are 95 % intervals. "
        "Means are over attributes of one unit: of another unit there is another panel."
    ),
    "counterfactuals": (
        "The first images of the run, whatever they look like: one line an image, one column a "
        "setting. Look along a line for what changes besides the target."
    ),
    "truth": (
        "Answers beside the true counterfactual. Maps are nearly white where an answer is true, "
        "red where it is too bright and blue where it is too dark."
    ),
    "reversal": (
        "There: the counterfactual, and the change it made. Back: the way back to the factual "
        "attributes, and what was lost on it (the size of the difference, in red). A good rule "
        "changes little but the target, and loses nothing."
    ),
    "cost": (
        "For one counterfactual, abduction included, the way back not: rows that went through "
        "the network, and seconds on {hardware}. A rule of M groups asks the network M + 1 times "
        "a step."
    ),
    "composition": (
        "Composition: abducted and predicted unguided with nothing changed, an image comes back "
        "with a mean absolute error of {value} in units of [−1, 1]."
    ),
}


def asked(summary: Summary) -> str:
    """What was asked, in a paragraph.

    Args:
        summary: Of a run.
    """
    header = summary.header
    data, model = header["data"], header["model"]
    labels = [setting(text).label for text in summary.settings]
    settings = "one setting" if len(labels) == 1 else f"{len(labels)} settings"
    split = f", {data['split']}" if data.get("split") else ""
    back = ", and back again under the same guidance" if header["reverse"] else ""
    known = " The world is drawn, so that true counterfactuals are known."
    return (
        f"What would each of {summary.n:,} images ({data['format']}{split}) look like under "
        f"{listed(named(do) for do in summary.dos)}? The model '{model['name']}' answered under "
        f"{settings} of guidance ({listed(labels)}), in {header['steps']} steps from image to "
        f"noise and as many to the counterfactual{back}.{known if knows_truth(summary) else ''} "
        "A judge, a network that reads attributes from images, says what changed. Brackets hold "
        "95 % intervals over images; differences between settings are paired, image by image."
    )


def explained(summary: Summary) -> str:
    """How to read the tables.

    Args:
        summary: Of a run.
    """
    return (
        "One row a setting, with 95 % intervals in small print. Effectiveness is the judge's "
        "AUROC × 100 (of a continuous attribute its mean absolute error) against the attributes "
        f"asked for, and Δ its difference to no guidance; the {_drift(summary)} is "
        f"{drift_words(summary)}. Those whose interval excludes 0 are bold. Columns of the "
        "target are tinted: there a change is wanted, in attributes that should stay put none."
    )


def drift_caption(summary: Summary) -> str:
    """What the bars of drift show.

    Args:
        summary: Of a run.
    """
    return (
        f"The {_drift(summary)} of every attribute under every setting, one panel an "
        "intervention; lines are 95 % intervals. Attributes that should stay put should have no "
        "bar: to the right they are amplified, to the left attenuated. Global rules are pale, "
        "factored ones solid."
    )


def _drift(summary: Summary) -> str:
    return "factor error" if knows_truth(summary) else "shift"


def made(summary: Summary) -> str:
    """What every figure says of itself.

    Args:
        summary: Of a run.
    """
    header = summary.header
    commit = (header["commit"] or "unknown")[:12]
    return (
        f"n = {summary.n:,} · {steps_text(header)} · seed {header['seed']} · "
        f"checkpoint {header['model']['digest']} · commit {commit}"
    )
