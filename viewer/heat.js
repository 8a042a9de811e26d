// Weights as shades of one hue, from the paper's colour to the ink's, in this theme.

import {weightOf} from './data.js';

// A variable of the style sheet, #rrggbb or light-dark(#rrggbb, #rrggbb), as [r, g, b]; of one that it lacks, the other's.
export function colourOf(name, other = '--role-other') {
  const found = getComputedStyle(document.documentElement).getPropertyValue(name).match(/#[0-9a-f]{6}/g);
  if (!found) return colourOf(other);
  const hex = found[matchMedia('(prefers-color-scheme: dark)').matches ? found.length - 1 : 0];
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

export const heat = {
  shades: null,  // [256, 3]
  pixels: null,  // the same, [256], as the bytes of a canvas
  below: null,   // of the other hue, for what is below zero
  inks: null,    // of roles, by name

  learn() {
    const paper = colourOf('--map');
    const towards = (ink) => Array.from({length: 256}, (_, byte) =>
      paper.map((from, i) => Math.round(from + byte / 255 * (ink[i] - from))));
    heat.shades = towards(colourOf('--shade'));
    heat.pixels = new Uint32Array(Uint8Array.from(heat.shades.flatMap((shade) => [...shade, 255])).buffer);
    heat.below = towards(colourOf('--cold'));
    heat.inks = new Map();
  },

  // Of a value between two ends, of which the lower is 0 or below; what is no number has the paper's colour.
  shadeOf(value, {least, most}) {
    const shades = value < 0 ? heat.below : heat.shades, share = value < 0 ? value / least : value / most;
    return shades[Math.round(255 * Math.max(0, Math.min(1, share))) || 0];
  },
  role(ink) {
    if (!heat.inks.has(ink)) heat.inks.set(ink, colourOf(ink));
    return heat.inks.get(ink);
  },

  // Black or white, whichever can be read on it.
  on([r, g, b]) {
    const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179 ? '#000' : '#fff';
  },

  // One pixel a cell; of all cells, or of a part.
  paint(canvas, {queries, keys, bytes}, {left, right, top, bottom} = {left: 0, right: keys, top: 0, bottom: queries}) {
    [canvas.width, canvas.height] = [right - left, bottom - top];
    const image = new ImageData(canvas.width, canvas.height), pixels = new Uint32Array(image.data.buffer);
    for (let query = top, to = 0; query < bottom; ++query) {
      for (let at = query * keys + left, end = query * keys + right; at < end; ++at) pixels[to++] = heat.pixels[bytes[at]];
    }
    canvas.getContext('2d').putImageData(image, 0, 0);
  },

  // Where the first has more weight than the second, and, in the other hue, where it has less.
  paintDifference(canvas, now, then) {
    [canvas.width, canvas.height] = [now.keys, now.queries];
    const image = new ImageData(canvas.width, canvas.height);
    now.bytes.forEach((byte, i) => {
      const difference = weightOf(byte) - weightOf(then.bytes[i]);
      const shades = difference < 0 ? heat.below : heat.shades;
      image.data.set([...shades[Math.round(255 * Math.sqrt(Math.abs(difference)))], 255], 4 * i);
    });
    canvas.getContext('2d').putImageData(image, 0, 0);
  },

  key(canvas) {
    heat.paint(canvas, {queries: 1, keys: 256, bytes: Uint8Array.from({length: 256}, (_, i) => i)});
  },
};
