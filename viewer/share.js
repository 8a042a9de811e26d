// What is seen, to be shown to others: its address, a page that needs no server, a picture, and the heads going off and on.

import {changes} from './changes.js';
import {ask} from './connection.js';
import {data, keyOf, originOf} from './data.js';
import {byId, element} from './dom.js';
import {gates} from './gates.js';
import {gifOf} from './gif.js';
import {look} from './look.js';
import {colouring} from './measures.js';
import {save} from './save.js';
import {sides} from './sides.js';
import {defaults, state} from './state.js';
import {viewDrawing} from './view.js';

const seconds = 1.6;  // for which each picture of an animation is seen

export const sharing = {
  settled: null,  // waits for what is being read; a promise
  name: () => data.title.replace(/[^\w.-]+/g, '-').replace(/\.gguf$/, ''),
  say(words) { byId('shared').textContent = words; },

  words() {
    const off = [...gates.values.keys()];
    return !off.length ? 'All heads are on' : off.length > 12 ? `Without ${off.length} heads, or with their gates turned` :
      `Gates turned: ${gates.text().replaceAll(',', ', ')}`;
  },

  async address() {
    await navigator.clipboard.writeText(location.href);
    sharing.say('The address is in the clipboard. It works while this server does.');
  },

  // In it, the view is as it is here.
  async page() {
    sharing.say('Making the file …');
    const own = Object.entries({...state, ...(sides.all.length > 1 && !state.against ? {against: String(1 - Number(state.model))} : {})});
    const view = own.filter(([name, value]) => !['text', 'then', 'off', 'versus', 'change'].includes(name) && value !== defaults[name]);
    const page = await ask('file', {sides: sides.all.map(({about, gates: list}) => ({...about, gates: list})), view: String(new URLSearchParams(view))});
    save.file(`${sharing.name()}.html`, 'text/html', page);
    sharing.say('Saved. The file needs no server and no network.');
  },

  async pixels() {
    const canvas = await save.canvas(viewDrawing(sharing.words()), 1);
    return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  },
  // With all heads on and as it is now; if all are on now, without the head that is looked at.
  async animation() {
    sharing.say('Recording …');
    const now = gates.values, without = now.size ? now : new Map([[originOf(look.head()), 0]]), frames = [], pin = state.pin;
    state.pin = keyOf(look.head());
    for (const values of [new Map(), without]) {
      gates.set(values);
      await sharing.settled();
      await look.show();
      if (colouring() === 'changed') await changes.find();
      frames.push(await sharing.pixels());
    }
    state.pin = pin;
    gates.set(now);
    await sharing.settled();
    const [width, height] = ['width', 'height'].map((name) => Math.max(...frames.map((frame) => frame[name])));
    save.file(`${sharing.name()}.gif`, 'image/gif', new Blob([gifOf(frames.map((frame) => framed(frame, width, height)), seconds)]));
    sharing.say('Saved.');
  },
};

// On paper of this size.
function framed(frame, width, height) {
  if (frame.width === width && frame.height === height) return frame;
  const canvas = element('canvas', {width, height}), pen = canvas.getContext('2d');
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, width, height);
  pen.putImageData(frame, 0, 0);
  return pen.getImageData(0, 0, width, height);
}

// One at a time; what goes wrong is said.
const doing = (act) => async (event) => {
  const buttons = [...byId('share').querySelectorAll('button')];
  buttons.forEach((one) => { one.disabled = true; });
  await act().catch((error) => sharing.say(error.message));
  buttons.forEach((one) => { one.disabled = false; });
  event.target.focus();
};
const shareButton = (id, text, act) => element('button', {type: 'button', id, onclick: doing(act)}, text);

export const sharePanel = () => element('details', {id: 'share'}, element('summary', {}, 'Share'), element('div', {},
  shareButton('share-address', 'Copy the address', sharing.address),
  element('p', {className: 'hint'}, 'It says all that is seen here: text, heads, colours.'),
  element('p', {className: 'hint'}, 'Save this view as'),
  element('div', {className: 'buttons'},
    shareButton('share-page', 'Page', sharing.page),
    shareButton('share-svg', 'SVG', async () => save.svg(sharing.name(), viewDrawing(sharing.words()))),
    shareButton('share-png', 'PNG', () => save.png(sharing.name(), viewDrawing(sharing.words()))),
    shareButton('share-gif', 'GIF', sharing.animation)),
  element('p', {className: 'hint'}, 'The page is one file for any browser, offline. The GIF shows heads going off and on.'),
  element('p', {id: 'shared', role: 'status'})));
