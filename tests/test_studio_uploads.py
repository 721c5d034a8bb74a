"""Uploads of strangers: read, or refused in one clear line; never a crash, never a file."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
from PIL import ExifTags, Image
from starlette.testclient import TestClient

from fcfg.answers import Memory
from fcfg.studio.app import MOST_QUESTION
from fcfg.studio.pictures import FORMATS, MOST_BYTES, MOST_PIXELS
from refusal import check_form
from studios import client_of, file_of, pixels_of, png, studio_of
from tiny import tiny_pipeline


def noise(mode: str = "RGB", size: tuple[int, int] = (16, 16)) -> Image.Image:
    bytes_ = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    return Image.fromarray(bytes_).convert(mode)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, *chunks: bytes) -> bytes:
    """A PNG that claims a size, whatever it holds."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunks) + chunk(b"IEND", b"")


def bomb(width: int, height: int) -> bytes:
    """A PNG whose few bytes decompress to all its black pixels."""
    return png_of(width, height, chunk(b"IDAT", zlib.compress(bytes((width + 1) * height), 9)))


def text_bomb() -> bytes:
    return chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(80_000_000), 9))


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def deep(low: float, high: float, kind: type) -> bytes:
    values = np.linspace(low, high, 256).reshape(16, 16)
    return file_of(Image.fromarray(values.astype(kind)), "TIFF")


def see_through() -> Image.Image:
    picture = noise("RGBA")
    picture.putalpha(Image.new("L", picture.size, 128))
    return picture


PNG, JPEG = file_of(noise(size=(32, 32))), file_of(noise(size=(32, 32)), "JPEG")
WEBP, GIF = file_of(noise(), "WEBP"), file_of(noise(), "GIF")
TIFF, BMP = file_of(noise(), "TIFF"), file_of(noise(), "BMP")
EMPTY, BLACK = Image.new("P", (16, 16)), chunk(b"IDAT", zlib.compress(bytes(17 * 16)))
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'

