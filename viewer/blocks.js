// Long texts from far away: where a cell is smaller than a pixel, blocks of cells are drawn. A block is either its
// largest weight, so that no single link is lost, or its mean, so that areas are as dark as they are heavy.

import {weightOf} from './data.js';

export const blocks = {
  // [queries, keys] -> a byte per block of size × size cells; those at the edges have fewer.
  of(matrix, size, kind) {
    if (size === 1) return matrix;
    return (matrix.blocks ||= {})[`${kind} ${size}`] ||= blocks.summary(matrix, size, kind === 'mean');
  },

  summary({queries, keys, bytes}, size, mean) {
    const down = Math.ceil(queries / size), across = Math.ceil(keys / size);
    const found = mean ? new Float64Array(down * across) : new Uint8Array(down * across);
    for (let query = 0, i = 0; query < queries; ++query) {
      const row = Math.floor(query / size) * across;
      for (let key = 0; key < keys; ++key, ++i) {
        const at = row + Math.floor(key / size);
        if (mean) found[at] += weightOf(bytes[i]);
        else if (bytes[i] > found[at]) found[at] = bytes[i];
      }
    }
    const cells = (index, all) => Math.min(size, all - index * size);
    const byteOf = (sum, at) => 255 * Math.sqrt(sum / cells(Math.floor(at / across), queries) / cells(at % across, keys));
    return {queries: down, keys: across, bytes: mean ? Uint8Array.from(found, (sum, at) => Math.round(byteOf(sum, at))) : found};
  },

  // Small enough for a picture of 256 pixels.
  small: (matrix) => blocks.of(matrix, blocks.sizeFor(1 / matrix.keys, 1 / 256), 'max'),

  // The smallest power of two whose blocks are at least `least` in size, for cells of this size.
  sizeFor: (cell, least) => 2 ** Math.max(0, Math.ceil(Math.log2(least / cell))),
};
