// How much is lost without each head, of the side that is looked at: the server tries one after the other.

import {ask} from './connection.js';
import {data} from './data.js';
import {byId} from './dom.js';
import {grid} from './grid.js';
import {sides} from './sides.js';
import {state} from './state.js';

export const ranking = {
  underWay: null,  // what would stop it

  async start() {
    ranking.stop();
    const {signal} = ranking.underWay = new AbortController(), at = Number(state.model), {about} = sides.all[at];
    byId('rank').textContent = 'Stop ranking';
    while (!signal.aborted) {
      const answer = await ask('rank', about, signal).catch((error) => ({error}));
      if (signal.aborted) return;
      if (answer.error) {
        byId('ranking').textContent = answer.error.message;
        break;
      }
      ranking.take(at, answer);
      if (answer.done === answer.of) break;
      await new Promise((done) => setTimeout(done, 400));
    }
    if (signal.aborted) return;  // during a pause; by now another may have begun
    byId('rank').textContent = 'Rank heads';
    ranking.underWay = null;
  },

  take(at, {gradient, damage, done, of}) {
    const ranked = sides.whole.heads.map((_, i) => ({importance: gradient[i], damage: damage[i]}));
    byId('ranking').textContent = done < of ? `${done} of ${of} heads taken out in turn` :
      'Ranked: colour by damage or importance.';
    sides.all[at].ranked = ranked;
    data.models[at].heads.forEach((head, i) => Object.assign(head, ranked[i]));
    if (done === of) state.colour = 'damage';
    grid.show();
  },

  stop() {
    ranking.underWay?.abort();
    ranking.underWay = null;
    byId('ranking').textContent = '';
    byId('rank').textContent = 'Rank heads';
  },
};

byId('rank').addEventListener('click', () => ranking.underWay ? ranking.stop() : ranking.start());
