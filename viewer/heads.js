// The heads of a model: the fields that choose among them, and each as a card that is drawn when it comes into view.

import {blocks} from './blocks.js';
import {highestImportance, shownHeads} from './choice.js';
import {comparison} from './compare.js';
import {data, indexOf, keyOf, matrixOf} from './data.js';
import {byId, element, number} from './dom.js';
import {fit} from './fit.js';
import {grid} from './grid.js';
import {openHead} from './head.js';
import {heat} from './heat.js';
import {hooks} from './hooks.js';
import {look} from './look.js';
import {distinct, roleOf} from './measures.js';
import {reading} from './reading.js';
import {currentModel, currentSample, defaults, state, writeAddress} from './state.js';

const controls = byId('choice');  // its fields stand in several places
const orders = [['layer', 'by layer'], ['importance', 'by importance'], ['damage', 'by damage'], ['role', 'by role']];

// Offers the choices; a state that is none of them becomes the first.
function fill(name, choices) {
  const select = controls.elements[name];
  select.replaceChildren(...choices.map(([value, text]) => element('option', {value: String(value)}, text)));
  const known = choices.some(([value]) => String(value) === state[name]);
  if (!known) state[name] = String(choices[0]?.[0] ?? defaults[name]);
  select.value = state[name];
  select.parentElement.hidden = choices.length < 2;
}

function fillControls() {
  const model = currentModel();
  const measured = (name) => model.heads.some((head) => head[name] !== undefined);
  const layers = distinct(model.heads.map((head) => head.layer)).sort((a, b) => a - b);
  const roles = distinct(model.heads.map(roleOf)).sort();
  fill('model', data.models.map((one, index) => [index, one.name]));
  fill('sample', model.samples.map((one, index) => [index, one.name || `text ${index + 1}`]));
  const usual = hooks.usual(), others = comparison.choices();
  fill('against', usual === null ? [['', 'nothing'], ...others] : [['', data.models[usual].name], ['none', 'nothing'],
    ...others.filter(([index]) => index !== usual)]);
  fill('layer', [['', 'all'], ...layers.map((layer) => [layer, layer])]);
  fill('role', [['', 'all'], ...roles.map((role) => [role, role])]);
  fill('least', measured('importance') ? [['', 'any'], ...['0.1', '0.25', '0.5'].map((share) =>
    [share, `${Number(share) * 100} % of the highest`])] : [['', 'any']]);
  fill('order', orders.filter(([name]) => name === 'layer' || measured(name)));
}

const whenVisible = new IntersectionObserver((entries) => {
  for (const {isIntersecting, target} of entries) {
    if (!isIntersecting) continue;
    whenVisible.unobserve(target);
    paintThumbnail(target);
  }
}, {rootMargin: '200px'});

const paintThumbnail = (canvas) => matrixOf(currentSample(), canvas.head).then((matrix) => {
  canvas.classList.toggle('coarse', matrix.keys < 64);
  heat.paint(canvas, blocks.small(matrix));
});

// What is printed is seen, too.
window.addEventListener('beforeprint', () => document.querySelectorAll('canvas.thumb').forEach(paintThumbnail));

function thumbnail(head) {
  if (indexOf(currentSample(), head) < 0) {
    return element('span', {className: 'thumb empty'}, head.kept ? 'not in this text' : 'pruned');
  }
  const canvas = element('canvas', {className: 'thumb', head});
  canvas.setAttribute('aria-hidden', 'true');
  whenVisible.observe(canvas);
  return canvas;
}

function importanceBar(head) {
  const bar = element('span', {className: 'bar'}, element('span', {}));
  bar.firstChild.style.width = `${100 * head.importance / (highestImportance() || 1)}%`;
  const digits = number(Number(head.importance.toPrecision(2)));
  return element('span', {className: 'importance'}, bar, `importance ${digits}`);
}

function card(head) {
  const button = element('button', {type: 'button', className: 'card', onclick: () => openHead(head, true)},
    thumbnail(head), element('span', {className: 'place'}, `Head ${keyOf(head)}`),
    element('span', {className: 'score'}, head.score === undefined ? '' : head.score.toFixed(2)),
    element('span', {className: 'role', title: roleOf(head)}, roleOf(head)));
  if (head.importance !== undefined) button.append(importanceBar(head));
  button.dataset.head = keyOf(head);
  button.classList.toggle('pruned', !head.kept);
  return element('li', {}, button);
}

const groupOf = (head) =>
  state.order === 'layer' ? `Layer ${head.layer}` : state.order === 'role' ? roleOf(head) : '';

// Rows of one length as far as that goes: 9 heads are 9 or 5 + 4, not 8 + 1.
const besideEachOther = (count) => Math.ceil(count / Math.ceil(count / 10));

export function showHeads() {
  fillControls();
  reading.show();
  grid.show();
  fit();
  whenVisible.disconnect();
  const model = currentModel(), heads = shownHeads(), all = model.heads.length;
  byId('note').textContent = model.note || '';
  const pruned = heads.some((head) => head.kept === false) ? '; struck through: pruned' : '';
  byId('count').textContent = (heads.length === all ? `${all} heads` : `${heads.length} of ${all} heads`) + pruned;
  const drawable = model.samples.some((sample) => sample.heads.length);
  byId('count').hidden = byId('cards').hidden = !drawable;
  controls.elements.order.parentElement.hidden ||= !drawable;
  if (!drawable) return;
  byId('cards').replaceChildren(...distinct(heads.map(groupOf)).map((group) => {
    const list = element('ul', {className: 'cards'}, ...heads.filter((head) => groupOf(head) === group).map(card));
    list.style.setProperty('--beside', besideEachOther(list.children.length));
    return element('div', {}, ...(group ? [element('h3', {}, group)] : []), list);
  }));
}

byId('heads').addEventListener('change', (event) => {
  if (event.target.form !== controls) return;
  state[event.target.name] = event.target.value;
  if (event.target.name === 'model') Object.assign(state, {sample: '0', layer: '', role: '', least: '', query: '', token: '', against: '', pin: ''});
  showHeads();
  look.show();
  writeAddress(false);
});
