// What is seen, as one picture: the grid, the head beside it and what the model expects.

import {keysOf} from './data.js';
import {gridDrawing} from './drawings.js';
import {byId, shape} from './dom.js';
import {colourOf, heat} from './heat.js';
import {look} from './look.js';
import {roleOf} from './measures.js';
import {reading} from './reading.js';
import {drawing, letters} from './save.js';
import {currentModel, currentSample} from './state.js';

const margin = 28, headline = 64, barsWide = 250;

const placed = (made, part, x, y) => {
  part.setAttribute('x', x);
  part.setAttribute('y', y);
  made.append(part);
};

// The map of the head that is looked at, as large as on the page.
function lookDrawing(ink) {
  const {matrix, sample, left, top: above, cell, letters: size} = look, every = Math.ceil((size - 1) / cell);
  const made = drawing(look.width, look.tall), pixels = document.createElement('canvas'), pen = look.canvas.getContext('2d');
  heat.paint(pixels, matrix);
  made.append(shape('image', {x: left, y: above, width: matrix.keys * cell, height: matrix.queries * cell, href: pixels.toDataURL(),
    preserveAspectRatio: 'none', 'image-rendering': 'pixelated'}));
  made.append(shape('rect', {x: left, y: above, width: matrix.keys * cell, height: matrix.queries * cell, fill: 'none', stroke: '#8888'}));
  made.append(shape('rect', {x: left, y: above + look.query() * cell, width: matrix.keys * cell, height: cell, fill: 'none',
    stroke: `rgb(${colourOf('--accent')})`, 'stroke-width': 1.5}));
  made.setAttribute('font-size', size);
  sample.tokens.forEach((token, i) => i % every || made.append(letters(look.fitting(pen, token),
    {x: left - 6, y: above + (i + 0.5) * cell + size / 3, fill: ink, 'text-anchor': 'end'})));
  keysOf(sample).forEach((token, i) => i % every || made.append(letters(look.fitting(pen, token), {fill: ink,
    transform: `translate(${left + (i + 0.5) * cell + size / 3} ${above - 5}) rotate(-90)`})));
  return made;
}

// After the token that is chosen, or the classes: a bar each.
function expectedDrawing(ink) {
  const sample = currentSample(), at = reading.chosen(), rows = sample.predictions?.[reading.classes(sample) ? 0 : at] ?? [];
  const made = drawing(barsWide, 30 + 26 * rows.length), bar = `rgb(${colourOf('--s0')})`;
  if (rows.length) made.append(letters(byId('outcome-name').textContent, {x: 0, y: 14, fill: ink, 'font-weight': 600}));
  rows.forEach(([token, share], row) => {
    const y = 30 + 26 * row;
    made.append(letters(token, {x: 0, y: y + 13, fill: ink}),
      shape('rect', {x: 90, y: y + 3, width: 100, height: 12, fill: '#8883'}),
      shape('rect', {x: 90, y: y + 3, width: 100 * share, height: 12, fill: bar}),
      letters(`${(100 * share).toFixed(1)} %`, {x: barsWide, y: y + 13, fill: ink, 'text-anchor': 'end'}));
  });
  return made;
}

// `words`: a line below the title.
export function viewDrawing(words) {
  const ink = getComputedStyle(document.body).color, grid = gridDrawing(), map = look.matrix ? lookDrawing(ink) : drawing(1, 1);
  const expected = expectedDrawing(ink), size = (part, name) => Number(part.getAttribute(name)), head = look.head();
  const from = margin + size(grid, 'width') + margin, to = from + size(map, 'width') + margin;
  const made = drawing(to + barsWide + margin, headline + 24 + Math.max(...[grid, map, expected].map((part) => size(part, 'height'))) + margin / 2);
  made.append(letters(document.title, {x: margin, y: 30, fill: ink, 'font-size': 20, 'font-weight': 600}),
    letters(words, {x: margin, y: 52, fill: ink, 'font-size': 14}),
    letters(`Head ${head.layer}.${head.head}: ${roleOf(head)}`, {x: from, y: headline + 14, fill: ink, 'font-size': 14, 'font-weight': 600}),
    letters(`All ${currentModel().heads.length} heads`, {x: margin, y: headline + 14, fill: ink, 'font-size': 14, 'font-weight': 600}));
  placed(made, grid, margin, headline + 24);
  placed(made, map, from, headline + 24);
  placed(made, expected, to, headline);
  return made;
}
