// Figures and tables as files: what one sees, to be used elsewhere.

const save = {
  file(name, type, content) {
    const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
    element('a', {download: name, href: address}).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  },

  csv(name, columns, rows) {
    const cell = (value) => typeof value === 'string' ? `"${value.replaceAll('"', '""')}"` : value ?? '';
    save.file(`${name}.csv`, 'text/csv', [columns, ...rows].map((row) => row.map(cell).join(',') + '\n').join(''));
  },

  svg(name, drawing) {
    save.file(`${name}.svg`, 'image/svg+xml', new XMLSerializer().serializeToString(drawing));
  },

  // At twice the size, for paper.
  async png(name, drawing) {
    const image = new Image(), canvas = document.createElement('canvas');
    image.src = 'data:image/svg+xml,' + encodeURIComponent(new XMLSerializer().serializeToString(drawing));
    await image.decode();
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save.file(`${name}.png`, 'image/png', blob));
  },

  // Four buttons, or as many as there are makers: {SVG: () => …, CSV: () => …}.
  buttons: (makers) => Object.entries(makers).map(([kind, make]) =>
    element('button', {type: 'button', className: 'small', title: `Save as ${kind}`, onclick: make}, kind)),
};

// Paper of whole pixels: it covers the last row of a PNG.
const drawing = (...size) => {
  const [width, height] = size.map(Math.ceil);
  const made = shape('svg', {xmlns: 'http://www.w3.org/2000/svg', width, height, viewBox: `0 0 ${width} ${height}`,
    'font-family': 'sans-serif', 'font-size': 11});
  made.append(shape('rect', {width, height, fill: getComputedStyle(document.body).backgroundColor}));
  return made;
};
const letters = (words, attributes) => {
  const made = shape('text', attributes);
  made.textContent = words;
  return made;
};

// The grid as it is coloured now.
function gridDrawing() {
  const size = 28, ink = getComputedStyle(document.body).color, rows = [...grid.table.tBodies[0].rows];
  const columns = grid.table.tHead.rows[0].cells.length - 1, made = drawing(30 + columns * size, 24 + rows.length * size);
  for (let column = 0; column < columns; ++column) {
    made.append(letters(grid.table.tHead.rows[0].cells[column + 1].textContent,
      {x: 30 + (column + 0.5) * size, y: 16, fill: ink, 'text-anchor': 'middle'}));
  }
  rows.forEach((row, r) => {
    made.append(letters(row.cells[0].textContent, {x: 22, y: 24 + (r + 0.65) * size, fill: ink, 'text-anchor': 'end'}));
    [...row.cells].slice(1).forEach((place, c) => {
      const cell = place.firstChild, x = 30 + c * size, y = 24 + r * size;
      if (!cell) return;
      made.append(shape('rect', {x: x + 1, y: y + 1, width: size - 2, height: size - 2, rx: 3, stroke: '#8888',
        fill: cell.style.backgroundColor}), letters(cell.dataset.mark,
        {x: x + size / 2, y: y + 0.65 * size, fill: cell.style.color, 'text-anchor': 'middle'}));
    });
  });
  return made;
}

// The whole map of the head that is open: cells as an image, tokens as letters.
function mapDrawing() {
  const {left, top, whole: cell, width, height, sample} = map, ink = getComputedStyle(document.body).color;
  const made = drawing(width, height), every = Math.ceil(13 / cell);
  const {matrix} = map, size = blocks.sizeFor(cell, 0.5), pixels = document.createElement('canvas');
  heat.paint(pixels, blocks.of(matrix, size, state.blocks));
  // Blocks at the far edges may be cut short.
  const wide = cell * size * pixels.width, high = cell * size * pixels.height;
  const frame = shape('svg', {x: left, y: top, width: width - left, height: height - top});
  made.append(frame);
  frame.append(shape('image', {width: wide, height: high, href: pixels.toDataURL(),
    preserveAspectRatio: 'none', 'image-rendering': 'pixelated'}));
  sample.tokens.forEach((token, i) => i % every || made.append(letters(token,
    {x: left - 5, y: top + (i + 0.5) * cell + 4, fill: ink, 'text-anchor': 'end'})));
  keysOf(sample).forEach((token, i) => i % every || made.append(letters(token, {fill: ink,
    transform: `translate(${left + (i + 0.5) * cell + 4} ${top - 5}) rotate(-90)`})));
  return made;
}

function saveHeads() {
  const names = measures().map(([name]) => name).filter((name) => name !== 'role');
  save.csv('heads', ['layer', 'head', 'role', ...names], currentModel().heads.map((head) =>
    [head.layer, head.head, roleOf(head), ...names.map((name) => measured(head, name))]));
}

function saveWeights() {
  const {matrix, sample} = map, keys = keysOf(sample);
  save.csv(`head-${state.head}`, ['query', ...keys], sample.tokens.map((token, query) =>
    [token, ...keys.map((_, key) => Number(weightAt(matrix, query, key).toPrecision(3)))]));
}

byId('save-grid').append('Save ', ...save.buttons({
  SVG: () => save.svg('heads', gridDrawing()), PNG: () => save.png('heads', gridDrawing()), CSV: saveHeads,
  JSON: () => save.file('heads.json', 'application/json', JSON.stringify(currentModel().heads, null, 1))}));
byId('save-map').append('Save ', ...save.buttons({
  SVG: () => save.svg(`head-${state.head}`, mapDrawing()), PNG: () => save.png(`head-${state.head}`, mapDrawing()),
  CSV: saveWeights}));
