// Two models, or a model on two texts, side by side: the one that is looked at and another with the same heads.

import {data, keyOf, originOf} from './data.js';
import {hooks} from './hooks.js';
import {currentModel, state} from './state.js';

export const comparison = {
  // Or those that are left of the other's.
  sameHeads(a, b) {
    if (![a, b].some(({heads}) => heads.some(({origin}) => origin))) {
      return a.heads.length === b.heads.length && a.heads.every((head, i) => keyOf(head) === keyOf(b.heads[i]));
    }
    const within = (one, all) => one.heads.every((head) => all.heads.some((other) => originOf(other) === originOf(head)));
    return within(a, b) || within(b, a);
  },

  // [index, name] of what the model that is looked at can be compared with.
  choices: () => [...data.models.entries()].filter(([index, model]) =>
    index !== Number(state.model) && comparison.sameHeads(model, currentModel())).map(([index, {name}]) => [index, name]),

  // The other model, or null.
  other() {
    const at = state.against === '' ? hooks.usual() : state.against === 'none' ? null : Number(state.against);
    return comparison.choices().some(([index]) => index === at) ? data.models[at] : null;
  },
  // Its text that corresponds to the one that is looked at.
  sample() {
    const samples = comparison.other()?.samples;
    return samples ? samples[Math.min(Number(state.sample), samples.length - 1)] : null;
  },
  // head -> the same head of the other model, undefined where that has lost it; null if nothing is compared.
  partner() {
    const other = comparison.other(), heads = new Map(other?.heads.map((head) => [originOf(head), head]));
    return other && ((head) => heads.get(originOf(head)));
  },
  // Where the texts are the same tokens, the same place; else as far from the end as the chosen one.
  place(sample, other, at) {
    const same = sample.tokens.length === other.tokens.length, back = sample.tokens.length - 1 - at;
    return same ? at : Math.max(0, other.tokens.length - 1 - back);
  },
};
