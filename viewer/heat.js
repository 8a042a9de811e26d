// Weights as shades of one hue, from the paper's colour to the ink's, in this theme.

function colourOf(name) {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

const heat = {
  shades: null,  // [256, 3]

  learn() {
    const paper = colourOf('--map'), ink = colourOf('--shade');
    heat.shades = Array.from({length: 256}, (_, byte) => {
      return paper.map((from, i) => Math.round(from + byte / 255 * (ink[i] - from)));
    });
  },

  // One pixel a cell.
  paint(canvas, matrix) {
    canvas.width = matrix.keys;
    canvas.height = matrix.queries;
    const image = new ImageData(matrix.keys, matrix.queries);
    matrix.bytes.forEach((byte, i) => {
      image.data.set(heat.shades[byte], 4 * i);
      image.data[4 * i + 3] = 255;
    });
    canvas.getContext('2d').putImageData(image, 0, 0);
  },

  key(canvas) {
    heat.paint(canvas, {queries: 1, keys: 256, bytes: Uint8Array.from({length: 256}, (_, i) => i)});
  },
};
