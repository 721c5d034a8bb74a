"""Records of compared methods, as if they had been measured."""

from __future__ import annotations

from fcfg.pipeline.calibration import WeightEstimate
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.methods import Method, Methods

DRAWN = ";anchor=true;drawn_noise=true"
AT, LATE = "ddim uniform 2", "ddim quadratic 3"


def methods_of(pipeline: CounterfactualPipeline, **weights: float) -> Methods:
    """Two methods of a model with calibrated weights of attributes, the first published at 3."""
    own = {name: WeightEstimate(weight=w, low=w, high=w) for name, w in weights.items()}
    errors = dict.fromkeys(weights, 0.5)
    first = {"guidance": "cfg:1.0", "sampling": AT, "published": "cfg:3.0"}
    second = {"guidance": f"contrast:1.0{DRAWN}", "sampling": LATE}
    return Methods(
        model=Methods.digest(pipeline.denoiser, pipeline.judge),
        images=2,
        seed=0,
        data={},
        criterion="change",
        measured=(0.5, 3.0),
        methods={
            "CFG": Method.model_validate(first | {"weights": own, "errors": errors}),
            "ours": Method.model_validate(second | {"weights": own, "errors": errors}),
        },
    )
