// The live page: a text that is typed, heads that are switched off, and what the model makes of it meanwhile.

import {say} from './connection.js';
import {data} from './data.js';
import {byId, element, number} from './dom.js';
import {gates} from './gates.js';
import {look} from './look.js';
import {showModel, start} from './page.js';
import {ranking} from './ranking.js';
import {sides} from './sides.js';
import {currentModel, state, writeAddress} from './state.js';
import {gateTools, switches} from './switches.js';

// Of the head beside the grid.
const switched = element('button', {type: 'button', id: 'look-off', onclick: () => gates.toggle([look.head()])});
byId('look-tools').prepend(switched);
look.followers.push((head) => { switched.textContent = gates.of(head) === 0 ? 'Switch on' : 'Switch off'; });

const live = {
  reading: false, again: false,

  text: () => byId('text').value,

  // Asks for what the text and the gates call for. One question at a time: what changes meanwhile is asked next.
  async read() {
    live.again = live.reading;
    if (live.reading) return;
    live.reading = true;
    do {
      live.again = false;
      await live.ask().catch(live.complain);
    } while (live.again);
    live.reading = false;
  },
  complain: (error) => say(error.message.replace(/^\[\w+\] /, ''), true),

  async ask() {
    const began = performance.now(), first = await sides.read(0, live.text(), 0);
    sides.whole = first.whole;
    const compared = Boolean(data.live.compared), versus = state.versus.trim() ? state.versus : '';
    const second = compared || versus ? sides.read(1, versus || first.text, Number(compared)) : null;
    const other = await second?.catch((error) => ({error}));
    const now = other && !other.error ? [first, other] : [first];
    if ([0, 1].some((index) => sides.all[index]?.whole !== now[index]?.whole)) ranking.stop();
    sides.all = now;
    live.take();
    const count = first.now.samples[0].tokens.length, ms = Math.round(performance.now() - began);
    say(`${count} ${count === 1 ? 'token' : 'tokens'}, read in ${ms} ms`);
    if (other?.error) live.complain(new Error(`The second text: ${other.error.message}`));
  },

  // Roles are those of the whole model; numbers are those of now.
  take() {
    const texts = sides.all.length > 1 && sides.all[0].model === sides.all[1].model;
    data.models = sides.all.map(({whole, now, ranked}, index) => ({...now,
      name: texts ? ['first text', 'second text'][index] : now.name,
      heads: now.heads.map((head, i) => ({...head, role: whole.heads[i].role, score: whole.heads[i].score, ...ranked?.[i]}))}));
    if (!currentModel()) state.model = '0';
    switches.show();
    showModel();
  },

  onGates() {
    state.off = gates.text();
    writeAddress(false);
    live.read();
  },

  onText() {
    state.text = live.text() === data.live.example || live.text().length > 4000 ? '' : live.text();
    state.token = '';
    writeAddress(false);
    live.read();
  },

  onSecondText() {
    state.versus = byId('versus').value;
    writeAddress(false);
    live.read();
  },

  // What the address says.
  show() {
    byId('text').value = state.text || data.live.example;
    byId('versus').value = state.versus;
    byId('change').checked = Boolean(state.change);
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

byId('text-hint').textContent = `${data.live.hint} Up to ${number(data.live.most_tokens)} tokens.`;
byId('grid-hint').textContent = 'A row is a layer, the first at the top. Point at a head to see it, click to keep it, ' +
  'Enter opens it; two clicks, Shift and a click, or the space bar switch it off or on; so do the numbers at the edges ' +
  'for a whole layer or column.';
byId('versus').placeholder = data.live.compared ? 'The same text, unless another one is given' : '';
say('Reading …');
start({
  fields: {text: '', off: '', versus: '', change: ''},
  show: live.show,
  matrix: sides.matrix,
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
