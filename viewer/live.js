// The live page: a text that is typed, heads that are switched off, and what the model makes of it meanwhile.

import {say} from './connection.js';
import {data} from './data.js';
import {byId, element, number} from './dom.js';
import {gates} from './gates.js';
import {growing} from './growing.js';
import {look} from './look.js';
import {showModel, start} from './page.js';
import {ranking} from './ranking.js';
import {sharePanel, sharing} from './share.js';
import {sides} from './sides.js';
import {currentModel, state, writeAddress} from './state.js';
import {gateTools, switches} from './switches.js';
import {tour} from './tour.js';
import {tries} from './tries.js';

// Of the head beside the grid.
const switched = element('button', {type: 'button', id: 'look-off', onclick: () => gates.toggle([look.head()])});
byId('look-tools').prepend(switched);
look.followers.push((head) => { switched.textContent = gates.of(head) === 0 ? 'Switch on' : 'Switch off'; });

const usualText = data.live.examples[0].text;

const live = {
  reading: false, again: false,
  all: null,  // the promise of all that is being read

  text: () => byId('text').value,

  // Asks for what the text and the gates call for. One question at a time: what changes meanwhile is asked next.
  read() {
    live.again = live.reading;
    if (!live.reading) live.all = live.readAll();
    return live.all;
  },
  async readAll() {
    live.reading = true;
    do {
      live.again = false;
      await live.ask().catch(live.complain);
    } while (live.again);
    live.reading = false;
  },
  complain: (error) => say(error.message.replace(/^\[\w+\] /, ''), true),

  async ask() {
    const began = performance.now(), first = await sides.read(0, live.text(), 0, growing.added());
    sides.whole = first.whole;
    const compared = Boolean(data.live.compared), versus = state.versus.trim() ? state.versus : '';
    const second = compared || versus ? sides.read(1, versus || first.text, Number(compared), versus ? [] : growing.added()) : null;
    const other = await second?.catch((error) => ({error}));
    const now = other && !other.error ? [first, other] : [first];
    if ([0, 1].some((index) => sides.all[index]?.whole !== now[index]?.whole)) ranking.stop();
    sides.all = now;
    live.show();
    const count = first.now.samples[0].tokens.length, ms = Math.round(performance.now() - began);
    say(`${count} ${count === 1 ? 'token' : 'tokens'}, read in ${ms} ms`);
    if (other?.error) live.complain(new Error(`The second text: ${other.error.message}`));
  },

  // Roles are those of the whole model; numbers are those of now.
  show() {
    const texts = sides.all.length > 1 && sides.all[0].model === sides.all[1].model;
    data.models = sides.all.map(({whole, now, ranked}, index) => ({...now,
      name: texts ? ['first text', 'second text'][index] : now.name,
      heads: now.heads.map((head, i) => ({...head, role: whole.heads[i].role, score: whole.heads[i].score, ...ranked?.[i]}))}));
    if (!currentModel()) state.model = '0';
    byId('choice').querySelector('span').textContent = texts ? 'Look at' : 'Model';
    byId('compare').setAttribute('aria-expanded', !byId('second').hidden);
    switches.show();
    tries.show(live.text());
    growing.show();
    showModel();
  },

  onGates() {
    state.off = gates.text();
    writeAddress(false);
    live.read();
  },

  onText() {
    state.text = live.text() === usualText || live.text().length > 4000 ? '' : live.text();
    state.token = state.then = '';
    growing.stop();
    writeAddress(false);
    live.read();
  },
  take(text) {
    byId('text').value = text;
    live.onText();
  },

  // A field for it, with the first text: a word of that may be changed.
  compare() {
    byId('second').hidden = false;
    if (!state.versus && !data.live.compared) byId('versus').value = live.text();
    byId('versus').focus();
  },
  withoutSecond() {
    byId('versus').value = '';
    byId('second').hidden = true;
    live.onSecondText();
    byId('compare').focus();
  },
  onSecondText() {
    state.versus = byId('versus').value;
    writeAddress(false);
    live.read();
  },

  // What the address says.
  follow() {
    byId('text').value = state.text || usualText;
    byId('versus').value = state.versus;
    byId('second').hidden = !state.versus;
    byId('change').checked = Boolean(state.change);
    growing.read();
    if (sides.whole) gates.read(state.off, sides.whole.heads);
    live.read();
  },
};

function later(act, wait = 350) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
}

gates.followers.push(live.onGates);
byId('text').addEventListener('input', later(live.onText));
byId('versus').addEventListener('input', later(live.onSecondText));

byId('tries').append(element('button', {type: 'button', id: 'compare', title: 'A second text, and what it changes', onclick: live.compare}, 'Compare …'));
byId('no-second').addEventListener('click', live.withoutSecond);
growing.ask = live.read;
tries.offer(live.take);
document.querySelector('body > header').append(element('div', {className: 'buttons', id: 'visit'},
  element('button', {type: 'button', id: 'tour-begins', onclick: () => tour.go(0)}, 'Tour'), sharePanel()));
sharing.settled = () => live.all;
byId('text-hint').textContent = `${data.live.hint} Up to ${number(data.live.most_tokens)} tokens.`;
byId('grid-hint').textContent = 'A row is a layer, the first at the top. Point at a head to see it, click to keep it, ' +
  'Enter opens it; two clicks, Shift and a click, or the space bar switch it off or on; so do the numbers at the edges ' +
  'for a whole layer or column.';
byId('versus').placeholder = data.live.compared ? 'The same text, unless another one is given' : 'Another text';
say('Reading …');
start({
  fields: {text: '', then: '', off: '', versus: '', change: ''},
  show: live.follow,
  matrix: sides.matrix,
  added: () => state.model === '0' ? growing.added().length : 0,
  usual: () => data.models.length > 1 ? 1 - Number(state.model) : null,
  before: sides.before,
  takes: switches.takes,
  twice: (head) => gates.toggle([head]),
  label: switches.label,
  mark: switches.mark,
  besideRole: switches.besideRole,
  tools: gateTools.show,
});
byId('heads').hidden = false;
