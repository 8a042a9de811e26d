// One head: its map, its links, its numbers.

import {blocks} from './blocks.js';
import {shownHeads} from './choice.js';
import {comparison} from './compare.js';
import {keyOf, keysOf, nameOf, strongest, weightText} from './data.js';
import {byId, element, number, scrolling, table} from './dom.js';
import {heat} from './heat.js';
import {hooks} from './hooks.js';
import {links} from './links.js';
import {map} from './map.js';
import {roleOf} from './measures.js';
import {meaningOf} from './roles.js';
import {save} from './save.js';
import {currentModel, currentSample, state, writeAddress} from './state.js';

export const dialog = byId('head');

// The heads beside it in its layer, and what the layer has on average, to see its numbers by; and the head to compare with.
function beside(head) {
  const layer = currentModel().heads.filter((one) => one.layer === head.layer), at = layer.findIndex((one) => one.head === head.head);
  const other = comparison.other(), neighbours = [layer[at - 1], layer[at + 1]].filter(Boolean);
  const mean = (of) => layer.reduce((sum, one) => sum + of(one), 0) / layer.length;
  return [...neighbours.map((one) => [`head ${keyOf(one)}`, (of) => of(one)]), [`layer ${head.layer}, mean`, mean],
    ...(other ? [[other.name, (of) => comparison.partner()(head) && of(comparison.partner()(head))]] : [])];
}

// [name, head -> its number] of all that is known of the head, in two groups.
function numbersOf(head) {
  const interval = head.damage_low === undefined ? '' : ` (${number(head.damage_low)} to ${number(head.damage_high)})`;
  const own = [[`damage without it${interval}`, (one) => one.damage], ['importance', (one) => one.importance]]
    .filter(([, of]) => of(head) !== undefined);
  const statistics = Object.keys(head.statistics || {}).map((name) => [name, (one) => one.statistics?.[name]]);
  const roles = Object.entries(head.roles || {}).sort(([, a], [, b]) => b - a).map(([name]) => [name, (one) => one.roles?.[name]]);
  return {number: [...own, ...statistics], 'score in the role': roles};
}

function showNumbers(head) {
  const others = beside(head), tables = Object.entries(numbersOf(head)).filter(([, rows]) => rows.length);
  byId('numbers').replaceChildren(...tables.flatMap(([title, list]) => {
    const columns = [title, `head ${keyOf(head)}`, ...others.map(([name]) => name)];
    const known = (value) => Number.isFinite(value) ? value : null;
    const rows = list.map(([name, of]) => [name, known(of(head)), ...others.map(([, value]) => known(value(of)))]);
    return [scrolling(title, table(columns, rows)),
      element('p', {className: 'hint'}, 'Save ', ...save.tableButtons(`head-${keyOf(head)}-${title}`, columns, rows))];
  }));
}

const places = ['first', 'second', 'third', 'fourth', 'fifth'];
function strongestRows(sample, matrix) {
  const keys = keysOf(sample);
  return sample.tokens.map((token, query) => {
    const cells = strongest(matrix, query, 5).map(({key, weight}) => `${keys[key]} (${key}) ${weightText(weight)}`);
    return [`${token} (${query})`, ...cells, ...Array(5 - cells.length).fill('')];
  });
}

function showStrongest() {
  const box = byId('strongest').querySelector('.scroll');
  box.replaceChildren();
  if (!byId('strongest').open || !map.matrix) return;
  const columns = ['query', ...places], rows = strongestRows(map.sample, map.matrix);
  box.append(table(columns, rows), element('p', {className: 'hint'}, 'Save ',
    ...save.tableButtons(`head-${state.head}-strongest`, columns, rows)));
}

// The other's map of the head that is open, beside the first one.
async function showOtherMap(head) {
  const other = comparison.other(), box = byId('other-map'), partner = comparison.partner()?.(head);
  box.hidden = !partner;
  if (!partner) return;
  const matrix = await hooks.matrix(comparison.sample(), partner);
  if (state.head !== keyOf(head) || comparison.other() !== other) return;
  box.hidden = !matrix;
  if (!matrix) return;
  heat.paint(box.querySelector('canvas'), blocks.small(matrix));
  box.querySelector('canvas').setAttribute('aria-label', `Attention map of this head, ${other.name}`);
  byId('other-name').textContent = other.name;
}

// The weights may take a while to come; another head may have been opened meanwhile.
async function showHead(head) {
  const sample = currentSample();
  byId('head-name').textContent = nameOf(head);
  byId('head-role').textContent = roleOf(head) + (head.score === undefined ? '' : ` ${number(head.score)}`) +
    (head.borderline ? ', borderline' : '') +
    (head.kept ? '' : ' · pruned');
  byId('head-says').textContent = meaningOf(roleOf(head)).join(' ');
  showNumbers(head);
  hooks.tools(head);
  const matrix = await hooks.matrix(sample, head);
  if (state.head !== keyOf(head) || currentSample() !== sample) return;
  byId('strongest').hidden = !matrix;
  map.show(sample, matrix);
  links.show(sample, matrix);
  showStrongest();
  await showOtherMap(head);
}

let opener = '.cell';
// What the focus returns to: the head's cell, or its card.
export const openedFrom = () => document.querySelector(`${opener}[data-head="${state.head}"]`);

export function openHead(head, step) {
  if (!dialog.open) opener = document.activeElement?.matches('.card') ? '.card' : '.cell';
  state.head = keyOf(head);
  if (!dialog.open) dialog.showModal();
  writeAddress(step);
  return showHead(head);
}

// In the order of the cards, round and round.
function moveHead(by) {
  const heads = shownHeads(), at = heads.findIndex((head) => keyOf(head) === state.head);
  if (heads.length) return openHead(heads[(Math.max(at, 0) + by + heads.length) % heads.length], false);
}

dialog.addEventListener('keydown', (event) => {
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  moveHead(by);
});
byId('previous').addEventListener('click', () => moveHead(-1));
byId('next').addEventListener('click', () => moveHead(1));
byId('close').addEventListener('click', () => dialog.close());
byId('strongest').addEventListener('toggle', showStrongest);
