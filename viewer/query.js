// The query that is chosen in the head that is open; its map and its links follow it.

import {state, writeAddress} from './state.js';

const followers = [];
export const followQuery = (follow) => followers.push(follow);

export function chooseQuery(query) {
  state.query = String(query);
  followers.forEach((follow) => follow(query));
  writeAddress(false);
}

// The query that was chosen here, or the token above. Without either, the most telling: that with the largest weight on
// a key other than the first, which heads look at when they look at nothing.
export function currentQuery({queries, keys, bytes}) {
  const chosen = state.query || state.token;
  if (chosen !== '') return Math.min(Number(chosen), queries - 1);
  let telling = 0, most = -1;
  for (let query = 0; query < queries; ++query) {
    for (let key = 1; key < keys; ++key) {
      if (bytes[query * keys + key] > most) [most, telling] = [bytes[query * keys + key], query];
    }
  }
  return telling;
}
