// What heads can be compared by: their role, their statistics, their score in every role, importance and damage.

import {changes} from './changes.js';
import {inkOf, isQuiet, noRole} from './roles.js';
import {currentModel, currentSample, state} from './state.js';

export const roleOf = (head) => head.role || noRole;
export const distinct = (values) => [...new Set(values)];

// Its number by the measure's name; undefined where it is not known.
export function measured(head, name) {
  if (name === 'importance' || name === 'damage') return head[name];
  return head.statistics?.[name] ?? head.roles?.[name];
}

// Small maps of all heads need all weights, of long texts too many.
function hasMaps() {
  const tokens = currentSample()?.tokens.length ?? Infinity;
  return currentModel().heads.length * tokens ** 2 <= 64 << 20;
}

// [value, text] of every measure that some head has.
export function measures() {
  const names = (field) => distinct(currentModel().heads.flatMap((head) => Object.keys(head[field] || {})));
  const known = ['importance', 'damage'].filter((name) => currentModel().heads.some((head) => head[name] !== undefined));
  return [['role', 'role'], ...(changes.other() ? [['changed', 'attention changed']] : []), ...(hasMaps() ? [['map', 'small maps']] : []), ...names('statistics').map((name) => [name, name]),
    ...names('roles').map((name) => [name, `role score: ${name}`]), ...known.map((name) => [name, name])];
}

// What the grid is coloured by: unless told otherwise, what changed, where something is compared, else the role.
export const usualColour = () => changes.other() ? 'changed' : 'role';
export const colouring = () => state.colour || usualColour();

// The extent of a measure over all heads: from 0, or to both sides of it.
export function extentOf(values) {
  const known = values.filter(Number.isFinite), most = Math.max(1e-9, ...known), least = Math.min(0, ...known);
  return least < 0 ? {least: Math.min(least, -most), most: Math.max(most, -least)} : {least: 0, most};
}

// The roles that occur, the commonest first, and after them those of heads that have nothing to do; none is the last.
export function rolesOf(heads) {
  const counts = new Map();
  for (const head of heads) counts.set(roleOf(head), (counts.get(roleOf(head)) || 0) + 1);
  const rank = (role) => role === noRole ? 2 : Number(isQuiet(role));
  return [...counts].sort(([a, some], [b, others]) => rank(a) - rank(b) || others - some)
    .map(([name, count]) => ({name, count, ink: inkOf(name)}));
}

// Two letters: "previous token" -> pt, "induction" -> in; none where there is little to see.
export function shortRole(role) {
  if (isQuiet(role)) return '';
  const words = role.split(/[\s-]+/);
  return words.length > 1 ? words[0][0] + words[1][0] : role.slice(0, 2);
}
