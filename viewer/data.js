// What the page shows, read from the JSON in it, and how to get at it. A live page puts what it asked for in its place.

import {byId} from './dom.js';

export const data = JSON.parse(byId('data').textContent);

export const nameOf = (head) => `Layer ${head.layer} · head ${head.head}`;
export const keyOf = (head) => `${head.layer}.${head.head}`;
// By which it is known in another model: of a pruned one, what it was before.
export const originOf = (head) => head.origin ? head.origin.join('.') : keyOf(head);
export const keysOf = (sample) => sample.key_tokens || sample.tokens;

// The bytes of text in base64; deflated ones are unpacked.
async function bytesOf(text, deflated) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  if (!deflated) return bytes;
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

export const indexOf = (sample, head) =>
  sample ? sample.heads.findIndex(([layer, number]) => layer === head.layer && number === head.head) : -1;

// The weights of one head over one text, [queries, keys]; null where the sample leaves the head out. A byte per weight,
// the square root of it in 255ths; a list has them by head, deflated. Unpacked when first asked for.
export async function matrixOf(sample, head) {
  const index = indexOf(sample, head);
  if (index < 0) return null;
  const queries = sample.tokens.length, keys = keysOf(sample).length, size = queries * keys;
  if (Array.isArray(sample.weights)) {
    sample.kept ||= [];
    return {queries, keys, bytes: await (sample.kept[index] ||= bytesOf(sample.weights[index], true))};
  }
  const all = await (sample.kept ||= bytesOf(sample.weights, false));
  return {queries, keys, bytes: all.subarray(index * size, (index + 1) * size)};
}

export const weightOf = (byte) => (byte / 255) ** 2;
export const weightAt = (matrix, query, key) => weightOf(matrix.bytes[query * matrix.keys + key]);
export const weightText = (weight) => weight.toFixed(weight >= 0.1 ? 2 : 3);  // as far as a byte goes

// The strongest keys of a query, at most `most`, without those of which 0.000 would be said.
export function strongest(matrix, query, most) {
  const row = matrix.bytes.subarray(query * matrix.keys, (query + 1) * matrix.keys);
  return Array.from(row, (byte, key) => ({key, weight: weightOf(byte)}))
    .filter((link) => link.weight >= 0.0005).sort((a, b) => b.weight - a.weight).slice(0, most);
}
