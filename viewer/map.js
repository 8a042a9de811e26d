// The large attention map: cells, tokens along both edges, and a cursor under the pointer or the arrow keys.

const map = {
  canvas: byId('map'),
  pixels: document.createElement('canvas'),  // a cell each
  matrix: null, sample: null, cursor: null, pending: false,
  room: 90,  // for a token, in pixels

  show(sample, matrix) {
    Object.assign(map, {sample, matrix, cursor: null});
    map.canvas.hidden = !matrix;
    byId('readout').textContent = matrix ? 'Point at a cell to read its weight.' : 'This text has no weights for this head.';
    if (!matrix) return;
    heat.paint(map.pixels, matrix);
    map.measure();
    map.draw();
  },

  // Sizes in CSS pixels; tokens get the room that the longest needs, within reason.
  measure() {
    const pen = map.canvas.getContext('2d'), ratio = window.devicePixelRatio || 1;
    pen.font = map.font();
    const widest = (tokens) => Math.min(map.room, Math.max(...tokens.map((token) => pen.measureText(token).width))) + 8;
    const width = map.canvas.parentElement.clientWidth;
    map.left = widest(map.sample.tokens);
    map.top = widest(keysOf(map.sample));
    map.cell = Math.min((width - map.left) / map.matrix.keys, 40);
    map.width = map.left + map.cell * map.matrix.keys;
    map.height = map.top + map.cell * map.matrix.queries;
    map.canvas.width = Math.round(map.width * ratio);
    map.canvas.height = Math.round(map.height * ratio);
    map.canvas.style.width = `${map.width}px`;
    map.canvas.style.height = `${map.height}px`;
    map.ratio = ratio;
  },

  font: () => '11px ' + getComputedStyle(document.body).fontFamily,

  draw() {
    const pen = map.canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    pen.setTransform(map.ratio, 0, 0, map.ratio, 0, 0);
    pen.clearRect(0, 0, map.width, map.height);
    pen.imageSmoothingEnabled = map.cell < 2;  // else some rows would be lost
    pen.drawImage(map.pixels, map.left, map.top, map.width - map.left, map.height - map.top);
    pen.strokeStyle = style.getPropertyValue('--faint');
    pen.strokeRect(map.left + 0.5, map.top + 0.5, map.width - map.left - 1, map.height - map.top - 1);
    map.drawChosen(pen, style);
    map.drawTokens(pen, style);
    if (map.cursor) map.drawCursor(pen, style);
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
    const put = (tokens, chosen, place) => tokens.forEach((token, i) => {
      const near = chosen !== undefined && i !== chosen && Math.abs(i - chosen) < every;
      if (i !== chosen && (i % every || near)) return;
      pen.fillStyle = style.getPropertyValue(i === chosen ? '--ink' : '--soft');
      pen.save();
      place(i);
      pen.fillText(map.fitting(pen, token), 0, 4);
      pen.restore();
    });
    pen.font = map.font();
    pen.textAlign = 'right';
    put(map.sample.tokens, map.cursor?.query, (i) => pen.translate(map.left - 5, map.top + (i + 0.5) * map.cell));
    pen.textAlign = 'left';
    put(keysOf(map.sample), map.cursor?.key, (i) => {
      pen.translate(map.left + (i + 0.5) * map.cell, map.top - 5);
      pen.rotate(-Math.PI / 2);
    });
  },

  // The row of the query that is chosen, between two lines that point at it from the left.
  drawChosen(pen, style) {
    const y = map.top + currentQuery() * map.cell, height = Math.max(map.cell, 2);
    pen.strokeStyle = style.getPropertyValue('--accent');
    pen.strokeRect(map.left - 4, y - 0.5, map.width - map.left + 3.5, height + 1);
  },

  drawCursor(pen, style) {
    const {query, key} = map.cursor, x = map.left + key * map.cell, y = map.top + query * map.cell;
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
    if (map.pending) return;
    map.pending = true;
    requestAnimationFrame(() => {
      map.pending = false;
      map.draw();
    });
  },

  cellAt(event) {
    const query = Math.floor((event.offsetY - map.top) / map.cell);
    const key = Math.floor((event.offsetX - map.left) / map.cell);
    return query >= 0 && key >= 0 && query < map.matrix.queries && key < map.matrix.keys ? {query, key} : null;
  },

  onKey(event) {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    const {query, key} = map.cursor || {query: currentQuery(), key: 0};
    if (step) map.moveTo(query + step[0], key + step[1]);
    else if (event.key === 'Enter') chooseQuery(query);
    else return;
    event.preventDefault();
    event.stopPropagation();
  },
};

map.canvas.addEventListener('pointermove', (event) => {
  const cell = map.cellAt(event);
  if (cell) map.moveTo(cell.query, cell.key);
});
map.canvas.addEventListener('click', (event) => {
  const cell = map.cellAt(event);
  if (!cell) return;
  map.moveTo(cell.query, cell.key);
  chooseQuery(cell.query);
});
map.canvas.addEventListener('focus', () => {
  if (!map.cursor && map.canvas.matches(':focus-visible')) map.moveTo(currentQuery(), 0);
});
map.canvas.addEventListener('keydown', map.onKey);
