// Which head says most about a text at first sight: one that looks sharply, and at what stands there.

import {keyOf} from './data.js';
import {isQuiet} from './roles.js';

const share = (head, name) => head.statistics?.[name] ?? 0;
const least = 0.1;  // of a head that tells something

// How sharply it looks elsewhere than at the first key and at itself.
const telling = (head) => (head.score ?? 0.1) * share(head, 'largest weight') *
  Math.max(0, 1 - share(head, 'on the first key') - share(head, 'on itself'));

// What goes by the words comes before what goes by their places; heads that have nothing to do come last.
const kindOf = ({role}) => isQuiet(role) ? 3 : ['previous token', 'positional'].includes(role) ? 2 : Number(role === 'duplicate');

// "layer.head"; of heads without statistics the first.
export function mostTelling(heads) {
  const drawn = heads.filter((head) => head.kept !== false), best = (some) => some.reduce((one, head) =>
    telling(head) > telling(one) ? head : one);
  const found = [0, 1, 2].map((kind) => drawn.filter((head) => kindOf(head) === kind && telling(head) >= least))
    .find((some) => some.length) ?? drawn;
  return found.length ? keyOf(best(found)) : '';
}
