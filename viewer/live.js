// The live page: a text that is typed, heads that are switched off, and what the model makes of it meanwhile.

Object.assign(defaults, {text: '', off: '', versus: '', change: ''});

const live = {
  whole: null,    // the model's answer to the text with all gates at 1
  sides: [],      // what is shown: the text and, if there is something to compare it with, the other side
  reading: false, again: false,
  ranking: null,  // what would stop the ranking that is under way

  say(words, wrong = false) {
    byId('status').textContent = words;
    byId('status').classList.toggle('wrong', wrong);
  },
  text: () => byId('text').value,

  // Asks for what the text and the gates call for. One question at a time: what changes meanwhile is asked next.
  async read() {
    live.again = live.reading;
    if (live.reading) return;
    live.reading = true;
    do {
      live.again = false;
      await live.ask().catch(live.complain);
    } while (live.again);
    live.reading = false;
  },
  complain: (error) => live.say(error.message.replace(/^\[\w+\] /, ''), true),

  async ask() {
    const began = performance.now(), first = await live.side(0, live.text(), 0);
    live.whole = first.whole;
    const compared = Boolean(data.live.compared), versus = state.versus.trim() ? state.versus : '';
    const second = compared || versus ? live.side(1, versus || first.text, Number(compared)) : null;
    const other = await second?.catch((error) => ({error}));
    const sides = other && !other.error ? [first, other] : [first];
    if ([0, 1].some((index) => live.sides[index]?.whole !== sides[index]?.whole)) live.stopRanking();
    live.sides = sides;
    live.take();
    const count = first.now.samples[0].tokens.length, ms = Math.round(performance.now() - began);
    live.say(`${count} ${count === 1 ? 'token' : 'tokens'}, read in ${ms} ms`);
    if (other?.error) live.complain(new Error(`The second text: ${other.error.message}`));
  },

  // What a model makes of a text, whole and with the gates of now; what is known already is not asked again.
  async side(index, text, model) {
    const kept = live.sides[index], known = kept?.text === text && kept.model === model;
    const whole = known ? kept.whole : await connection.ask('read', {text, model});
    if (!live.whole) gates.read(state.off, whole.heads);
    const now = gates.values.size ? await connection.ask('read', {text, model, gates: gates.list()}) : whole;
    now.samples[0].before = now === whole ? null : whole.samples[0];
    return {text, model, whole, now, ranked: known ? kept.ranked : null};
  },

  // Roles are those of the whole model; numbers are those of now.
  take() {
    const texts = live.sides.length > 1 && live.sides[0].model === live.sides[1].model;
    data.models = live.sides.map(({whole, now, ranked}, index) => ({...now,
      name: texts ? ['first text', 'second text'][index] : now.name,
      heads: now.heads.map((head, i) => ({...head, role: whole.heads[i].role, score: whole.heads[i].score, ...ranked?.[i]}))}));
    if (!currentModel()) state.model = '0';
    live.showGates();
    showModel();
  },

  onGates() {
    state.off = gates.text();
    writeAddress(false);
    live.read();
  },

  onText() {
    state.text = live.text() === data.live.example || live.text().length > 4000 ? '' : live.text();
    state.token = '';
    writeAddress(false);
    live.read();
  },

  showGates() {
    const changed = gates.values.size, off = gates.list().filter(([, , value]) => value === 0).length;
    const all = live.whole.heads.length;
    byId('switched').textContent = !changed ? `All ${all} heads are on.` :
      `${off} of ${all} heads off` + (changed > off ? `, ${changed - off} turned` : '') + '.';
    byId('undo').disabled = !gates.past.length;
    byId('redo').disabled = !gates.future.length;
    byId('all-on').disabled = !changed;
    byId('change').disabled = !changed;
    byId('command').textContent = live.command();
  },

  // That writes what is seen into a file.
  command() {
    const [first, second] = live.sides, compared = data.live.compared;
    return `polyhead view ${quoted(data.live.model)} --prompt ${quoted(first.text)}` +
      (second && second.text !== first.text ? ` --versus ${quoted(second.text)}` : '') +
      (compared ? ` --compare ${quoted(compared)}` : '') + (gates.values.size ? ` --off ${gates.text()}` : '');
  },

  // Of the side that is looked at.
  async rank() {
    live.stopRanking();
    const {signal} = live.ranking = new AbortController(), at = Number(state.model), {text, model} = live.sides[at];
    byId('rank').textContent = 'Stop ranking';
    while (!signal.aborted) {
      const answer = await connection.ask('rank', {text, model}, signal).catch((error) => ({error}));
      if (signal.aborted) return;
      if (answer.error) {
        byId('ranking').textContent = answer.error.message;
        break;
      }
      const ranked = live.whole.heads.map((_, i) => ({importance: answer.gradient[i], damage: answer.damage[i]}));
      byId('ranking').textContent = answer.done < answer.of ? `${answer.done} of ${answer.of} heads taken out in turn` :
        'Ranked: colour by damage or importance.';
      live.sides[at].ranked = ranked;
      data.models[at].heads.forEach((head, i) => Object.assign(head, ranked[i]));
      if (answer.done === answer.of) state.colour = 'damage';
      grid.show();
      if (answer.done === answer.of) break;
      await new Promise((done) => setTimeout(done, 400));
    }
    if (signal.aborted) return;  // during a pause; by now another may have begun
    byId('rank').textContent = 'Rank heads';
    live.ranking = null;
  },

  stopRanking() {
    live.ranking?.abort();
    live.ranking = null;
    byId('ranking').textContent = '';
    byId('rank').textContent = 'Rank heads';
  },
};

