// What the page shows, and how to get at it. A live page gets it elsewhere (live.js).

const data = JSON.parse(byId('data').textContent);

const nameOf = (head) => `Layer ${head.layer} · head ${head.head}`;
const keyOf = (head) => `${head.layer}.${head.head}`;
const keysOf = (sample) => sample.key_tokens || sample.tokens;

// A byte per weight, the square root of it in 255ths; decoded when first asked for.
function bytesOf(sample) {
  if (sample.bytes) return sample.bytes;
  const text = atob(sample.weights);
  sample.bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) sample.bytes[i] = text.charCodeAt(i);
  return sample.bytes;
}

// The weights of one head over one text, [queries, keys]; null where the sample leaves the head out.
function matrixOf(sample, head) {
  const index = sample ? sample.heads.findIndex(([layer, number]) => layer === head.layer && number === head.head) : -1;
  if (index < 0) return null;
  const queries = sample.tokens.length, keys = keysOf(sample).length, size = queries * keys;
  return {queries, keys, bytes: bytesOf(sample).subarray(index * size, (index + 1) * size)};
}

// Where weights come from, and what follows when the page is ready and when its address changes.
const source = {
  matrix: async (sample, head) => matrixOf(sample, head),
  start: () => showModel(),
  onAddress: () => showModel(),
};

const weightOf = (byte) => (byte / 255) ** 2;
const weightAt = (matrix, query, key) => weightOf(matrix.bytes[query * matrix.keys + key]);
const weightText = (weight) => weight.toFixed(weight >= 0.1 ? 2 : 3);  // as far as a byte goes

// The strongest keys of a query, at most `most`, without those that weigh nothing.
function strongest(matrix, query, most) {
  const row = matrix.bytes.subarray(query * matrix.keys, (query + 1) * matrix.keys);
  return Array.from(row, (byte, key) => ({key, weight: weightOf(byte)}))
    .filter((link) => link.weight > 0).sort((a, b) => b.weight - a.weight).slice(0, most);
}
