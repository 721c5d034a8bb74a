"""The paper's algorithms in NumPy float64, written out step by step as a reference for tests.

Algorithms and equations carry the paper's numbers, counted in order of appearance. The symbols
are the paper's: ``alpha[t]`` is the cumulative product, ``eps`` the noise network, ``x_t`` the
image at time ``t``. Where the paper steps from ``t`` to its neighbour, these functions step from
``t`` to the next time ``s`` of a given grid; the full grid gives the paper's loop.
"""

from collections.abc import Callable, Sequence

import numpy as np

# eps(x, t, c): x is (batch, channel, height, width), c is (batch, width); returns the shape of x.
Noise = Callable[[np.ndarray, int, np.ndarray], np.ndarray]


def linear_alpha(steps: int = 1000) -> np.ndarray:
    """Return ``alpha[0..T]`` of the linear schedule, with ``alpha[0] = 1``.

    The betas run from ``scale * 1e-4`` to ``scale * 0.02`` with ``scale = 1000 / T``.
    """
    scale = 1000 / steps
    beta = np.linspace(scale * 1e-4, scale * 0.02, steps, dtype=np.float64)
    alpha = np.ones(steps + 1, dtype=np.float64)
    for t in range(1, steps + 1):
        alpha[t] = alpha[t - 1] * (1 - beta[t - 1])
    return alpha


def cosine_alpha(steps: int = 1000) -> np.ndarray:
    """Return ``alpha[0..T]`` of the cosine schedule of Nichol and Dhariwal, ``alpha[0] = 1``.

    The offset is ``s = 0.008`` and every beta is clipped at 0.999 before the cumulative product.
    """
    s = 0.008
    alpha = np.ones(steps + 1, dtype=np.float64)
    for t in range(1, steps + 1):
        f_t = np.cos((t / steps + s) / (1 + s) * np.pi / 2) ** 2
        f_before = np.cos(((t - 1) / steps + s) / (1 + s) * np.pi / 2) ** 2
        beta_t = min(1 - f_t / f_before, 0.999)
        alpha[t] = alpha[t - 1] * (1 - beta_t)
    return alpha


def masked_condition(
    c: np.ndarray, groups: Sequence[Sequence[int]], width: int
) -> list[np.ndarray]:
    """Return one masked embedding for each group (Equation 13).

    ``c`` has shape (batch, K * width), one block of ``width`` numbers for each attribute. A group
    is a sequence of attribute indices counted from 0.
    """
    attributes = c.shape[1] // width
    masked = []
    for group in groups:
        blocks = []
        for i in range(attributes):
            delta_i = 1.0 if i in group else 0.0
            blocks.append(delta_i * c[:, i * width : (i + 1) * width])
        masked.append(np.concatenate(blocks, axis=1))
    return masked


def abduct(
    eps: Noise, x_0: np.ndarray, c: np.ndarray, alpha: np.ndarray, times: Sequence[int]
) -> np.ndarray:
    """Invert an image to its noise by deterministic DDIM (Algorithm 1, Equation 4).

    ``times`` ascends from 0. The network knows the times 1 to T only, so the step that leaves
    t = 0 asks it at t = 1.
    """
    x_t = np.array(x_0, dtype=np.float64)
    for i in range(len(times) - 1):
        t, s = times[i], times[i + 1]
        eps_t = eps(x_t, max(t, 1), c)
        x0_hat = (x_t - np.sqrt(1 - alpha[t]) * eps_t) / np.sqrt(alpha[t])
        x_t = np.sqrt(alpha[s]) * x0_hat + np.sqrt(1 - alpha[s]) * eps_t
    return x_t


