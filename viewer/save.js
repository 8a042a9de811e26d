// Figures and tables as files: what one sees, to be used elsewhere.

import {element, shape} from './dom.js';

export const save = {
  file(name, type, content) {
    const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], {type}));
    element('a', {download: name, href: address}).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  },

  csv(name, columns, rows) {
    const cell = (value) => typeof value === 'string' ? `"${value.replaceAll('"', '""')}"` : value ?? '';
    save.file(`${name}.csv`, 'text/csv', [columns, ...rows].map((row) => row.map(cell).join(',') + '\n').join(''));
  },

  // A list of rows, each with its values by the names of the columns.
  json(name, columns, rows) {
    const named = rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i] ?? null])));
    save.file(`${name}.json`, 'application/json', JSON.stringify(named, null, 1));
  },

  svg(name, drawing) {
    save.file(`${name}.svg`, 'image/svg+xml', new XMLSerializer().serializeToString(drawing));
  },

  async canvas(drawing, scale) {
    const image = new Image(), canvas = document.createElement('canvas');
    image.src = 'data:image/svg+xml,' + encodeURIComponent(new XMLSerializer().serializeToString(drawing));
    await image.decode();
    [canvas.width, canvas.height] = [scale * image.width, scale * image.height];
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas;
  },
  // At twice the size, for paper.
  async png(name, drawing) {
    const canvas = await save.canvas(drawing, 2);
    canvas.toBlob((blob) => save.file(`${name}.png`, 'image/png', blob));
  },

  tableButtons: (name, columns, rows) => save.buttons({
    CSV: () => save.csv(name, columns, rows), JSON: () => save.json(name, columns, rows)}),

  // Four buttons, or as many as there are makers: {SVG: () => …, CSV: () => …}.
  buttons: (makers) => Object.entries(makers).map(([kind, make]) =>
    element('button', {type: 'button', className: 'small', title: `Save as ${kind}`, onclick: make}, kind)),
};

// Paper of whole pixels: it covers the last row of a PNG.
export const drawing = (...size) => {
  const [width, height] = size.map(Math.ceil);
  const made = shape('svg', {xmlns: 'http://www.w3.org/2000/svg', width, height, viewBox: `0 0 ${width} ${height}`,
    'font-family': 'sans-serif', 'font-size': 11});
  made.append(shape('rect', {width, height, fill: getComputedStyle(document.body).backgroundColor}));
  return made;
};
export const letters = (words, attributes) => {
  const made = shape('text', attributes);
  made.textContent = words;
  return made;
};
