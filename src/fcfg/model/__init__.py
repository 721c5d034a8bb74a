"""What a model that answers what-ifs offers, whatever its images are made by.

Abduction infers what an image has beside its attributes, action turns an intervention into
counterfactual attributes, prediction makes the image. Evaluation asks a model by this contract;
the diffusion pipeline and the hierarchical VAE are two such models. A class of your own is one,
too; to save and load its models, register its kind with :func:`fcfg.storage.register_kind`.
"""

from fcfg.model.answers import (
    AbstractAbduction,
    AbstractCounterfactual,
    Action,
    BackKeys,
    Factual,
    Options,
    Plan,
    Preparation,
    Run,
    Traits,
    Work,
)
from fcfg.model.contract import AnyModel, CounterfactualModel, load, save
from fcfg.model.inputs import (
    AUTO,
    AttributesLike,
    model_format,
    model_pixels,
    parse_setting,
    training_data,
)

__all__ = [
    "AUTO",
    "AbstractAbduction",
    "AbstractCounterfactual",
    "Action",
    "AnyModel",
    "AttributesLike",
    "BackKeys",
    "CounterfactualModel",
    "Factual",
    "Options",
    "Plan",
    "Preparation",
    "Run",
    "Traits",
    "Work",
    "load",
    "model_format",
    "model_pixels",
    "parse_setting",
    "save",
    "training_data",
]
