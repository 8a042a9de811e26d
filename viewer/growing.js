// A language model goes on with the text, token by token: each becomes a row of the map. The tokens are kept by their
// numbers, since the text of one may be read as others.

import {byId, element} from './dom.js';
import {reading} from './reading.js';
import {sides} from './sides.js';
import {currentSample, state, writeAddress} from './state.js';

const pause = 350;  // for a row to be seen, in milliseconds
const farthest = 40;  // steps of a walk

export const growing = {
  ask: null,      // reads the text with what was added; a promise
  walking: null,  // what would stop it

  added: () => state.then === '' ? [] : state.then.split(',').map(Number),
  set(tokens) {
    state.then = tokens.join(',');
    state.token = '';
    writeAddress(false);
    return growing.ask();
  },
  // From the address.
  read() {
    if (!/^\d{1,7}(,\d{1,7})*$/.test(state.then)) state.then = '';
  },

  // Only the first text goes on.
  candidates: () => sides.all[0]?.now.samples[0].next ?? [],
  // The likeliest, or another one of those that are shown.
  step(which = 0) {
    const token = growing.candidates()[which];
    return token === undefined ? null : growing.set([...growing.added(), token]);
  },
  back: () => growing.set(growing.added().slice(0, -1)),

  async walk() {
    if (growing.walking) return growing.stop();
    const {signal} = growing.walking = new AbortController();
    growing.show();
    for (let steps = 0; steps < farthest && !signal.aborted; ++steps) {
      await growing.step();
      if (byId('status').classList.contains('wrong')) break;
      await new Promise((done) => setTimeout(done, pause));
    }
    if (!signal.aborted) growing.stop();
  },
  stop() {
    growing.walking?.abort();
    growing.walking = null;
    growing.show();
  },

  // How things stand.
  show() {
    const count = growing.added().length;
    byId('grow').hidden = !growing.candidates().length;
    byId('write').textContent = growing.walking ? 'Stop' : 'Write on';
    byId('shrink').hidden = !count;
    byId('next-token').disabled = Boolean(growing.walking);
  },
  // Those that were added are marked, and what may come next can be chosen.
  mark() {
    const tokens = [...byId('tokens').children], count = growing.added().length, first = state.model === '0';
    tokens.forEach((place, index) => place.firstChild.classList.toggle('added', first && index >= tokens.length - count));
    if (!first || !growing.candidates().length || reading.chosen() !== currentSample().tokens.length - 1) return;
    const rows = byId('outcome-body').querySelector('.predictions').tBodies[0].rows;
    [...rows].forEach((row, which) => {
      const token = row.cells[0].textContent;
      row.cells[0].replaceChildren(element('button', {type: 'button', className: 'choose', title: 'Go on with this token',
        ariaLabel: `Go on with ${row.cells[0].ariaLabel ?? token}`, onclick: () => growing.step(which)}, token));
    });
  },
};

const growButton = (id, text, title, onclick) => element('button', {type: 'button', id, title, onclick, className: 'pill'}, text);
byId('outcome-body').before(element('div', {id: 'grow', hidden: true},
  growButton('next-token', 'Next token', 'Adds the likeliest token to the text', () => growing.step()),
  growButton('write', 'Write on', 'Adds one token after the other', () => growing.walk()),
  growButton('shrink', 'Take back', 'Takes the last added token away', () => growing.back())));
byId('grow').setAttribute('role', 'group');
byId('grow').setAttribute('aria-label', 'Let the model go on');
reading.followers.push(growing.mark);