#: What a stranger may send, none of which is a picture that can be made to fit.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"hello",
    "SVG with a script": lambda: SVG,
    "PPM": lambda: file_of(noise(), "PPM"),
    "half a PNG": lambda: PNG[: len(PNG) // 2],
    "a PNG with a broken header": lambda: flipped(PNG, 20),
    "a PNG of no width": lambda: png_of(0, 16),
    "a PNG of 2^31 pixels a side": lambda: png_of(2**31 - 1, 2**31 - 1),
    "a PNG that claims a gigapixel": lambda: png_of(32_000, 32_000),
    "a PNG just above the limit": lambda: png_of(5_001, 5_000),
    "a bomb of 30 million pixels": lambda: bomb(6_000, 5_000),
    "a line of 10,000 pixels": lambda: bomb(10_000, 1),
    "a PNG with a bomb of text": lambda: png_of(16, 16, text_bomb(), BLACK),
    "a transparent PNG": lambda: file_of(see_through()),
    "a transparent WebP": lambda: file_of(see_through(), "WEBP"),
    "a GIF with a transparent colour": lambda: file_of(EMPTY, "GIF", transparency=0),
    "half a WebP": lambda: WEBP[: len(WEBP) // 2],
    "a RIFF that is no WebP": lambda: b"RIFF\x24\0\0\0WAVEfmt " + bytes(30),
    "half a GIF": lambda: GIF[:40],
    "a GIF of 65,535 pixels a side": lambda: GIF[:6] + b"\xff\xff\xff\xff" + GIF[10:],
    "half a TIFF": lambda: TIFF[: len(TIFF) // 2],
    "a TIFF whose directory is itself": lambda: b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
    "a BMP of negative size": lambda: BMP[:18] + struct.pack("<ii", -16, -16) + BMP[26:],
    "floats": lambda: deep(0, 1, np.float32),
    "numbers below 0": lambda: deep(-5, 5, np.int32),
    "not a number": lambda: deep(np.nan, np.nan, np.float32),
    "too many bytes": lambda: bytes(MOST_BYTES + 1),
}


def test_a_hostile_upload_is_refused_in_one_clear_line(client: TestClient) -> None:
    for kind, make in HOSTILE.items():
        reply = client.post("/api/images", content=make())
        assert reply.status_code in (400, 413), kind
        check_form(reply.json()["error"], "body" if kind == "too many bytes" else "picture")
        assert len(reply.text) < 300


def exif(turn: int) -> bytes:
    entries = Image.Exif()
    entries[ExifTags.Base.Orientation] = turn
    return entries.tobytes()


#: What is not as the model wants it, but can be made so; and how the page is told.
FITTED: dict[str, tuple[Callable[[], bytes], str]] = {
    "the size of the model": (lambda: png(8), ""),
    "a larger JPEG": (lambda: JPEG, "resized to 8 x 8"),
    "a wide WebP": (lambda: file_of(noise(size=(40, 20)), "WEBP"), "cropped"),
    "a grey BMP": (lambda: file_of(noise("L"), "BMP"), "grey repeated"),
    "turned by EXIF": (lambda: file_of(noise(), "JPEG", exif=exif(6)), "turned upright"),
    "bytes behind its end": (lambda: png(8) + b"<script>alert(1)</script>", ""),
}


def test_a_picture_that_can_be_made_to_fit_is_read_and_the_change_is_told(client) -> None:
    for kind, (make, note) in FITTED.items():
        reply = client.post("/api/images", content=make())
        assert reply.status_code == 200, kind
        told = reply.json()
        assert note in "; ".join(told["notes"])
        assert len(told["id"]) == 32
        assert set(told["attributes"]) == set(told["readings"]) == {"smiling", "age", "hair"}
        stored = client.get(told["image"])
        assert stored.headers["content-type"] == "image/png"
        assert pixels_of(stored.content).shape[:2] == (8, 8)


def kept(client: TestClient, data: bytes) -> np.ndarray:
    told = client.post("/api/images", content=data).json()
    return pixels_of(client.get(told["image"]).content)


def test_a_picture_is_kept_byte_by_byte_and_what_is_too_large_is_not_read(client) -> None:
    assert np.array_equal(kept(client, png(seed=3)), pixels_of(png(seed=3)))
    wide = Image.new("L", (32, 32), 0)
    wide.paste(255, (0, 0, 32, 16))  # white above
    turned = kept(client, file_of(wide, "JPEG", exif=exif(3), quality=95))
    assert turned[:3].max() < 50
    assert turned[5:].min() > 200
    assert MOST_PIXELS < 6_000 * 5_000
    with patch("PIL.PngImagePlugin.PngImageFile.load") as load:
        assert client.post("/api/images", content=bomb(6_000, 5_000)).status_code == 400
    load.assert_not_called()
    pieces = (bytes(MOST_QUESTION // 4) for _ in range(1000))
    reply = client.post("/api/act", content=pieces)
    assert reply.status_code == 413
    check_form(reply.json()["error"], "body", f"at most {MOST_QUESTION:,} bytes")


def test_only_named_formats_are_tried_and_without_a_judge_attributes_are_asked_for(
    monkeypatch,
) -> None:
    """No other decoder of Pillow ever sees the bytes of a stranger."""
    Image.init()
    with client_of(studio_of(tiny_pipeline())) as client:
        forbidden = Mock(side_effect=AssertionError)
        for name in set(Image.OPEN) - set(FORMATS):
            monkeypatch.setitem(Image.OPEN, name, (forbidden, lambda prefix: True))
        assert client.post("/api/images", content=WEBP).status_code == 200
        assert client.post("/api/images", content=b"P6 1 1 255").status_code == 400
    forbidden.assert_not_called()
    with client_of(studio_of(tiny_pipeline(judge=False))) as client:
        told = client.post("/api/images", content=png()).json()
    assert told["readings"] == {}
    assert told["attributes"] == {"smiling": 0, "age": 50.0, "hair": "dark"}
    assert "set the attributes yourself" in told["notes"][-1]


def test_uploads_are_forgotten_before_they_fill_the_memory() -> None:
    studio = studio_of(tiny_pipeline(), uploads=Memory(6_000))
    with client_of(studio) as client:
        ids = [client.post("/api/images", content=png(seed=n)).json()["id"] for n in range(8)]
        found = [client.get(f"/api/images/{name}.png").status_code for name in ids]
        assert found == sorted(found, reverse=True)  # the oldest first
        assert 404 in found
        assert 5 * 8 * 8 * 3 < studio.uploads.size <= 6_000
        error = client.get(f"/api/images/{ids[0]}.png").json()["error"]
    assert "a recent upload" in error


def test_no_file_is_opened_for_writing(client: TestClient) -> None:
    """By an audit hook, which sees every file that the process opens."""
    written: list[object] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(arguments[1], str):
            if set(arguments[1]) & set("wax+"):
                written.append(arguments[0])
        elif watching and event in ("os.mkdir", "os.rename", "os.remove", "tempfile.mkstemp"):
            written.append(event)

    sys.addaudithook(hook)
    told = client.post("/api/images", content=png(seed=9)).json()
    body = {"image": told["id"], "attributes": told["attributes"], "do": {"smiling": "flip"}}
    reply = client.post("/api/answer", json={**body, "trust": True, "reverse": True})
    client.post("/api/images", content=JPEG[:100])
    watching = False
    assert '"done"' in reply.text
    assert written == []
