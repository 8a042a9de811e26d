// The large attention map: cells, tokens along both edges, and a cursor under the pointer or the arrow keys. Of a long
// text a part can be looked at closely: then only that is drawn.

import {blocks} from './blocks.js';
import {keysOf, weightAt, weightText} from './data.js';
import {byId, element} from './dom.js';
import {heat} from './heat.js';
import {chooseQuery, currentQuery, followQuery} from './query.js';
import {state, writeAddress} from './state.js';

export const map = {
  canvas: byId('map'),
  pixels: document.createElement('canvas'),  // what is seen: a cell each, or a block of map.size × map.size cells
  size: 0,
  matrix: null, sample: null, cursor: null, pending: false,
  zoom: 1, first: {query: 0, key: 0},  // the cell in the upper left corner
  room: 90,  // for a token, in pixels

  show(sample, matrix) {
    if (matrix?.keys !== map.matrix?.keys) Object.assign(map, {zoom: 1, first: {query: 0, key: 0}});
    Object.assign(map, {sample, matrix, cursor: null});
    map.canvas.hidden = !matrix;
    byId('readout').textContent = matrix ? 'Point at a cell to read its weight.' : 'This text has no weights for this head.';
    if (!matrix) return;
    map.measure();
    map.draw();
  },

  // What is seen: cells or, where they are smaller than a pixel of the screen, blocks of them.
  paint(pen) {
    const size = map.size = blocks.sizeFor(map.cell, 1 / map.ratio), matrix = blocks.of(map.matrix, size, state.blocks);
    const left = Math.floor(map.first.key / size), right = Math.min(matrix.keys, Math.ceil((map.first.key + map.seen.keys) / size));
    const top = Math.floor(map.first.query / size);
    const bottom = Math.min(matrix.queries, Math.ceil((map.first.query + map.seen.queries) / size));
    heat.paint(map.pixels, matrix, {left, right, top, bottom});
    pen.imageSmoothingEnabled = false;
    pen.drawImage(map.pixels, map.first.key / size - left, map.first.query / size - top, map.seen.keys / size,
      map.seen.queries / size, map.left, map.top, map.width - map.left, map.height - map.top);
  },
  // What a dot is.
  sayBlocks() {
    const {size} = map;
    byId('blocks').hidden = size === 1;
    byId('blocks').querySelector('span').textContent = `${size} × ${size}`;
    byId('blocks').querySelector('select').value = state.blocks;
  },

  // Sizes in CSS pixels; tokens get the room that the longest needs, within reason.
  measure() {
    const pen = map.canvas.getContext('2d'), ratio = window.devicePixelRatio || 1;
    pen.font = map.font();
    const widest = (tokens) => Math.min(map.room, Math.max(...tokens.map((token) => pen.measureText(token).width))) + 8;
    const width = map.canvas.parentElement.clientWidth;
    map.left = widest(map.sample.tokens);
    map.top = widest(keysOf(map.sample));
    map.whole = Math.min((width - map.left) / map.matrix.keys, 40);  // a cell, if all of them are seen
    map.width = map.left + map.whole * map.matrix.keys;
    map.height = map.top + map.whole * map.matrix.queries;
    map.canvas.width = Math.round(map.width * ratio);
    map.canvas.height = Math.round(map.height * ratio);
    map.canvas.style.width = `${map.width}px`;
    map.canvas.style.height = `${map.height}px`;
    map.ratio = ratio;
    map.look();
  },

  // Closer, or from further away; what lies at a point of the canvas stays there. Cells are 24 pixels wide at most.
  look(factor = 1, x = map.left, y = map.top) {
    const {queries, keys} = map.matrix, most = Math.max(1, 24 / map.whole), before = map.cell || map.whole;
    map.zoom = Math.max(1, Math.min(most, map.zoom * factor));
    map.cell = map.whole * map.zoom;
    map.first.key += (x - map.left) * (1 / before - 1 / map.cell);
    map.first.query += (y - map.top) * (1 / before - 1 / map.cell);
    map.stay();
    byId('zoom').hidden = most < 1.5;
    byId('zoom-out').disabled = map.zoom === 1;
    byId('zoom-in').disabled = map.zoom === most;
    map.seen = {queries: queries / map.zoom, keys: keys / map.zoom};
  },
  // Within the matrix.
  stay() {
    const {queries, keys} = map.matrix, inside = (at, size) => Math.max(0, Math.min(size - size / map.zoom, at));
    map.first = {query: inside(map.first.query, queries), key: inside(map.first.key, keys)};
  },
  pan(across, down) {
    map.first.key -= across / map.cell;
    map.first.query -= down / map.cell;
    map.stay();
    map.drawSoon();
  },
  drawSoon() {
    if (map.pending) return;
    map.pending = true;
    requestAnimationFrame(() => {
      map.pending = false;
      map.draw();
    });
  },
  x: (key) => map.left + (key - map.first.key) * map.cell,
  y: (query) => map.top + (query - map.first.query) * map.cell,

  font: () => '11px ' + getComputedStyle(document.body).fontFamily,

  draw() {
    const pen = map.canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    pen.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
    pen.clearRect(0, 0, map.width, map.height);
    const {size} = map;
    map.paint(pen);
    if (map.size !== size) map.sayBlocks();
    pen.strokeStyle = style.getPropertyValue('--faint');
    pen.strokeRect(map.left + 0.5, map.top + 0.5, map.width - map.left - 1, map.height - map.top - 1);
    map.drawTokens(pen, style);
    pen.save();
    pen.beginPath();
    pen.rect(map.left - 4, map.top - 1, map.width - map.left + 4, map.height - map.top + 1);
    pen.clip();
    map.drawChosen(pen, style);
    if (map.cursor) map.drawCursor(pen, style);
    pen.restore();
  },

  // The token, or as much of its beginning as there is room for.
  fitting(pen, token) {
    const letters = [...token];
    if (pen.measureText(token).width <= map.room) return token;
    while (letters.length && pen.measureText(letters.join('') + '…').width > map.room) letters.pop();
    return letters.join('') + '…';
  },

  // Where cells are smaller than letters, every n-th token; those of the cursor always.
  drawTokens(pen, style) {
    const every = Math.ceil(13 / map.cell);
    const put = (tokens, first, count, chosen, place) => tokens.forEach((token, i) => {
      const near = chosen !== undefined && i !== chosen && Math.abs(i - chosen) < every;
      const seen = i + 0.5 >= first && i + 0.5 <= first + count;
      if (!seen || (i !== chosen && (i % every || near))) return;
      pen.fillStyle = style.getPropertyValue(i === chosen ? '--ink' : '--soft');
      pen.save();
      place(i);
      pen.fillText(map.fitting(pen, token), 0, 4);
      pen.restore();
    });
    pen.font = map.font();
    pen.textAlign = 'right';
    put(map.sample.tokens, map.first.query, map.seen.queries, map.cursor?.query,
      (i) => pen.translate(map.left - 5, map.y(i + 0.5)));
    pen.textAlign = 'left';
    put(keysOf(map.sample), map.first.key, map.seen.keys, map.cursor?.key, (i) => {
      pen.translate(map.x(i + 0.5), map.top - 5);
      pen.rotate(-Math.PI / 2);
    });
  },

  // The row of the query that is chosen, between two lines that point at it from the left.
  drawChosen(pen, style) {
    const y = map.y(currentQuery(map.matrix)), height = Math.max(map.cell, 2);
    pen.strokeStyle = style.getPropertyValue('--accent');
    pen.strokeRect(map.left - 4, y - 0.5, map.width - map.left + 3.5, height + 1);
  },

  drawCursor(pen, style) {
    const {query, key} = map.cursor, x = map.x(key), y = map.y(query);
    pen.fillStyle = style.getPropertyValue('--cross');
    pen.fillRect(map.left, y, map.width - map.left, map.cell);
    pen.fillRect(x, map.top, map.cell, map.height - map.top);
    pen.strokeStyle = style.getPropertyValue('--accent');
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, y - 1, map.cell + 2, map.cell + 2);
    pen.lineWidth = 1;
  },

  moveTo(query, key) {
    const within = (value, size) => Math.max(0, Math.min(size - 1, value));
    map.cursor = {query: within(query, map.matrix.queries), key: within(key, map.matrix.keys)};
    const {sample, cursor} = map, weight = weightAt(map.matrix, cursor.query, cursor.key);
    const bold = (words) => element('b', {}, words);
    byId('readout').replaceChildren('Query ', bold(sample.tokens[cursor.query]), ` (${cursor.query}) → key `,
      bold(keysOf(sample)[cursor.key]), ` (${cursor.key}): weight `, bold(weightText(weight)));
    map.drawSoon();
  },

  // Where the arrow keys lead, the view follows.
  follow() {
    const {query, key} = map.cursor, {first, seen} = map;
    const shift = (at, from, count) => at < from ? at - from : Math.max(0, at + 1 - from - count);
    map.pan(-shift(key, first.key, seen.keys) * map.cell, -shift(query, first.query, seen.queries) * map.cell);
  },

  // About the cursor, or the middle.
  zoomBy(factor) {
    const {query, key} = map.cursor || {query: map.first.query + map.seen.queries / 2, key: map.first.key + map.seen.keys / 2};
    map.look(factor, map.x(key), map.y(query));
    map.drawSoon();
  },

  cellAt(event) {
    if (event.offsetX < map.left || event.offsetY < map.top) return null;
    const query = Math.floor((event.offsetY - map.top) / map.cell + map.first.query);
    const key = Math.floor((event.offsetX - map.left) / map.cell + map.first.key);
    return query >= 0 && key >= 0 && query < map.matrix.queries && key < map.matrix.keys ? {query, key} : null;
  },

  onKey(event) {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    const {query, key} = map.cursor || {query: currentQuery(map.matrix), key: 0};
    if (step) {
      map.moveTo(query + step[0], key + step[1]);
      map.follow();
    } else if (closer[event.key]) map.zoomBy(closer[event.key]);
    else if (event.key === 'Enter') chooseQuery(query);
    else return;
    event.preventDefault();
    event.stopPropagation();
  },
};

