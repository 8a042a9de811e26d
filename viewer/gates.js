// The gates that are not 1, what was done to them, and the way back.

import {data, originOf} from './data.js';

export const gates = {
  values: new Map(),  // "layer.head" -> 0 to 2; in a pruned model, by what the head was before
  past: [], future: [],
  followers: [],  // called when they change
  turned: '',  // the head whose gate is being turned: all of that is one step to undo

  of: (head) => gates.values.get(originOf(head)) ?? 1,
  text: () => [...gates.values].map(([key, value]) => value === 0 ? key : `${key}:${value}`).join(','),
  // Of a model with these heads.
  list: (heads) => [...gates.values].flatMap(([key, value]) => heads.filter((head) => originOf(head) === key)
    .map(({layer, head}) => [layer, head, value])),

  // From the address; heads that the model does not have are left out, unless there is another one that may have them.
  read(text, heads) {
    const known = data.live.compared ? {has: (key) => /^\d+\.\d+$/.test(key)} : new Set(heads.map(originOf));
    gates.values = new Map(text.split(',').map((part) => part.split(':')).map(([key, value]) => [key, Number(value ?? 0)])
      .filter(([key, value]) => known.has(key) && value >= 0 && value <= 2 && value !== 1));
  },

  set(values) {
    gates.values = values;
    gates.followers.forEach((follow) => follow());
  },

  // change(values) changes a copy; it is one step to undo.
  step(change) {
    const values = new Map(gates.values);
    change(values);
    for (const [key, value] of values) if (value === 1) values.delete(key);
    if (!gates.turned) gates.past.push(gates.values);
    gates.future = [];
    gates.set(values);
  },

  go(from, to) {
    if (!from.length) return;
    gates.turned = '';
    to.push(gates.values);
    gates.set(from.pop());
  },
  undo: () => gates.go(gates.past, gates.future),
  redo: () => gates.go(gates.future, gates.past),

  // All of them off; if they are, on.
  toggle(heads) {
    const off = heads.every((head) => gates.of(head) === 0);
    gates.turned = '';
    gates.step((values) => heads.forEach((head) => values.set(originOf(head), off ? 1 : 0)));
  },
  turn(head, value) {
    gates.step((values) => values.set(originOf(head), value));
    gates.turned = originOf(head);
  },
};
