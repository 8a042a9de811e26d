// What switches heads off and on: cells, rows, columns and roles of the grid, a slider in the dialog, undo and redo.

import {data} from './data.js';
import {byId, element} from './dom.js';
import {gates} from './gates.js';
import {grid} from './grid.js';
import {dialog} from './head.js';
import {roleOf} from './measures.js';
import {sides} from './sides.js';
import {currentModel, state, writeAddress} from './state.js';

export const switches = {
  // The grid asks these (hooks.js).
  takes(head, event) {
    const taken = event.shiftKey || event.ctrlKey || event.metaKey;
    if (taken) gates.toggle([head]);
    return taken;
  },
  label(what, text) {
    const heads = () => currentModel().heads.filter((head) => Object.entries(what).every(([name, at]) => head[name] === at));
    const name = what.layer === undefined ? `head ${text} of every layer` : `layer ${text}`;
    return [element('button', {type: 'button', className: 'line', title: `Switch ${name} off or on`,
      ariaLabel: `Switch ${name} off or on`, onclick: () => gates.toggle(heads())}, text)];
  },
  mark: (head) => gates.of(head) === 0 ? '×' : gates.of(head) === 1 ? '' : String(gates.of(head)),
  besideRole: (role) => [element('button', {type: 'button', className: 'small', ariaLabel: `${role}: off / on`,
    onclick: () => gates.toggle(currentModel().heads.filter((head) => roleOf(head) === role))}, 'off / on')],

  // How things stand.
  show() {
    const changed = gates.values.size, off = [...gates.values.values()].filter((value) => value === 0).length;
    const all = sides.whole.heads.length;
    byId('switched').textContent = !changed ? `All ${all} heads are on.` :
      `${off} of ${all} heads off` + (changed > off ? `, ${changed - off} turned` : '') + '.';
    byId('undo').disabled = !gates.past.length;
    byId('redo').disabled = !gates.future.length;
    byId('all-on').disabled = !changed;
    byId('change').disabled = !changed;
    byId('command').textContent = switches.command();
  },

  // That writes what is seen into a file.
  command() {
    const [first, second] = sides.all, {compared, model} = data.live;
    return `polyhead view ${quoted(model)} --prompt ${quoted(first.text)}` +
      (second && second.text !== first.text ? ` --versus ${quoted(second.text)}` : '') +
      (compared ? ` --compare ${quoted(compared)}` : '') + (gates.values.size ? ` --off ${gates.text()}` : '') +
      (first.then.length ? `  # without the ${first.then.length} tokens that were added` : '');
  },
};

// For a shell.
const quoted = (text) => /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

// In the dialog: the gate of the head that is open.
export const gateTools = {
  range: element('input', {type: 'range', id: 'gate', min: 0, max: 2, step: 0.05}),
  shown: element('output', {htmlFor: 'gate'}),
  toggle: element('button', {type: 'button', id: 'toggle'}),
  head: null,

  show(head) {
    const {range, shown, toggle} = gateTools, value = gates.of(head);
    gateTools.head = head;
    if (!range.matches(':active')) range.value = value;
    shown.textContent = value.toFixed(2);
    toggle.textContent = value === 0 ? 'Switch on' : 'Switch off';
  },
};
byId('head-tools').append(element('label', {htmlFor: 'gate'}, 'Gate'), gateTools.range, gateTools.shown, gateTools.toggle);
byId('head-tools').hidden = false;
gateTools.range.addEventListener('input', () => gates.turn(gateTools.head, Number(gateTools.range.value)));
gateTools.range.addEventListener('change', () => gates.turned = '');
gateTools.range.addEventListener('keydown', (event) => event.stopPropagation());
gateTools.toggle.addEventListener('click', () => gates.toggle([gateTools.head]));

byId('undo').addEventListener('click', gates.undo);
byId('redo').addEventListener('click', gates.redo);
byId('all-on').addEventListener('click', () => gates.step((values) => values.clear()));
byId('change').addEventListener('change', (event) => {
  state.change = event.target.checked ? '1' : '';
  writeAddress(false);
  grid.paint();
});
document.addEventListener('keydown', (event) => {
  if (event.target.matches('textarea, input')) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'z') {
    event.preventDefault();
    event.shiftKey ? gates.redo() : gates.undo();
  } else if (event.key === ' ' && event.target.matches('.cell') && !dialog.open) {
    event.preventDefault();
    gates.toggle([grid.of(event.target)]);
  }
});