const closer = {'+': 2, '=': 2, '-': 0.5};
let dragged = 0;  // how far the pointer went while it was pressed: beyond a few pixels it is no click

followQuery(() => map.draw());
map.canvas.addEventListener('pointerdown', () => { dragged = 0; });
map.canvas.addEventListener('pointermove', (event) => {
  if (event.buttons && map.zoom > 1) {
    dragged += Math.abs(event.movementX) + Math.abs(event.movementY);
    return map.pan(event.movementX, event.movementY);
  }
  const cell = map.cellAt(event);
  if (cell) map.moveTo(cell.query, cell.key);
});
map.canvas.addEventListener('wheel', (event) => {
  if (!event.ctrlKey && map.zoom === 1) return;
  event.preventDefault();
  if (!event.ctrlKey) return map.pan(-event.deltaX, -event.deltaY);
  map.look(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
  map.drawSoon();
}, {passive: false});
map.canvas.addEventListener('click', (event) => {
  const cell = map.cellAt(event);
  if (!cell || dragged > 4) return;
  map.moveTo(cell.query, cell.key);
  chooseQuery(cell.query);
});
map.canvas.addEventListener('focus', () => {
  if (!map.cursor && map.canvas.matches(':focus-visible')) map.moveTo(currentQuery(map.matrix), 0);
});
map.canvas.addEventListener('keydown', map.onKey);
byId('blocks').addEventListener('change', (event) => {
  state.blocks = event.target.value;
  writeAddress(false);
  map.draw();
});
byId('zoom-in').addEventListener('click', () => map.zoomBy(2));
byId('zoom-out').addEventListener('click', () => map.zoomBy(0.5));