// The weights of a head are asked for when it is opened, and kept as long as the text and the gates stay.
source.matrix = async (sample, head) => {
  const tokens = sample.tokens.length, kept = sample.kept ||= new Map();
  if (!kept.has(keyOf(head))) {
    const {text, model} = live.sides.find(({now}) => now.samples[0] === sample);
    kept.set(keyOf(head), await connection.ask('head', {text, model, gates: gates.list(), head: [head.layer, head.head]}));
  }
  return {queries: tokens, keys: tokens, bytes: kept.get(keyOf(head))};
};
comparison.usual = () => data.models.length > 1 ? 1 - Number(state.model) : null;

// Of the side that is shown; roles and ranks are those of the whole model anyway.
grid.before = () => {
  if (!state.change || !gates.values.size || ['role', 'importance', 'damage'].includes(state.colour)) return null;
  const whole = new Map(live.sides[Number(state.model)].whole.heads.map((head) => [keyOf(head), head]));
  return (head) => whole.get(keyOf(head));
};
grid.press = (head, event) => event.shiftKey || event.ctrlKey || event.metaKey ? gates.toggle([head]) : openHead(head, true);
grid.headOf = (what, text) => {
  const heads = () => currentModel().heads.filter((head) => Object.entries(what).every(([name, at]) => head[name] === at));
  const name = what.layer === undefined ? `head ${text} of every layer` : `layer ${text}`;
  return [element('button', {type: 'button', className: 'line', title: `Switch ${name} off or on`,
    ariaLabel: `Switch ${name} off or on`, onclick: () => gates.toggle(heads())}, text)];
};
grid.mark = (head) => gates.of(head) === 0 ? '×' : gates.of(head) === 1 ? '' : String(gates.of(head));
grid.extra = (role) => [element('button', {type: 'button', className: 'small', ariaLabel: `${role}: off / on`,
  onclick: () => gates.toggle(currentModel().heads.filter((head) => roleOf(head) === role))}, 'off / on')];

// In the dialog: the gate of the head that is open.
const gateTools = {
  range: element('input', {type: 'range', id: 'gate', min: 0, max: 2, step: 0.05}),
  shown: element('output', {htmlFor: 'gate'}),
  toggle: element('button', {type: 'button', id: 'toggle'}),
  head: null,

  show(head) {
    const {range, shown, toggle} = gateTools, value = gates.of(head);
    gateTools.head = head;
    if (!range.matches(':active')) range.value = value;
    shown.textContent = value.toFixed(2);
    toggle.textContent = value === 0 ? 'Switch on' : 'Switch off';
  },
};
byId('head-tools').append(element('label', {htmlFor: 'gate'}, 'Gate'), gateTools.range, gateTools.shown, gateTools.toggle);
byId('head-tools').hidden = false;
gateTools.range.addEventListener('input', () => gates.turn(gateTools.head, Number(gateTools.range.value)));
gateTools.range.addEventListener('change', () => gates.turned = '');
gateTools.range.addEventListener('keydown', (event) => event.stopPropagation());
gateTools.toggle.addEventListener('click', () => gates.toggle([gateTools.head]));
headTools.show = gateTools.show;

// For a shell.
const quoted = (text) => /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

function later(act, wait = 350) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
}

byId('text').addEventListener('input', later(live.onText));
byId('versus').addEventListener('input', later(() => {
  state.versus = byId('versus').value;
  writeAddress(false);
  live.read();
}));
byId('undo').addEventListener('click', gates.undo);
byId('redo').addEventListener('click', gates.redo);
byId('all-on').addEventListener('click', () => gates.step((values) => values.clear()));
byId('change').addEventListener('change', (event) => {
  state.change = event.target.checked ? '1' : '';
  writeAddress(false);
  grid.paint();
});
byId('rank').addEventListener('click', () => live.ranking ? live.stopRanking() : live.rank());
document.addEventListener('keydown', (event) => {
  if (event.target.matches('textarea, input')) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'z') {
    event.preventDefault();
    event.shiftKey ? gates.redo() : gates.undo();
  } else if (event.key === ' ' && event.target.matches('.cell') && !dialog.open) {
    event.preventDefault();
    gates.toggle([grid.of(event.target)]);
  }
});

// Instead of what a page with data of its own does.
source.start = () => {
  byId('text-hint').textContent = `${data.live.hint} Up to ${number(data.live.most_tokens)} tokens.`;
  byId('grid-hint').textContent = 'A row is a layer, the first at the top. A click opens a head; Shift and a click, or ' +
    'the space bar, switches it off or on; so do the numbers at the edges for a whole layer or column.';
  byId('heads').hidden = false;
  byId('versus').placeholder = data.live.compared ? 'The same text, unless another one is given' : '';
  live.say('Reading …');
  source.onAddress();
};
source.onAddress = () => {
  byId('text').value = state.text || data.live.example;
  byId('versus').value = state.versus;
  byId('change').checked = Boolean(state.change);
  if (live.whole) gates.read(state.off, live.whole.heads);
  live.read();
};
