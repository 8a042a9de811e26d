// What the server has said: about the text and, if there is something to compare it with, about the other side.

import {ask} from './connection.js';
import {keyOf} from './data.js';
import {gates} from './gates.js';
import {colouring} from './measures.js';
import {state} from './state.js';

const largest = 4 << 20;  // bytes of a layer that are asked for at once

export const sides = {
  whole: null,  // the model's answer to the first text with all gates at 1
  all: [],      // of one or two: {text, then, model, gates, whole, now, ranked}

  // What a model makes of a text and the tokens `then` that were added to it, whole and with the gates of now; what is
  // known already is not asked again.
  async read(index, text, model, then = []) {
    const kept = sides.all[index], known = kept?.text === text && kept.model === model && String(kept.then) === String(then);
    const about = {text, model, ...(then.length ? {then} : {})}, whole = known ? kept.whole : await ask('read', about);
    if (!sides.whole) gates.read(state.off, whole.heads);
    const list = gates.list(whole.heads), now = list.length ? await ask('read', {...about, gates: list}) : whole;
    now.samples[0].before = now === whole ? null : whole.samples[0];
    return {text, then, model, about, gates: list, whole, now, ranked: known ? kept.ranked : null};
  },

  // The weights of a head are asked for when it is looked at, of a short text with those of its layer, and kept as long
  // as the text and the gates stay.
  async matrix(sample, head) {
    const tokens = sample.tokens.length, kept = sample.kept ||= new Map();
    if (!kept.has(keyOf(head))) sides.keep(sample, head);
    const {answer, at} = kept.get(keyOf(head));
    try {
      return {queries: tokens, keys: tokens, bytes: (await answer).subarray(at, at + tokens ** 2)};
    } catch (error) {
      kept.clear();
      throw error;
    }
  },

  keep(sample, head) {
    const size = sample.tokens.length ** 2, is = (model) => model.samples[0] === sample;
    const side = sides.all.find(({now, whole}) => is(now) || is(whole)), now = is(side.now);
    const about = {...side.about, gates: now ? side.gates : []};  // not those of this moment
    const layer = side.whole.heads.filter((one) => one.layer === head.layer);
    if (layer.length * size > largest) {
      sample.kept.set(keyOf(head), {answer: ask('head', {...about, head: [head.layer, head.head]}), at: 0});
    } else {
      const answer = ask('layer', {...about, layer: head.layer});
      layer.forEach((one, i) => sample.kept.set(keyOf(one), {answer, at: i * size}));
    }
  },

  // head -> the same of the whole model, where its number changes with the gates; roles and ranks do not.
  before() {
    if (!state.change || !gates.values.size || ['role', 'changed', 'map', 'importance', 'damage'].includes(colouring())) return null;
    const whole = new Map(sides.all[Number(state.model)].whole.heads.map((head) => [keyOf(head), head]));
    return (head) => whole.get(keyOf(head));
  },
};
