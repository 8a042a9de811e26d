// A tour of the page in five steps, each beside what it is about. The page stays as it is, and can be used meanwhile.

import {byId, element} from './dom.js';

const steps = [
  ['.text', 'The text, token by token', 'The darker a token, the less the model expected it. Lines lead from one token to those ' +
    'that the head below looks at; point at another token to see where it looks.'],
  ['#all', 'All heads of the model', 'A row is a layer, and the colour says what a head does. Point at one to see it, and ' +
    'click to keep it.'],
  ['#look', 'What one head looks at', 'Each row is a token, and dark cells are the tokens that it looks at. The button Open ' +
    'shows all that is known of the head.'],
  ['#outcome', 'What the model makes of it', 'What it expects after the text, with its probability. Click a token of the text to ' +
    'see what it expected there.'],
  ['#all', 'Now switch something off', 'Two clicks on a head, or the button above its map, switch it off; “off / on” beside a ' +
    'role does so for all of its heads. Watch what the model expects then.'],
];

export const tour = {
  at: -1, from: null,
  title: element('h2', {id: 'tour-name'}), words: element('p', {id: 'tour-words'}), count: element('span', {className: 'hint'}),
  back: element('button', {type: 'button', onclick: () => tour.go(tour.at - 1)}, 'Back'),
  next: element('button', {type: 'button', onclick: () => tour.go(tour.at + 1)}),
  leave: element('button', {type: 'button', onclick: () => tour.go(-1)}, 'Leave'),
  box: element('section', {id: 'tour', hidden: true}),

  // Past the last step, or before the first, it is over.
  go(at) {
    if (tour.at < 0) tour.from = document.activeElement;
    tour.at = steps[at] ? at : -1;
    document.querySelectorAll('.toured').forEach((one) => one.classList.remove('toured'));
    tour.box.hidden = tour.at < 0;
    if (tour.at < 0) return tour.from?.focus();
    const [where, title, words] = steps[at];
    tour.title.textContent = title;
    tour.words.textContent = words;
    tour.count.textContent = `${at + 1} of ${steps.length}`;
    tour.back.disabled = at === 0;
    tour.leave.hidden = at === steps.length - 1;
    tour.next.textContent = tour.leave.hidden ? 'Done' : 'Next';
    document.querySelector(where).classList.add('toured');
    document.querySelector(where).scrollIntoView({block: 'nearest'});
    tour.place();
    tour.next.focus({preventScroll: true});
  },

  // Beside what it is about, where there is room for it; else below or above it, within the window.
  place() {
    if (tour.at < 0) return;
    const about = document.querySelector(steps[tour.at][0]).getBoundingClientRect();
    const {offsetWidth: wide, offsetHeight: high} = tour.box, gap = 12;
    const within = (value, most) => Math.max(gap, Math.min(value, most - gap));
    const right = about.right + gap, left = about.left - gap - wide, below = about.bottom + gap, above = about.top - gap - high;
    const [x, y] = below + high < innerHeight ? [about.left, below] : right + wide < innerWidth ? [right, about.top] :
      left > 0 ? [left, about.top] : [about.left, above > 0 ? above : innerHeight - high - gap];
    Object.assign(tour.box.style, {left: `${within(x, innerWidth - wide)}px`, top: `${within(y, innerHeight - high)}px`});
  },
};

tour.box.setAttribute('role', 'dialog');
tour.box.setAttribute('aria-labelledby', 'tour-name');
tour.box.setAttribute('aria-describedby', 'tour-words');
tour.box.append(tour.title, tour.words, element('div', {className: 'buttons'}, tour.count, tour.leave, tour.back, tour.next));
byId('head').before(tour.box);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && tour.at >= 0 && !byId('head').open) tour.go(-1);
});
window.addEventListener('resize', () => tour.place());
window.addEventListener('scroll', () => tour.place());
