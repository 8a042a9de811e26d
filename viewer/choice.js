// Which heads are chosen, and in which order.

import {roleOf} from './measures.js';
import {currentModel, state} from './state.js';

export const highestImportance = () => Math.max(0, ...currentModel().heads.map((head) => head.importance ?? 0));

export function shownHeads() {
  const least = Number(state.least) * highestImportance();
  const heads = currentModel().heads.filter((head) =>
    (!state.layer || String(head.layer) === state.layer) && (!state.role || roleOf(head) === state.role) &&
    (!state.least || (head.importance ?? 0) >= least));
  const byPlace = (a, b) => a.layer - b.layer || a.head - b.head;
  const byMost = (name) => (a, b) => (b[name] ?? -Infinity) - (a[name] ?? -Infinity) || byPlace(a, b);
  const byRole = (a, b) => roleOf(a).localeCompare(roleOf(b)) || (b.score ?? 0) - (a.score ?? 0) || byPlace(a, b);
  return heads.sort(state.order === 'layer' ? byPlace : state.order === 'role' ? byRole : byMost(state.order));
}