def follow_dpm_2m(
    eps: Noise, x: np.ndarray, c: np.ndarray, alpha: np.ndarray, times: Sequence[int]
) -> np.ndarray:
    """Follow ``times`` by DPM-Solver++ (2M), in the midpoint form that diffusers has.

    Without history, and where the noise ends at 0, the step is first order, which is what its
    multistep scheduler does at its first step and at a final sigma of zero. ``times`` has no 0
    but as its end.
    """
    x_t = np.array(x, dtype=np.float64)
    outputs: list[np.ndarray] = []
    lambdas: list[float] = []
    for i in range(len(times) - 1):
        t, s = times[i], times[i + 1]
        alpha_t, sigma_t = np.sqrt(alpha[t]), np.sqrt(1 - alpha[t])
        alpha_s, sigma_s = np.sqrt(alpha[s]), np.sqrt(1 - alpha[s])
        outputs.append((x_t - sigma_t * eps(x_t, t, c)) / alpha_t)
        lambdas.append(np.log(alpha_t) - np.log(sigma_t))
        if s == 0:
            x_t = outputs[-1]
            continue
        h = np.log(alpha_s) - np.log(sigma_s) - lambdas[-1]
        d0 = outputs[-1]
        x_s = (sigma_s / sigma_t) * x_t - (alpha_s * (np.exp(-h) - 1.0)) * d0
        if i > 0:
            h_0 = lambdas[-1] - lambdas[-2]
            r0 = h_0 / h
            d1 = (1.0 / r0) * (outputs[-1] - outputs[-2])
            x_s = x_s - 0.5 * (alpha_s * (np.exp(-h) - 1.0)) * d1
        x_t = x_s
    return x_t


def predict_fcfg(
    eps: Noise,
    u: np.ndarray,
    masked: Sequence[np.ndarray],
    omegas: Sequence[float],
    alpha: np.ndarray,
    times: Sequence[int],
    *,
    plus: bool = False,
) -> np.ndarray:
    """Generate with factored guidance (Algorithm 4, Equation 14), or factored CFG++ (Algorithm 7).

    ``masked`` holds one masked condition for each group and ``omegas`` its weight, used as it is
    given. Two groups give Algorithm 5; one group that holds every attribute gives classifier-free
    guidance (Algorithm 3), or CFG++ (Algorithm 6). In ``plus``, the guided noise serves the clean
    estimate only; the unconditional noise takes the step. ``times`` descends to 0.
    """
    null = np.zeros_like(masked[0])
    x_t = np.array(u, dtype=np.float64)
    for i in range(len(times) - 1):
        t, s = times[i], times[i + 1]
        eps_null = eps(x_t, t, null)
        eps_fcfg = eps_null
        for c_m, omega_m in zip(masked, omegas, strict=True):
            eps_fcfg = eps_fcfg + omega_m * (eps(x_t, t, c_m) - eps_null)
        x0_hat = (x_t - np.sqrt(1 - alpha[t]) * eps_fcfg) / np.sqrt(alpha[t])
        eps_step = eps_null if plus else eps_fcfg
        x_t = np.sqrt(alpha[s]) * x0_hat + np.sqrt(1 - alpha[s]) * eps_step
    return x_t


def predict_fapg(
    eps: Noise,
    u: np.ndarray,
    masked: Sequence[np.ndarray],
    omegas: Sequence[float],
    alpha: np.ndarray,
    times: Sequence[int],
    eta: float = 0.0,
    beta: float = -0.75,
    radius: float = 2.5,
) -> np.ndarray:
    """Generate with factored adaptive projected guidance (Algorithm 9).

    One group gives Algorithm 8. The momentum and the norm threshold, which the paper uses but does
    not write out, come before the projection. Each group has one momentum buffer: it starts at
    zero and keeps the difference before the threshold. Norms and inner products are those of one
    sample, over all its dimensions. ``times`` descends to 0.
    """
    null = np.zeros_like(masked[0])
    x_t = np.array(u, dtype=np.float64)
    momentum = [np.zeros_like(x_t) for _ in masked]
    for i in range(len(times) - 1):
        t, s = times[i], times[i + 1]
        x0_null = (x_t - np.sqrt(1 - alpha[t]) * eps(x_t, t, null)) / np.sqrt(alpha[t])
        x0_fapg = x0_null.copy()
        for m in range(len(masked)):
            x0_m = (x_t - np.sqrt(1 - alpha[t]) * eps(x_t, t, masked[m])) / np.sqrt(alpha[t])
            momentum[m] = (x0_m - x0_null) + beta * momentum[m]
            for b in range(len(x_t)):
                delta = momentum[m][b]
                norm = np.sqrt(np.sum(delta * delta))
                if norm > radius:
                    delta = delta * (radius / norm)
                parallel = np.sum(delta * x0_m[b]) / np.sum(x0_m[b] * x0_m[b]) * x0_m[b]
                orthogonal = delta - parallel
                x0_fapg[b] = x0_fapg[b] + omegas[m] * (orthogonal + eta * parallel)
        eps_fapg = (x_t - np.sqrt(alpha[t]) * x0_fapg) / np.sqrt(1 - alpha[t])
        x_t = np.sqrt(alpha[s]) * x0_fapg + np.sqrt(1 - alpha[s]) * eps_fapg
    return x_t


