// What one sees, drawn once more for a file: the grid, the map and the links as they are now.

import {blocks} from './blocks.js';
import {keysOf, strongest, weightAt, weightText} from './data.js';
import {byId, shape} from './dom.js';
import {grid} from './grid.js';
import {colourOf, heat} from './heat.js';
import {links} from './links.js';
import {map} from './map.js';
import {measured, measures, roleOf} from './measures.js';
import {currentQuery} from './query.js';
import {drawing, letters, save} from './save.js';
import {currentModel, state} from './state.js';

// The grid as it is coloured now.
export function gridDrawing() {
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
      if (cell.firstChild) made.append(shape('image', {x: x + 2, y: y + 2, width: size - 4, height: size - 4, href: cell.firstChild.toDataURL(),
        preserveAspectRatio: 'none', 'image-rendering': 'pixelated'}));
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
  const names = measures().map(([name]) => name).filter((name) => !['role', 'changed', 'map'].includes(name));
  save.csv('heads', ['layer', 'head', 'role', ...names], currentModel().heads.map((head) =>
    [head.layer, head.head, roleOf(head), ...names.map((name) => measured(head, name))]));
}

const weightRow = (query) => keysOf(map.sample).map((_, key) => Number(weightAt(map.matrix, query, key).toPrecision(3)));
function saveWeights() {
  save.csv(`head-${state.head}`, ['query', ...keysOf(map.sample)], map.sample.tokens.map((token, query) => [token, ...weightRow(query)]));
}

// The links of the query that is chosen: its keys, one below the other, and how much weight each has.
function linksDrawing() {
  const query = currentQuery(map.matrix), found = strongest(map.matrix, query, links.most), keys = keysOf(map.sample);
  const ink = getComputedStyle(document.body).color, line = colourOf('--s0'), row = 24, height = row * (found.length + 1);
  const made = drawing(420, height), middle = height / 2;
  made.append(letters(`${map.sample.tokens[query]} (${query})`, {x: 130, y: middle + 4, fill: ink, 'text-anchor': 'end'}));
  found.forEach(({key, weight}, i) => {
    const y = (i + 1) * row;
    made.append(shape('path', {d: `M140 ${middle}C195 ${middle} 195 ${y} 250 ${y}`, fill: 'none', stroke: `rgb(${line})`,
      'stroke-width': 1 + 7 * weight, 'stroke-opacity': 0.25 + 0.75 * Math.sqrt(weight)}),
      letters(`${keys[key]} (${key}) ${weightText(weight)}`, {x: 258, y: y + 4, fill: ink}));
  });
  return made;
}

byId('save-grid').append('Save ', ...save.buttons({
  SVG: () => save.svg('heads', gridDrawing()), PNG: () => save.png('heads', gridDrawing()), CSV: saveHeads,
  JSON: () => save.file('heads.json', 'application/json', JSON.stringify(currentModel().heads, null, 1))}));
byId('save-map').append('Save ', ...save.buttons({
  SVG: () => save.svg(`head-${state.head}`, mapDrawing()), PNG: () => save.png(`head-${state.head}`, mapDrawing()),
  CSV: saveWeights, JSON: () => save.file(`head-${state.head}.json`, 'application/json', JSON.stringify({
    queries: map.sample.tokens, keys: keysOf(map.sample), weights: map.sample.tokens.map((_, query) => weightRow(query))}))}));
byId('save-links').append('Save ', ...save.buttons({
  SVG: () => save.svg(`head-${state.head}-links`, linksDrawing()), PNG: () => save.png(`head-${state.head}-links`, linksDrawing())}));
