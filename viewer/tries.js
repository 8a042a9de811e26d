// Texts to try, each of which shows something, and what that is: for those who do not know yet what to type.

import {data} from './data.js';
import {byId, element} from './dom.js';

export const tries = {
  note: element('p', {id: 'try-note', className: 'hint'}),

  // One button each; `take` is given its text.
  offer(take) {
    byId('tries').prepend(...data.live.examples.map(({name, text, shows}) =>
      element('button', {type: 'button', title: shows, onclick: () => take(text)}, name)));
    byId('token-note').before(tries.note);
  },

  // Beside what the model expects stands what this text shows, if it is one of them.
  show(now) {
    const at = data.live.examples.findIndex(({text}) => text === now);
    data.live.examples.map((_, index) => byId('tries').children[index]).forEach((button, index) => button.setAttribute('aria-pressed', index === at));
    tries.note.hidden = at < 0;
    if (at >= 0) tries.note.replaceChildren(element('b', {}, `${data.live.examples[at].name}. `), data.live.examples[at].shows);
  },
};
