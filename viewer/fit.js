// All of a wide page's bench lies in the window: the grid and the map take what the text leaves of it.

import {byId} from './dom.js';

const wide = matchMedia('(min-width: 60rem)');
const topOf = (element) => element.getBoundingClientRect().top + scrollY;

// For the grid's rows, by the style sheet.
export function fit() {
  const bench = document.querySelector('.bench');
  bench.style.setProperty('--room', `${roomBelow(bench)}px`);
}

const roomBelow = (bench) => Math.max(380, innerHeight - topOf(bench) - 44);  // the line below it is seen, too

// What is left for the map: on a wide page beside the grid, on a narrow one between the grid and what is expected next.
export function heightFor(canvas) {
  const others = [...canvas.parentElement.children].filter((one) => one !== canvas);
  const taken = others.reduce((sum, one) => sum + one.offsetHeight, 0) + 14;
  if (wide.matches) return roomBelow(canvas.closest('.bench')) - taken;
  const expected = document.querySelector('.predictions');
  const below = expected ? topOf(expected) + expected.offsetHeight - topOf(byId('outcome')) : 0;
  return Math.max(200, innerHeight - topOf(canvas) - below - taken + canvas.previousElementSibling.offsetHeight - 16);
}
