// Small pictures drawn large: interpolated by cubics, since browsers show the grid of pixels.

"use strict";

const LARGE = 512, REACH = 2;

// The cubic of Mitchell and Netravali, between a blur and ringing.
function cubic(distance) {
  const x = Math.abs(distance);
  if (x < 1) return (7 * x ** 3 - 12 * x ** 2 + 16 / 3) / 6;
  return x < 2 ? ((-7 / 3) * x ** 3 + 12 * x ** 2 - 20 * x + 32 / 3) / 6 : 0;
}

// For every pixel of a longer line, the pixels of the shorter one that make it, and their weights.
function taps(from, to) {
  return Array.from({ length: to }, (_, index) => {
    const centre = ((index + 0.5) * from) / to - 0.5;
    const first = Math.floor(centre) - REACH + 1;
    const places = Array.from({ length: 2 * REACH }, (_unused, offset) => first + offset);
    const weights = places.map((place) => cubic(centre - place));
    const sum = weights.reduce((a, b) => a + b);
    return places.map((place, offset) => [Math.min(from - 1, Math.max(0, place)), weights[offset] / sum]);
  });
}

// Enlarge lines of RGBA pixels; applied twice, with rows and columns exchanged in between.
function enlarge(pixels, width, height, factor) {
  const table = taps(width, width * factor);
  const found = new Float32Array(width * factor * height * 4);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < table.length; x += 1) {
      const place = (x * height + y) * 4; // transposed
      for (const [source, weight] of table[x]) {
        for (let channel = 0; channel < 4; channel += 1) found[place + channel] += weight * pixels[(y * width + source) * 4 + channel];
      }
    }
  }
  return found;
}

// A picture of the given address as pixels, and how often it fits into a large one.
async function pixelsOf(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return { data: context.getImageData(0, 0, width, height).data, width, height, factor: Math.max(1, Math.floor(LARGE / Math.max(width, height))) };
}

const known = new Map();

async function enlarged(address) {
  if (!known.has(address)) {
    const { data, width, height, factor } = await pixelsOf(address);
    const wide = enlarge(data, width, height, factor);
    known.set(address, new ImageData(new Uint8ClampedArray(enlarge(wide, height, width * factor, factor)), width * factor, height * factor));
    if (known.size > 24) known.delete(known.keys().next().value);
  }
  return known.get(address);
}

// Paint a picture on a canvas, smooth or as it is; the last call for a canvas wins.
async function paint(canvas, address) {
  const smooth = !document.body.classList.contains("pixels");
  const wanted = `${smooth} ${address}`;
  if (canvas.wanted === wanted) return;
  canvas.wanted = wanted;
  canvas.dataset.address = address;
  let image;
  if (smooth) image = await enlarged(address);
  else {
    const { data, width, height } = await pixelsOf(address);
    image = new ImageData(data, width, height);
  }
  if (canvas.wanted !== wanted) return;
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.style.setProperty("--shape", image.width / image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// A canvas with a picture; without a label it is for the eye only.
function portrait(address, label) {
  const canvas = make("canvas", label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" });
  paint(canvas, address);
  return canvas;
}

// Paint everything again, after a change between smooth and plain pixels.
function repaint() {
  for (const canvas of document.querySelectorAll("canvas[data-address]")) paint(canvas, canvas.dataset.address);
}
