// The text token by token, and what the model makes of it.

import {comparison} from './compare.js';
import {byId, element, number, ofToken} from './dom.js';
import {heat} from './heat.js';
import {extentOf} from './measures.js';
import {save} from './save.js';
import {currentModel, currentSample, state, writeAddress} from './state.js';

export const reading = {
  followers: [],  // called when it is drawn anew
  // The token that was chosen; else the last, if something is known of what comes after it; else none, -1.
  chosen() {
    const {tokens, predictions} = currentSample(), last = tokens.length - 1;
    return state.token !== '' ? Math.min(Number(state.token), last) : predictions ? last : -1;
  },

  show() {
    const sample = currentSample(), list = byId('tokens'), other = sample && comparison.sample();
    list.hidden = byId('token-note').hidden = !sample;
    byId('outcome').hidden = !sample?.predictions && !sample?.embedding;
    if (!sample) return;
    const at = reading.chosen(), focused = list.contains(document.activeElement);
    list.replaceChildren(...sample.tokens.map((token, index) => reading.token(sample, token, index, at)));
    if (at < 0) list.children[0].firstChild.tabIndex = 0;
    byId('token-note').textContent = at < 0 ? 'Choose a token to open heads at it.' : reading.note(sample, at);
    list.scrollLeft += reading.beyond(list, list.children[Math.max(at, 0)]);
    if (focused) list.children[Math.max(at, 0)].firstChild.focus({preventScroll: true});
    byId('other-tokens').hidden = !other;
    if (other) {
      byId('other-tokens').replaceChildren(...other.tokens.map((token, index) =>
        element('li', {}, reading.shaded(ofToken('span', {}, token), other, index))));
    }
    if (!byId('outcome').hidden) reading.outcome(sample, at, other);
    reading.followers.forEach((follow) => follow());
  },

  // How far to scroll a line that is wider than its place, so that a token is seen.
  beyond(list, token) {
    const box = list.getBoundingClientRect(), {left, right} = token.getBoundingClientRect();
    return left < box.left ? left - box.left : Math.max(0, right - box.right);
  },

  // The loss of token t is known at t - 1. The stronger the shade, the more surprising.
  lossAt: (sample, index) => index > 0 ? sample?.losses?.[index - 1] : undefined,

  token(sample, token, index, at) {
    const button = reading.shaded(ofToken('button', {type: 'button', tabIndex: index === at ? 0 : -1,
      onclick: () => reading.choose(index)}, token), sample, index);
    button.setAttribute('aria-pressed', index === at);
    return element('li', {}, button);
  },

  shaded(made, sample, index) {
    const loss = reading.lossAt(sample, index), before = reading.lossAt(sample.before, index);
    if (loss !== undefined) {
      const extent = {least: -8, most: 8};
      const colour = heat.shadeOf(before === undefined ? Math.min(loss, 8) / 2 : 2 * (loss - before), extent);
      made.style.backgroundColor = `rgb(${colour})`;
      made.style.color = heat.on(colour);
    }
    return made;
  },

  note(sample, at) {
    const loss = reading.lossAt(sample, at), before = reading.lossAt(sample.before, at);
    const words = [`Token ${at}, of 0 to ${sample.tokens.length - 1}${state.token === '' ? '' : ', at which heads open'}`];
    if (loss !== undefined) words.push(`its loss ${number(loss)}`);
    if (before !== undefined) words.push(`${signed(loss - before)} against the whole model`);
    const shade = before !== undefined ? 'The shade is the change of the loss.' : 'The stronger the shade, the less the model expected the token.';
    return words.join(', ') + '. ' + (sample.losses ? shade : '');
  },

  choose(index) {
    const {tokens, predictions} = currentSample();
    state.token = predictions && index === tokens.length - 1 ? '' : String(index);
    reading.show();
    writeAddress(false);
  },

  // Of the text and, beside it, of the one to compare with.
  outcome(sample, at, other) {
    byId('outcome').classList.toggle('compared', Boolean(other));
    byId('outcome-name').replaceChildren(...(other ? ['Side by side'] : reading.title(sample, at)));
    const sides = !other ? reading.parts(sample, at) : [[sample, currentModel(), at],
      [other, comparison.other(), comparison.place(sample, other, at)]].map(([one, {name}, place]) => element('div', {},
      element('h4', {}, `${name}: `, ...reading.title(one, place)), ...reading.parts(one, place)));
    byId('outcome-body').replaceChildren(...sides, ...reading.similarity(sample, other));
  },

  classes: (sample) => Boolean(sample.classes),
  title: (sample, at) => sample.embedding ? ['Embedding'] : reading.classes(sample) ? ['Class'] :
    ['Next, after ', element('span', {className: 'quoted'}, sample.tokens[at]), ` (${at})`],

  parts(sample, at) {
    if (sample.embedding) return reading.embedding(sample);
    const row = reading.classes(sample) ? 0 : at;
    const rows = sample.predictions.flatMap((likely, place) => likely.map(([token, probability]) =>
      [...(reading.classes(sample) ? [] : [place, sample.tokens[place]]), token, probability]));
    const columns = [...(reading.classes(sample) ? ['class'] : ['place', 'after', 'token']), 'probability'];
    return [...reading.predictions(sample.predictions[row], sample.before?.predictions[row]), ...reading.losses(sample),
      element('p', {className: 'hint'}, 'Save ', ...save.tableButtons('predictions', columns, rows))];
  },

  // Of two embeddings.
  similarity(sample, other) {
    if (!other?.embedding || other.embedding.length !== sample.embedding?.length) return [];
    const of = (a, b) => cosine(a.embedding, b.embedding), now = of(sample, other);
    const change = sample.before ? ` (${signed(now - of(sample.before, other.before))} against the whole model)` : '';
    return [element('p', {className: 'total'}, 'Similarity of the two ', element('b', {}, now.toFixed(3)), ` (cosine)${change}`)];
  },

  // Bars of what is likely now; a line where it was in the whole model.
  predictions(now, before) {
    const was = new Map(before);
    const rows = now.map(([token, probability]) => {
      const bar = element('span', {className: 'chance'}, element('span', {}));
      bar.firstChild.style.width = `${100 * probability}%`;
      if (was.has(token)) {
        const mark = element('i', {});
        mark.style.left = `${100 * was.get(token)}%`;
        bar.append(mark);
      }
      return element('tr', {}, ofToken('td', {className: 'quoted'}, token), element('td', {className: 'wide'}, bar),
        element('td', {className: 'number'}, percent(probability)),
        ...(before ? [element('td', {className: 'number'},
          was.has(token) ? signed(100 * (probability - was.get(token)), 1) : 'new')] : []));
    });
    const columns = ['token', '', 'probability', ...(before ? ['change, points'] : [])];
    const head = columns.map((name, i) => name ? element('th', {scope: 'col', className: i > 1 ? 'number' : ''}, name) :
      element('td', {}));
    const gone = (before || []).filter(([token]) => !now.some(([one]) => one === token)).map(([token]) => token);
    return [element('table', {className: 'predictions'}, element('thead', {}, element('tr', {}, ...head)),
      element('tbody', {}, ...rows)),
      ...(gone.length ? [element('p', {className: 'hint'}, `No longer among the likeliest: ${gone.join(' ')}`)] : [])];
  },

  losses(sample) {
    if (!sample.losses?.length) return [];
    const mean = (one) => one.losses.reduce((sum, loss) => sum + loss, 0) / one.losses.length, now = mean(sample);
    const change = sample.before ? ` (${signed(now - mean(sample.before))} against the whole model)` : '';
    return [element('p', {className: 'total'}, 'Mean loss of the text ', element('b', {}, now.toFixed(3)), ` nats${change}`)];
  },

  embedding(sample) {
    const canvas = element('canvas', {className: 'strip', width: sample.embedding.length, height: 1});
    const extent = extentOf(sample.embedding), pen = canvas.getContext('2d');
    sample.embedding.forEach((value, x) => {
      pen.fillStyle = `rgb(${heat.shadeOf(value, extent)})`;
      pen.fillRect(x, 0, 1, 1);
    });
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${sample.embedding.length} numbers, from ${number(Math.min(...sample.embedding))} to ${number(Math.max(...sample.embedding))}`);
    const distance = sample.before && 1 - cosine(sample.embedding, sample.before.embedding);
    return [canvas, element('p', {className: 'hint'}, `The mean over all tokens: ${sample.embedding.length} numbers, one hue below zero, the other above.`),
      ...(sample.before ? [element('p', {className: 'total'}, 'Cosine distance ', element('b', {}, number(distance)),
        ' from the whole model')] : [])];
  },
};

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 2 : 1)} %`;

function signed(value, digits) {
  const rounded = Number(digits === undefined ? value.toPrecision(3) : value.toFixed(digits)) + 0;  // no −0
  return (rounded > 0 ? '+' : '') + number(rounded);
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

byId('tokens').addEventListener('keydown', (event) => {
  const step = {ArrowLeft: -1, ArrowRight: 1}[event.key], next = reading.chosen() + step;
  if (!step || next < 0 || next >= currentSample().tokens.length) return;
  event.preventDefault();
  reading.choose(next);
});