def ddpm_step(
    eps_t: np.ndarray, x_t: np.ndarray, alpha: np.ndarray, t: int, s: int, eta: float
) -> tuple[np.ndarray, float]:
    """Return mean and standard deviation of a DDIM step with noise (Song et al., Equation 12)."""
    variance = (1 - alpha[s]) / (1 - alpha[t]) * (1 - alpha[t] / alpha[s])
    x0_hat = (x_t - np.sqrt(1 - alpha[t]) * eps_t) / np.sqrt(alpha[t])
    direction = np.sqrt(1 - alpha[s] - eta**2 * variance) * eps_t
    return np.sqrt(alpha[s]) * x0_hat + direction, eta * np.sqrt(variance)


def edit_friendly_maps(
    eps: Noise,
    states: dict[int, np.ndarray],
    c: np.ndarray,
    alpha: np.ndarray,
    times: Sequence[int],
    eta: float = 1.0,
) -> dict[int, np.ndarray]:
    """Return the noise map of every step (Huberman-Spiegelglas et al., Algorithm 1).

    ``states`` are the image with independent noise at each of the descending ``times``. The map
    of the last step is 0, as in the authors' code.
    """
    maps = {}
    for i in range(len(times) - 1):
        t, s = times[i], times[i + 1]
        mean, sigma = ddpm_step(eps(states[t], t, c), states[t], alpha, t, s, eta)
        maps[s] = (states[s] - mean) / sigma if s > 0 else np.zeros_like(mean)
    return maps


def sample_ddpm(
    eps: Noise,
    x: np.ndarray,
    c: np.ndarray,
    maps: dict[int, np.ndarray],
    alpha: np.ndarray,
    times: Sequence[int],
    eta: float = 1.0,
) -> np.ndarray:
    """Generate along descending ``times`` with the noise of each step given."""
    x_t = np.array(x, dtype=np.float64)
    for i in range(len(times) - 1):
        mean, sigma = ddpm_step(eps(x_t, times[i], c), x_t, alpha, times[i], times[i + 1], eta)
        x_t = mean + sigma * maps[times[i + 1]]
    return x_t


def flowedit(
    v_source: Callable[[np.ndarray, int], np.ndarray],
    v_target: Callable[[np.ndarray, int], np.ndarray],
    x_0: np.ndarray,
    sources: dict[int, list[np.ndarray]],
    level: Callable[[int], float],
    times: Sequence[int],
    n_min: int = 0,
) -> np.ndarray:
    """Edit an image by FlowEdit (Kulikov et al., Algorithm 1).

    ``sources`` are the noisy source images at each of the descending ``times``, of which the first
    is that of n_max, and as many as n_avg; ``level`` is the time of the flow, at which the
    velocities are asked. The last ``n_min`` steps are plain, from one noisy image on.
    """
    z_edit, plain = np.array(x_0, dtype=np.float64), None
    for i in range(len(times) - 1):
        t, s = times[i], times[i + 1]
        if len(times) - 1 - i > n_min:
            difference = np.zeros_like(z_edit)
            for z_source in sources[t]:
                z_target = z_edit + z_source - x_0
                difference += (v_target(z_target, t) - v_source(z_source, t)) / len(sources[t])
            z_edit = z_edit + (level(s) - level(t)) * difference
        else:
            plain = z_edit + sources[t][0] - x_0 if plain is None else plain
            plain = plain + (level(s) - level(t)) * v_target(plain, t)
    return z_edit if plain is None else plain


def ledits_guidance(
    eps_null: np.ndarray, eps_c: Sequence[np.ndarray], scales: Sequence[float], quantile: float
) -> np.ndarray:
    """Guide by concepts with implicit masks (LEDITS++, Brack et al., Equations 4 and 8).

    The masks of cross-attention, which the paper intersects with them, need words.
    """
    eps = np.array(eps_null)
    for eps_m, scale in zip(eps_c, scales, strict=True):
        push = scale * (eps_m - eps_null)
        size = np.abs(push).sum(axis=1, keepdims=True)
        eps += np.where(
            size >= np.quantile(size, quantile, axis=(1, 2, 3), keepdims=True), push, 0
        )
    return eps
