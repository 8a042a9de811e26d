// The head that one looks at, beside the grid: the one under the pointer, else the one that was clicked, else the most
// telling. Its map, and its strongest links on the text itself.

import {blocks} from './blocks.js';
import {changes} from './changes.js';
import {comparison} from './compare.js';
import {keyOf, keysOf, nameOf, strongest, weightAt, weightText} from './data.js';
import {byId, element, shape} from './dom.js';
import {heightFor} from './fit.js';
import {openHead} from './head.js';
import {colourOf, heat} from './heat.js';
import {hooks} from './hooks.js';
import {roleOf} from './measures.js';
import {currentQuery} from './query.js';
import {reading} from './reading.js';
import {inkOf, meaningOf} from './roles.js';
import {currentModel, currentSample, state, writeAddress} from './state.js';
import {mostTelling} from './telling.js';

const room = 84, edge = 2;  // for a token beside the map, and for the frame, in pixels

export const look = {
  canvas: byId('look-map'),
  pixels: document.createElement('canvas'),
  pointed: null,  // the head under the pointer, and the one whose cell has or had the focus
  focused: null,
  over: null,     // the query under it, in the text or the map
  key: null,      // and the key, in the map
  sample: null, matrix: null,
  then: null,     // the map that it is compared with, if the difference is shown
  shown: '', drawn: '',  // "layer.head": that is named, and whose map is there
  followers: [],  // called when another head is looked at
  first: {text: '', key: ''},

  // The most telling one stays that while the text does, whatever is switched off or added.
  usual() {
    const tokens = currentSample()?.tokens ?? [], text = tokens.slice(0, tokens.length - hooks.added()).join('\n') + currentModel().name;
    if (look.first.text !== text) look.first = {text, key: mostTelling(currentModel().heads)};
    return look.first.key;
  },
  head() {
    const find = (key) => currentModel().heads.find((head) => keyOf(head) === key);
    return find(look.pointed) || find(look.focused) || find(state.pin) || find(look.usual());
  },

  point(head) {
    const key = head && keyOf(head);
    if (key === look.pointed) return;
    look.pointed = key;
    look.show();
  },
  focus(head) {
    look.focused = keyOf(head);
    look.show();
  },
  pin(head) {
    state.pin = keyOf(head);
    look.focused = null;
    look.show();
    writeAddress(false);
  },

  // The weights may take a while to come; another head may have been pointed at meanwhile.
  async show() {
    const sample = currentSample(), head = currentModel() && look.head();
    byId('look').hidden = !sample || !head;
    if (byId('look').hidden) return look.clear();
    look.shown = keyOf(head);
    look.followers.forEach((follow) => follow(head));
    look.name(head);
    let why = head.kept === false ? 'Pruned: it has no attention any more.' : 'This text has no weights for this head.';
    const matrix = await hooks.matrix(sample, head).catch(({message}) => {
      why = message;
      return null;
    });
    if (look.shown !== keyOf(head) || currentSample() !== sample) return;
    const then = matrix && await look.compared(head, matrix);
    if (look.shown !== keyOf(head) || currentSample() !== sample) return;
    Object.assign(look, {sample, matrix, then, over: matrix && look.over < matrix.queries ? look.over : null, key: null});
    look.canvas.hidden = !matrix;
    if (!matrix) {
      byId('difference').hidden = true;
      look.clear();
      byId('look-links').textContent = why;
      return;
    }
    look.canvas.setAttribute('aria-label', `Attention map of ${nameOf(head)}, rows are queries, columns are keys`);
    look.drawn = look.shown;
    look.measure();
    look.draw();
  },

  // Of the same size, if the difference is asked for.
  async compared(head, matrix) {
    const other = changes.other(), partner = comparison.other() ? comparison.partner()(head) : head;
    const same = Boolean(other && partner) && other.tokens.length === matrix.queries;
    byId('difference').hidden = !same;
    byId('difference').setAttribute('aria-pressed', Boolean(state.difference));
    return same && state.difference ? hooks.matrix(other, partner).catch(() => null) : null;
  },

  clear() {
    look.matrix = null;
    byId('threads').replaceChildren();
    byId('look-links').replaceChildren();
  },

  name(head) {
    const score = head.score === undefined ? '' : ` ${head.score.toFixed(2)}`;
    byId('look-name').textContent = nameOf(head);
    const dot = element('span', {className: 'dot'}), ink = inkOf(roleOf(head));
    dot.style.backgroundColor = `rgb(${heat.role(ink)})`;
    byId('look-role').replaceChildren(dot, roleOf(head) + score);
    byId('look-says').replaceChildren(...(state.difference && changes.other() ? [`In one hue what has more weight than in “${changes.name()}”,`,
      'in the other what has less.'] : meaningOf(roleOf(head))).map((words) => element('span', {}, `${words} `)));
  },

  // That is pointed at, else that whose continuation is shown; without one, the most telling.
  query() {
    if (look.over !== null) return look.over;
    const chosen = reading.chosen();
    return chosen >= 0 && chosen < look.matrix.queries ? chosen : currentQuery(look.matrix);
  },

  // Sizes in CSS pixels: as large as its place, with room for the tokens at both edges.
  measure() {
    const {canvas, matrix, sample} = look, pen = canvas.getContext('2d'), ratio = window.devicePixelRatio || 1;
    const wide = look.place = canvas.parentElement.clientWidth, high = heightFor(canvas);
    const widest = (tokens, least = 0) => Math.max(least, Math.min(room, Math.max(...tokens.map((token) => pen.measureText(token).width)))) + 8;
    look.letters = 12;
    for (let tries = 0; tries < 2; ++tries) {  // letters as large as the cells, which are as large as letters leave room for
      pen.font = look.font(look.letters);
      look.left = widest(sample.tokens, wide > 300 ? 50 : 0);
      look.top = widest(keysOf(sample));
      look.cell = Math.max(0.05, Math.min(30, (wide - look.left - edge) / matrix.keys, (high - look.top - edge) / matrix.queries));
      look.letters = Math.max(8, Math.min(12, look.cell));
    }
    look.width = look.left + look.cell * matrix.keys + edge;
    look.tall = look.top + look.cell * matrix.queries + edge;
    canvas.width = Math.round(look.width * ratio);
    canvas.height = Math.round(look.tall * ratio);
    Object.assign(canvas.style, {width: `${look.width}px`, height: `${look.tall}px`});
    look.ratio = ratio;
  },
  font: (size) => `${size}px ${getComputedStyle(document.body).fontFamily}`,

  draw() {
    if (!look.matrix || look.sample !== currentSample()) return;
    const {matrix, cell, left, top} = look, pen = look.canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    const size = blocks.sizeFor(cell, 1 / look.ratio);
    pen.setTransform(look.ratio, 0, 0, look.ratio, 0, 0);
    pen.clearRect(0, 0, look.width, look.tall);
    if (look.then) heat.paintDifference(look.pixels, matrix, look.then);
    else heat.paint(look.pixels, blocks.of(matrix, size, 'max'));
    const block = look.then ? cell : size * cell;
    pen.imageSmoothingEnabled = false;
    pen.drawImage(look.pixels, left, top, look.pixels.width * block, look.pixels.height * block);
    pen.strokeStyle = style.getPropertyValue('--faint');
    pen.strokeRect(left - 0.5, top - 0.5, look.width - left - edge + 1, look.tall - top - edge + 1);
    const query = look.query(), found = look.links(query);
    look.drawTokens(pen, style, query, found.map(({key}) => key));
    look.nameEdges(pen, style);
    pen.strokeStyle = style.getPropertyValue('--accent');
    pen.lineWidth = 1.5;
    pen.strokeRect(left - 3, top + query * cell - 0.5, look.width - left - edge + 3.5, Math.max(cell, 2) + 1);
    pen.lineWidth = 1;
    look.say(query, found);
    look.thread(query, found);
  },

  // Small letters where cells are small; where even those do not fit, every n-th token, and those that are linked.
  drawTokens(pen, style, query, linked) {
    const size = look.letters, every = Math.ceil((size - 1) / look.cell);
    pen.font = look.font(size);
    const put = (tokens, marked, place) => {
      const near = (i) => every > 1 && marked.some((one) => one !== i && Math.abs(one - i) < every);
      tokens.forEach((token, i) => {
        if (!marked.includes(i) && (i % every || near(i))) return;
        pen.fillStyle = style.getPropertyValue(marked.includes(i) ? '--ink' : '--soft');
        pen.save();
        place(i);
        pen.fillText(look.fitting(pen, token), 0, size / 3);
        pen.restore();
      });
    };
    pen.textAlign = 'right';
    put(look.sample.tokens, [query], (i) => pen.translate(look.left - 6, look.top + (i + 0.5) * look.cell));
    pen.textAlign = 'left';
    put(keysOf(look.sample), linked.slice(0, every > 1 ? 1 : 8), (i) => {
      pen.translate(look.left + (i + 0.5) * look.cell, look.top - 5);
      pen.rotate(-Math.PI / 2);
    });
  },
  // In the corner: rows look at columns.
  nameEdges(pen, style) {
    pen.font = look.font(10);
    pen.fillStyle = style.getPropertyValue('--soft');
    pen.textAlign = 'right';
    ['looks at →', 'token ↓'].forEach((words, i) => {
      if (pen.measureText(words).width < look.left - 4) pen.fillText(words, look.left - 6, look.top - 16 + 12 * i);
    });
  },
  fitting(pen, token) {
    const letters = [...token];
    if (pen.measureText(token).width <= room) return token;
    while (letters.length && pen.measureText(letters.join('') + '…').width > room) letters.pop();
    return letters.join('') + '…';
  },

  // Of a query, those that one can see.
  links: (query) => strongest(look.matrix, query, 5).filter(({weight}) => weight >= 0.02),

  say(query, found) {
    const keys = keysOf(look.sample), quoted = (token) => element('span', {className: 'quoted'}, token);
    const cell = look.key === null ? [] : [{key: look.key, weight: weightAt(look.matrix, query, look.key)}];
    byId('look-links').replaceChildren(quoted(look.sample.tokens[query]), ' looks at ', ...(cell.length ? cell : found.slice(0, 3)).flatMap(
      ({key, weight}, i) => [i ? ', ' : '', quoted(keys[key]), ` ${weightText(weight)}`]),
      ...(found.length || cell.length ? [] : ['many tokens, at each a little']));
  },

  // From the query's token to its keys', below the line; of cross-attention the keys are not in the text.
  thread(query, found) {
    const box = byId('threads').getBoundingClientRect(), tokens = [...byId('tokens').children];
    if (look.sample.key_tokens || !tokens[query]) return byId('threads').replaceChildren();
    const ink = `rgb(${colourOf('--accent')})`;
    const place = (index) => {
      const {left, right, top, bottom} = tokens[index].firstChild.getBoundingClientRect();
      return {x: (left + right) / 2 - box.left, top: top - box.top, bottom: bottom - box.top};
    };
    const from = place(query);
    byId('threads').replaceChildren(...found.filter(({key}) => key !== query).flatMap(({key, weight}) => {
      const to = place(key), same = Math.abs(from.top - to.top) < 4, down = to.top > from.top;
      const y1 = same || down ? from.bottom : from.top, y2 = same || !down ? to.bottom : to.top, bend = same ? 15 : (down ? 12 : -12);
      const opacity = 0.25 + 0.75 * Math.sqrt(weight);
      return [shape('path', {d: `M${from.x} ${y1}C${from.x} ${y1 + bend} ${to.x} ${same ? y2 + bend : y2 - bend} ${to.x} ${y2}`,
        fill: 'none', stroke: ink, 'stroke-width': 1 + 3 * weight, 'stroke-opacity': opacity}),
      shape('circle', {cx: to.x, cy: y2, r: 2 + 1.5 * weight, fill: ink, 'fill-opacity': opacity})];
    }));
  },

  at(event) {
    const query = Math.floor((event.offsetY - look.top) / look.cell), key = Math.floor((event.offsetX - look.left) / look.cell);
    const inside = look.matrix && query >= 0 && key >= 0 && query < look.matrix.queries && key < look.matrix.keys;
    return inside ? {query, key} : {query: null, key: null};
  },
  hover(query, key) {
    if (query === look.over && key === look.key) return;
    Object.assign(look, {over: query, key});
    look.draw();
  },
};

look.canvas.addEventListener('pointermove', (event) => {
  const {query, key} = look.at(event);
  look.hover(query, key);
});
look.canvas.addEventListener('pointerleave', () => look.hover(null, null));
look.canvas.addEventListener('click', (event) => {
  const {query} = look.at(event);
  if (query !== null) reading.choose(query);
});
byId('tokens').addEventListener('pointerover', (event) => {
  const place = event.target.closest('li');
  if (place && look.matrix) look.hover([...byId('tokens').children].indexOf(place), null);
});
byId('tokens').addEventListener('pointerleave', () => look.hover(null, null));
byId('tokens').addEventListener('scroll', () => look.draw());
byId('difference').addEventListener('click', () => {
  state.difference = state.difference ? '' : '1';
  writeAddress(false);
  look.show();
});
byId('closer').addEventListener('click', () => openHead(look.head(), true));
reading.followers.push(() => look.draw());
// What is said beside the grid may take room from the map's place, whose width does not depend on the map.
new ResizeObserver(() => {
  if (!look.matrix || look.canvas.parentElement.clientWidth === look.place) return;
  look.measure();
  look.draw();
}).observe(look.canvas.parentElement);
