// The page as a whole: the order in which it comes up, and what makes it draw again.

import {comparison} from './compare.js';
import {data, keyOf} from './data.js';
import {byId} from './dom.js';
import './drawings.js';
import {fit} from './fit.js';
import {grid} from './grid.js';
import {dialog, openHead, openedFrom} from './head.js';
import {showHeads} from './heads.js';
import {heat} from './heat.js';
import {hooks} from './hooks.js';
import {links} from './links.js';
import {look} from './look.js';
import {map} from './map.js';
import {showAbout, showFigures, showSections, showTables} from './overview.js';
import {currentQuery} from './query.js';
import {currentModel, defaults, readAddress, state, writeAddress} from './state.js';

export function showModel() {
  if (!data.models.length) return;
  showHeads();
  const head = currentModel().heads.find((one) => keyOf(one) === state.head);
  if (head) return openHead(head, false);
  state.head = '';
  if (dialog.open) dialog.close();
  return look.show();
}

function redraw() {
  heat.learn();
  heat.key(document.querySelector('#head .key canvas'));
}

function resize() {
  fit();
  if (!dialog.open) look.show();
  if (!dialog.open || !map.matrix) return;
  map.measure();
  map.draw();
  links.choose(currentQuery(map.matrix));
}

// With what a live page does otherwise, if it is one.
export function start(given = {}) {
  if (data.schema !== 1) throw new Error(`this page reads schema 1, found ${data.schema}`);
  Object.assign(hooks, {show: showModel}, given);
  for (const all of [defaults, state]) Object.assign(all, hooks.fields);
  showAbout();
  showFigures();
  showTables();
  showSections();
  readAddress();
  redraw();
  hooks.show();
  window.addEventListener('popstate', () => {
    if (!readAddress()) return;
    look.focused = null;
    hooks.show();
  });
  window.addEventListener('resize', resize);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    redraw();
    showModel();
  });
}

dialog.addEventListener('close', () => {
  const from = openedFrom();
  if (state.head) {
    Object.assign(state, {head: '', query: ''});
    writeAddress(false);
  }
  grid.paint();
  look.show();
  if (from?.matches('.cell')) grid.focus(from);
  else from?.focus();
});
byId('look-at-other').addEventListener('click', () => {
  const from = state.model;
  state.model = String(data.models.indexOf(comparison.other()));
  state.against = from;
  writeAddress(false);
  showModel();
});
