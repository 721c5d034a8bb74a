"""Draw portraits from numbers: every feature is a smooth function of its factors.

Shapes are signed distances on a grid. They are painted over each other with soft edges, at twice
the resolution, and averaged down. Everything is vectorised over the drawings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def draw_portraits(factors: Mapping[str, Tensor], size: int) -> Float[Tensor, "batch 3 size size"]:
    """Draw one portrait per row, in [-1, 1], from columns of roughly standard normal factors."""
    canvas = _Canvas({name: f[:, None, None] for name, f in factors.items()}, 2 * size)
    for layer in (
        _background,
        _clothes,
        _hair_behind,
        _neck_and_face,
        _age_lines,
        _eyes,
        _nose,
        _mouth,
        _beard,
        _hair_in_front,
        _glasses,
        _light,
    ):
        layer(canvas)
    return functional.avg_pool2d(canvas.pixels.clamp(0, 1), 2) * 2 - 1


Number: TypeAlias = Tensor | float


class _Canvas:
    """Pixels in [0, 1], coordinates that follow the pose, and the factors."""

    def __init__(self, factors: dict[str, Tensor], size: int) -> None:
        self.factors = factors
        like = next(iter(factors.values()))
        axis = (torch.arange(size, device=like.device, dtype=like.dtype) + 0.5) / size * 2 - 1
        self.pixel = 2 / size
        self.still_y, self.still_x = axis[None, :, None], axis[None, None, :]  # background
        zoom = 0.88 + 0.035 * self("zoom")
        tilt = 0.05 * self("tilt")
        x, y = self.still_x - 0.05 * self("shift"), self.still_y + 0.0
        self.x = (x + tilt * y) * zoom  # head
        self.y = (y - tilt * x) * zoom
        self.zero = torch.zeros_like(like)  # added to floats to make columns
        self.pixels = torch.zeros(len(like), 3, size, size, device=like.device, dtype=like.dtype)

    def __call__(self, name: str) -> Tensor:
        """A factor, shaped to multiply pixels."""
        return self.factors[name]

    def soft(self, name: str, sharpness: float = 1.0) -> Tensor:
        """A factor mapped to (0, 1)."""
        return torch.sigmoid(sharpness * self(name))

    def colour(self, red: Number, green: Number, blue: Number) -> Tensor:
        return torch.stack([channel + self.zero for channel in (red, green, blue)], dim=1)

    def paint(self, distance: Tensor, colour: Tensor, strength: Number = 1.0) -> None:
        """Fill the inside of a shape (negative distances) with a colour."""
        self.shade((0.5 - distance / self.pixel).clamp(0, 1) * strength, colour)

    def shade(self, cover: Tensor, colour: Tensor) -> None:
        """Mix a colour in, pixel by pixel."""
        self.pixels = torch.lerp(self.pixels, colour, cover[:, None].expand_as(self.pixels))

    def ellipse(self, x: Number, y: Number, a: Number, b: Number) -> Tensor:
        """Distance to an ellipse, accurate near its edge."""
        u, v = (self.x - x) / a, (self.y - y) / b
        return ((u**2 + v**2).sqrt() - 1) * torch.minimum(a + self.zero, b + self.zero)

    def stroke(self, x: Number, height: Number, half: Number, width: Number) -> Tensor:
        """Distance to a line along the curve ``height``, with a half length and a width."""
        beyond = ((self.x - x).abs() - half).clamp(min=0)
        return (beyond**2 + (self.y - height) ** 2).sqrt() - width


def _mix(one: Tensor, other: Tensor, share: Tensor) -> Tensor:
    return one + (other - one) * share[:, None]


def _skin(canvas: _Canvas) -> Tensor:
    tone = canvas.soft("skin", 1.2)
    warm = 0.03 * canvas("warmth")
    return canvas.colour(0.98 - 0.42 * tone + warm, 0.82 - 0.46 * tone, 0.70 - 0.45 * tone - warm)


def _hair_colour(canvas: _Canvas) -> Tensor:
    light, red = canvas.soft("hair_light", 1.5), canvas.soft("hair_red", 1.5)
    colour = canvas.colour(
        0.10 + 0.48 * light + 0.18 * red, 0.07 + 0.38 * light + 0.02 * red, 0.06 + 0.16 * light
    )
    grey = torch.sigmoid(1.6 * (canvas("grey") - 0.9))
    colour = _mix(colour, canvas.colour(0.78, 0.78, 0.80), grey)
    fade = canvas.soft("fade", 2.0)  # added, so that hair of every colour changes alike
    return colour + canvas.colour(0.23 * fade, 0.34 * fade, 0.45 * fade)


def _background(canvas: _Canvas) -> None:
    hue = canvas("background")
    phase = torch.cat([hue, hue + 2.1, hue + 4.2], dim=2).permute(0, 2, 1)[..., None]
    top = 0.64 + 0.11 * torch.sin(1.3 * phase)
    fade = (0.85 - 0.15 * canvas.still_y - 0.08 * canvas("light") * canvas.still_x)[:, None]
    canvas.pixels = (top * fade).expand_as(canvas.pixels).clone()


def _clothes(canvas: _Canvas) -> None:
    hue, broad = canvas("clothes"), 0.06 * canvas("male")
    shirt = canvas.colour(
        0.45 + 0.3 * torch.sin(1.7 * hue),
        0.42 + 0.28 * torch.sin(1.7 * hue + 2.0),
        0.48 + 0.3 * torch.sin(1.7 * hue + 4.0),
    )
    shoulders = canvas.ellipse(0.0, 1.18, 0.78 + broad, 0.52)
    canvas.paint(shoulders, shirt)
    canvas.paint(canvas.ellipse(0.0, 0.72, 0.20, 0.14), 0.8 * shirt)


def _face_shape(canvas: _Canvas) -> tuple[Tensor, Tensor]:
    """Half width and half height; young faces are rounder, male faces broader."""
    width = 0.43 + 0.025 * canvas("face") + 0.022 * canvas("male") + 0.008 * canvas("young")
    height = 0.56 + 0.02 * canvas("face_long") - 0.014 * canvas("young")
    return width, height


def _head(canvas: _Canvas) -> Tensor:
    """Distance to the head: an ellipse whose jaw is square in male faces."""
    width, height = _face_shape(canvas)
    below = (canvas.y / height).clamp(0, 1)
    jaw = 0.10 * torch.tanh(0.7 * canvas("male")) - 0.06 - 0.04 * torch.tanh(canvas("young"))
    return canvas.ellipse(0.0, 0.0, width * (1 + jaw * below**2), height)


def _hair_behind(canvas: _Canvas) -> None:
    width, height = _face_shape(canvas)
    length = torch.sigmoid(1.1 * canvas("hair_length") - 1.1 * canvas("male"))
    colour = 0.78 * _hair_colour(canvas)
    crown = canvas.ellipse(0.0, -0.12, width * 1.15, height * 1.02)
    end = -0.10 + 0.82 * length  # a curtain from the crown down to here
    spread = width * (1.02 + 0.16 * length) + 0.05 * length * (canvas.y > 0) * canvas.y
    beyond_x, beyond_y = (canvas.x.abs() - spread + 0.1), ((canvas.y + 0.15) - end + 0.05)
    outside = (beyond_x.clamp(min=0) ** 2 + beyond_y.clamp(min=0) ** 2).sqrt() - 0.1
    above = -0.15 - canvas.y
    canvas.paint(torch.minimum(crown, torch.maximum(outside, above)), colour)


def _neck_and_face(canvas: _Canvas) -> None:
    skin, width = _skin(canvas), _face_shape(canvas)[0]
    neck = 0.17 + 0.024 * canvas("male")
    canvas.paint(canvas.ellipse(0.0, 0.62, neck, 0.26), 0.84 * skin)
    for side in (-1, 1):
        ear = canvas.ellipse(side * width * 1.0, 0.02, 0.07, 0.12)
        canvas.paint(ear, 0.92 * skin)
    canvas.paint(_head(canvas), skin)
    smile = torch.sigmoid(canvas("smiling"))
    blush = 0.45 * skin + 0.55 * canvas.colour(0.92, 0.45, 0.42)
    for side in (-1, 1):
        x, y = (canvas.x - side * 0.25) / 0.13, (canvas.y - 0.16 + 0.05 * smile) / 0.10
        canvas.shade(torch.exp(-(x**2 + y**2)) * (0.10 + 0.40 * smile), blush)


def _age_lines(canvas: _Canvas) -> None:
    """Lines on the forehead, beside the mouth and below the eyes; a darker lower face."""
    old = torch.sigmoid(-1.6 * canvas("young"))
    dark = 0.62 * _skin(canvas)
    for row, height in enumerate((-0.34, -0.27)):
        curve = height + 0.02 * row - 0.05 * canvas.x**2
        line = canvas.stroke(0.0, curve, 0.20, 0.010)
        canvas.paint(line, dark, 0.85 * old)
    for side in (-1, 1):
        fold = ((canvas.x - side * (0.17 + 0.16 * (canvas.y - 0.14))).abs() - 0.013).abs() - 0.008
        inside = torch.sigmoid((canvas.y - 0.12) * 60) * torch.sigmoid((0.33 - canvas.y) * 60)
        canvas.shade((0.5 - fold / canvas.pixel).clamp(0, 1) * inside * 0.8 * old, dark)
        bag = 0.07 - 1.2 * (canvas.x - side * 0.18) ** 2
        canvas.paint(canvas.stroke(side * 0.18, bag, 0.07, 0.010), dark, 0.85 * old)
    lower = torch.sigmoid((canvas.y - 0.15) * 12) * (_head(canvas) < 0)
    canvas.shade(0.16 * old * lower, dark)


def _eyes(canvas: _Canvas) -> None:
    male, young, smile = canvas("male"), canvas("young"), canvas.soft("smiling")
    tall = 0.062 + 0.008 * young - 0.014 * smile
    wide = 0.092
    iris = canvas.colour(
        0.25 + 0.15 * torch.sin(2 * canvas("eyes")),
        0.30 + 0.12 * torch.sin(2 * canvas("eyes") + 2),
        0.30 + 0.25 * torch.sin(2 * canvas("eyes") + 4),
    )
    white, black = canvas.colour(0.97, 0.97, 0.96), canvas.colour(0.06, 0.05, 0.05)
    brow = 0.6 * _hair_colour(canvas) + 0.05
    for side in (-1, 1):
        x = side * 0.18
        canvas.paint(canvas.ellipse(x, -0.03, wide + 0.014, tall + 0.014), 0.45 * _skin(canvas))
        canvas.paint(canvas.ellipse(x, -0.03, wide, tall), white)
        canvas.paint(canvas.ellipse(x, -0.03, 0.050, tall.clamp(max=0.050)), iris)
        canvas.paint(canvas.ellipse(x, -0.03, 0.024, 0.024), black)
        lift = -0.165 + 0.012 * male - 0.01 * smile
        curve = lift + 0.9 * (0.6 - 0.15 * male).clamp(min=0.1) * (canvas.x - x) ** 2
        thick = (0.018 + 0.008 * male).clamp(0.006, 0.05)
        canvas.paint(canvas.stroke(x, curve, 0.085, thick), brow)


def _nose(canvas: _Canvas) -> None:
    dark = 0.72 * _skin(canvas)
    size = (0.05 + 0.008 * canvas("male") + 0.014 * canvas("nose")).clamp(min=0.01)
    tip = canvas.stroke(0.0, 0.17 - 1.5 * canvas.x**2, size, 0.014)
    canvas.paint(tip, dark, 0.9)
    bridge = torch.exp(-(((canvas.x - 0.03) / 0.025) ** 2)) * torch.sigmoid((0.15 - canvas.y) * 25)
    canvas.shade(0.35 * bridge * torch.sigmoid((canvas.y + 0.02) * 25), dark)


def _mouth(canvas: _Canvas) -> None:
    bent, male = torch.tanh(0.55 * canvas("smiling")), canvas("male")
    smile = torch.where(bent > 0, bent, 0.45 * bent)  # frowns are weaker than smiles
    half = 0.14 + 0.055 * smile
    curve = 0.335 - (0.9) * 1.9 * smile * (canvas.x**2 - half**2 / 2)
    full = (0.020 + 0.008 * bent - 0.003 * male + 0.003 * canvas("lips")).clamp(min=0.009)
    lips = _mix(_skin(canvas), canvas.colour(0.74, 0.20, 0.24), torch.sigmoid(0.6 - 0.55 * male))
    canvas.paint(canvas.stroke(0.0, curve, half, full + 0.014), 0.9 * lips)
    open_mouth = torch.sigmoid(2.2 * (canvas("smiling") - 0.2))
    teeth = canvas.stroke(0.0, curve, half * 0.86, full * 0.75)
    canvas.paint(teeth, canvas.colour(0.98, 0.97, 0.95), open_mouth)
    canvas.paint(canvas.stroke(0.0, curve, half * 0.9, 0.006), 0.4 * lips, 1 - open_mouth)


def _beard(canvas: _Canvas) -> None:
    """A shadow over the lower face that deepens in male faces."""
    dark = torch.sigmoid(2.0 * canvas("male") - 0.9)
    head = _head(canvas)
    below = torch.sigmoid((canvas.y - 0.24 + 0.5 * canvas.x**2) * 26)
    mouth = torch.exp(-((canvas.x / 0.17) ** 4 + ((canvas.y - 0.34) / 0.07) ** 4))
    cover = below * (1 - mouth) * (0.5 - head / canvas.pixel).clamp(0, 1)
    colour = 0.50 * _hair_colour(canvas) + 0.12 * _skin(canvas)
    canvas.shade(0.78 * dark * cover, colour)


def _hair_in_front(canvas: _Canvas) -> None:
    width, height = _face_shape(canvas)
    colour = _hair_colour(canvas)
    recede = 0.05 * torch.sigmoid(canvas("male") - canvas("young"))
    line = -0.36 * height / 0.56 - recede + 0.05 * canvas("fringe") * 0.8
    parting = 0.12 * torch.tanh(canvas("parting"))
    curve = line + 0.55 * (canvas.x - parting) ** 2 - 0.03 * torch.cos(9 * (canvas.x - parting))
    cap = torch.maximum(canvas.ellipse(0.0, -0.06, width * 1.10, height * 1.06), canvas.y - curve)
    canvas.paint(cap, colour)
    shine = torch.exp(-(((canvas.x + 0.15) / 0.2) ** 2 + ((canvas.y + 0.52) / 0.05) ** 2))
    canvas.shade(0.25 * shine, 0.5 * colour + 0.5)


def _glasses(canvas: _Canvas) -> None:
    worn = canvas.soft("glasses", 3.0)
    frame = canvas.colour(0.12, 0.12, 0.16)
    for side in (-1, 1):
        rim = canvas.ellipse(side * 0.18, -0.02, 0.135, 0.115).abs() - 0.016
        canvas.paint(rim, frame, worn)
    canvas.paint(canvas.stroke(0.0, -0.04, 0.05, 0.013), frame, worn)


def _light(canvas: _Canvas) -> None:
    side = 1 + 0.10 * canvas("light") * canvas.still_x - 0.05 * canvas.still_y
    canvas.pixels = canvas.pixels * (side * (1 + 0.05 * canvas("exposure")))[:, None]
