// Queries on the left, keys on the right, and between them the strongest links of the query that was chosen. Of many
// keys only those that are linked are listed, beside the query.

import {keysOf, strongest, weightText} from './data.js';
import {byId, element, ofToken, shape} from './dom.js';
import {chooseQuery, currentQuery, followQuery} from './query.js';

export const links = {
  row: 24, most: 8, few: 24,
  sample: null, matrix: null,

  show(sample, matrix) {
    Object.assign(links, {sample, matrix});
    document.querySelector('.links').hidden = !matrix;
    if (!matrix) return;
    const focused = byId('queries').contains(document.activeElement);
    byId('queries').replaceChildren(...sample.tokens.map((token, query) => element('li', {},
      ofToken('button', {type: 'button', title: `query ${query}`, onclick: () => chooseQuery(query)}, token))));
    byId('side').textContent = matrix.keys > links.few ? 'strongest keys' : 'keys';
    const query = currentQuery(links.matrix);
    links.choose(query);
    if (focused) byId('queries').children[query].firstChild.focus({preventScroll: true});
  },

  // `passing`: the pointer is over it; what was chosen stays chosen.
  choose(query, passing = false) {
    const found = strongest(links.matrix, query, links.most), tokens = keysOf(links.sample);
    const listed = links.matrix.keys > links.few ? found.map(({key}) => key).sort((a, b) => a - b) : [...tokens.keys()];
    const top = Math.max(0, Math.min(query - (listed.length >> 1), links.matrix.queries - listed.length));
    const first = links.matrix.keys > links.few ? top : 0;
    if (!passing) links.markQuery(query);
    links.listKeys(listed, found, first);
    links.drawArcs(query, found, (key) => first + listed.indexOf(key));
    if (passing) return;  // a text that grows would move what the pointer is over
    const names = found.slice(0, 5).flatMap(({key, weight}, i) =>
      [i ? ', ' : '', element('b', {}, tokens[key]), ` ${weightText(weight)}`]);
    byId('summary').replaceChildren('Query ', element('b', {}, links.sample.tokens[query]), ` (${query}) → `,
      ...(names.length ? names : ['nothing']));
  },

  markQuery(query) {
    [...byId('queries').children].forEach(({firstChild}, i) => {
      firstChild.setAttribute('aria-pressed', i === query);
      firstChild.tabIndex = i === query ? 0 : -1;
    });
    // Scroll the list, not the page.
    const box = document.querySelector('.pairs');
    const middle = (query + 0.5) * links.row, margin = links.most / 2 * links.row;
    if (middle - margin < box.scrollTop || middle + margin > box.scrollTop + box.clientHeight) {
      box.scrollTop = middle - box.clientHeight / 2;
    }
  },

  listKeys(listed, found, first) {
    byId('keys').style.paddingTop = `${first * links.row}px`;
    byId('keys').replaceChildren(...listed.map((key) => {
      const link = found.find((one) => one.key === key);
      return element('li', {className: link ? 'linked' : ''},
        element('span', {className: 'token'}, keysOf(links.sample)[key]),
        element('span', {className: 'index'}, String(key)),
        element('span', {className: 'weight'}, link ? weightText(link.weight) : ''));
    }));
  },

  drawArcs(query, found, rowOf) {
    const arcs = byId('arcs'), gap = arcs.clientWidth, middle = (index) => (index + 0.5) * links.row;
    arcs.setAttribute('height', links.row * Math.max(links.matrix.queries, byId('keys').children.length));
    arcs.replaceChildren(...found.map(({key, weight}) => {
      const from = middle(query), to = middle(rowOf(key));
      return shape('path', {d: `M0 ${from}C${gap / 2} ${from} ${gap / 2} ${to} ${gap} ${to}`,
        'stroke-width': 1 + 7 * weight, 'stroke-opacity': 0.25 + 0.75 * Math.sqrt(weight)});
    }));
  },
};

followQuery((query) => links.choose(query));
byId('queries').addEventListener('pointerover', (event) => {
  const place = event.target.closest('li');
  if (place) links.choose([...byId('queries').children].indexOf(place), true);
});
byId('queries').addEventListener('pointerleave', () => links.choose(currentQuery(links.matrix), true));
byId('queries').addEventListener('keydown', (event) => {
  const step = {ArrowUp: -1, ArrowDown: 1}[event.key], query = currentQuery(links.matrix) + step;
  const next = step && byId('queries').children[query];
  if (!next) return;
  event.preventDefault();
  chooseQuery(query);
  next.firstChild.focus({preventScroll: true});
});
