r"""Tables of noise levels from schedulers of diffusers and MONAI.

A scheduler says how images were noised in training, and how a network is asked: its
``alphas_cumprod``, or the ``sigmas`` of flow matching; its timesteps; what is predicted. That is
read. How it samples is not: samplers here are deterministic and their own, so the table of a
stochastic scheduler (DDPM, ancestral, SDE) serves as well as another. What would make the answers
of the same network others than its own, and what no table can say, is refused.

A flow whose scheduler has its timesteps set, ``set_timesteps(n)``, becomes a table of these n
times, with the shifts that they got. Otherwise it is that of the training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from fcfg.diffusion.table import OF_FLOWS, OF_NOISES, Parameterisation, Table, flow_levels
from fcfg.support.errors import InputError, quoted

_PREDICTED: Mapping[str, Parameterisation] = {
    "epsilon": "noise",
    "sample": "image",
    "v_prediction": "velocity",
    "flow_prediction": "flow",
}
_LEAST = 2.0**-24  # in place of an alpha of 0, as in the multistep schedulers of diffusers


def read_scheduler(scheduler: Any) -> Table:
    """Return the table of noise levels of a scheduler of diffusers or MONAI."""
    name = type(scheduler).__name__
    _check(scheduler, name)
    named = name.startswith(("FlowMatch", "RFlow"))
    if named or setting(scheduler, "use_flow_sigmas", False):
        return _flow(scheduler, name)
    alphas = getattr(scheduler, "alphas_cumprod", None)
    if alphas is None:
        raise InputError(
            f"scheduler {name}",
            expected="one with alphas_cumprod, or with sigmas of flow matching",
            got="neither",
            do="schedulers of EDM, of consistency models and with growing variance are not read",
        )
    predicted = _predicted(scheduler, name, "epsilon", OF_NOISES)
    numbers = [float(alpha) for alpha in alphas]
    silent = setting(scheduler, "rescale_betas_zero_snr", False) or min(numbers) <= 0
    if predicted == "noise" and silent:
        raise InputError(
            f"scheduler {name}",
            expected="a signal above 0 where a network predicts noises",
            got="betas that were rescaled to zero terminal SNR",
            do="such networks predict velocities: check prediction_type",
        )
    least = min(_LEAST, *(alpha / 2 for alpha in numbers if alpha > 0))  # below all others
    first = int(numbers[0] < 1)  # 0 if its first time is the clean image itself
    levels = [1.0] * first + [alpha if alpha > 0 else least for alpha in numbers]
    called = [max(0, t - first) for t in range(len(levels))]
    signal, noise = (tuple(map(sqrt, each)) for each in (levels, [1 - a for a in levels]))
    return Table(signal, noise, tuple(called), predicted)


def setting(scheduler: Any, name: str, default: Any = None) -> Any:
    """Return a setting: of the config of diffusers, or an attribute in MONAI."""
    config = getattr(scheduler, "config", None)
    if isinstance(config, Mapping):
        return config.get(name, default)
    return getattr(scheduler, name, default)


def _check(scheduler: Any, name: str) -> None:
    """Refuse what no table can say, and distilled models, which have no null to guide from."""
    if any(kind in name.upper() for kind in ("LCM", "TCD")):
        raise InputError(
            f"scheduler {name}",
            expected="that of a model with a null condition",
            got="one for distilled models",
            do="load the model that was distilled, with its own scheduler",
        )
    for option in ("clip_sample", "thresholding", "invert_sigmas"):
        if setting(scheduler, option, False):
            raise InputError(
                f"scheduler {name}, {option}",
                expected="false, since nothing here clips or inverts what is predicted",
                got="true",
                do=f"build it again with {option}=False, if the model was not trained with it",
            )


def _predicted(
    scheduler: Any, name: str, usual: str, known: Sequence[Parameterisation]
) -> Parameterisation:
    """Return what a network predicts; refuse what none can on a table of this kind."""
    given = str(setting(scheduler, "prediction_type", usual))
    legal: dict[str, Parameterisation] = {n: k for n, k in _PREDICTED.items() if k in known}
    if given not in legal:
        raise InputError(
            f"scheduler {name}, prediction_type",
            expected=f"one of {quoted(legal)}",
            got=repr(given),
            do="correct it; flow_prediction is for sigmas of a flow, as of use_flow_sigmas=True",
        )
    return legal[given]


def _flow(scheduler: Any, name: str) -> Table:
    """Return the table of a flow: that of its timesteps if they are set, or of the training."""
    is_monai = name.startswith("RFlow")  # whose velocity leads from noise to image
    predicted: Parameterisation = "reversed-flow"
    if not is_monai:
        predicted = _predicted(scheduler, name, "flow_prediction", OF_FLOWS)
    total = int(setting(scheduler, "num_train_timesteps", 1000))
    if getattr(scheduler, "num_inference_steps", None) is not None:
        times = scheduler.timesteps.tolist()  # integers or floats, as it calls its networks
        sigmas = [t / total for t in times] if is_monai else scheduler.sigmas.tolist()
        levels = (0.0, *reversed([sigma for sigma in sigmas if sigma > 0]))
        called = (times[-1], *reversed(times))
    elif setting(scheduler, "use_dynamic_shifting") or setting(
        scheduler, "use_timestep_transform"
    ):
        raise InputError(
            f"scheduler {name}",
            expected="timesteps that are set, since their shift depends on the size of an image",
            got="none",
            do="call scheduler.set_timesteps with the number of steps and the size, or mu",
        )
    else:
        shift = getattr(scheduler, "shift", setting(scheduler, "flow_shift", 1.0))
        levels = flow_levels(total, float(shift))
        called = tuple(sigma * total for sigma in levels)
        if is_monai and scheduler.use_discrete_timesteps:
            called = tuple(range(total + 1))
    return Table(tuple(1 - sigma for sigma in levels), levels, called, predicted)
