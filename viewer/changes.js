// How much the attention of each head differs between what is looked at and what that is compared with: another text,
// another model, or the same model with all heads on.

import {comparison} from './compare.js';
import {keyOf, keysOf, weightOf} from './data.js';
import {hooks} from './hooks.js';
import {currentModel, currentSample} from './state.js';

const mostWeights = 16 << 20;  // weights of all heads together
const weights = Float64Array.from({length: 256}, (_, byte) => weightOf(byte));

// How many tokens at the beginning and at the end are the same; of texts of one length each is compared with that at its place.
function alike(one, other) {
  const least = Math.min(one.length, other.length);
  if (one.length === other.length) return {first: least, last: 0};
  let first = 0, last = 0;
  while (first < least && one[first] === other[first]) ++first;
  while (last < least - first && one[one.length - 1 - last] === other[other.length - 1 - last]) ++last;
  return {first, last};
}

// Of a head: the share of its weight that lies elsewhere, as a mean over the queries that both texts have, from 0 to 1. What
// lies on keys that only one of them has counts as one key.
function changeOf(a, b, {first, last}) {
  const places = (size) => [...Array(first).keys(), ...Array.from({length: last}, (_, i) => size - last + i)];
  const queries = [places(a.queries), places(b.queries)], keys = [places(a.keys), places(b.keys)], count = queries[0].length;
  if (!count) return undefined;
  let sum = 0;
  for (let i = 0; i < count; ++i) {
    const from = queries[0][i] * a.keys, to = queries[1][i] * b.keys;
    let rest = 0;
    for (let j = 0; j < keys[0].length; ++j) {
      const difference = weights[a.bytes[from + keys[0][j]]] - weights[b.bytes[to + keys[1][j]]];
      sum += Math.abs(difference);
      rest -= difference;
    }
    if (count < a.queries || count < b.queries) sum += Math.abs(rest);
  }
  return Math.min(1, sum / 2 / count);
}

export const changes = {
  values: new Map(),  // "layer.head" -> its change
  of: [],             // the two samples that these were found of
  finding: null,      // those that they are being found of
  found: null,        // when they are; a promise
  followers: [],      // called when they are there

  // The sample that the current one is compared with; null if there is none, or if they have too many weights.
  other() {
    const sample = currentSample(), other = comparison.sample() ?? sample?.before ?? null;
    const size = (one) => one.tokens.length * keysOf(one).length * currentModel().heads.length;
    return sample && other && !sample.key_tokens && !other.key_tokens && size(sample) <= mostWeights && size(other) <= mostWeights ? other : null;
  },
  name: () => comparison.other()?.name ?? 'the whole model',

  // Finds them, if they are not known; until then the last ones are shown.
  find() {
    const pair = [currentSample(), changes.other()], is = (one) => one?.[0] === pair[0] && one[1] === pair[1];
    if (!is(changes.of) && !is(changes.finding)) changes.found = changes.findOf(pair);
    return changes.found;
  },
  async findOf(pair) {
    changes.finding = pair;
    const partner = comparison.partner() ?? ((head) => head), values = new Map(), aligned = alike(pair[0].tokens, pair[1].tokens), heads = currentModel().heads;
    for (const head of heads) {
      if (!partner(head)) continue;
      const both = [await hooks.matrix(pair[0], head).catch(() => null), await hooks.matrix(pair[1], partner(head)).catch(() => null)];
      if (changes.finding !== pair) return;  // something else is looked at by now
      if (both[0] && both[1]) values.set(keyOf(head), changeOf(...both, aligned));
    }
    Object.assign(changes, {values, of: pair, finding: null});
    changes.followers.forEach((follow) => follow());
  },
  valueOf: (head) => changes.values.get(keyOf(head)),

  // The heads that changed most, at most ten.
  largest: () => currentModel().heads.filter((head) => changes.valueOf(head) > 0.0005)
    .sort((a, b) => changes.valueOf(b) - changes.valueOf(a)).slice(0, 10),
};
