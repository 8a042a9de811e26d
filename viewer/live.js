// The live page: a text that is typed, heads that are switched off, and what the model makes of it meanwhile.

Object.assign(defaults, {text: '', off: '', versus: '', change: ''});

const live = {
  whole: null,    // the model's answer to the text with all gates at 1
  other: null,    // the embeddings of the text to compare with
  reading: false, again: false,
  ranking: null,  // what would stop the ranking that is under way
  ranked: null,   // importance and damage by head, of this text

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
      await live.ask().catch((error) => live.say(error.message.replace(/^\[\w+\] /, ''), true));
    } while (live.again);
    live.reading = false;
  },

  async ask() {
    const began = performance.now(), text = live.text();
    if (live.whole?.text !== text) {
      const answer = await connection.ask('read', {text});
      if (!live.whole) gates.read(state.off, answer.heads);
      live.stopRanking();
      live.whole = {...answer, text};
    }
    const now = gates.values.size ? await connection.ask('read', {text, gates: gates.list()}) : live.whole;
    await live.compare();
    live.take(now);
    const count = now.samples[0].tokens.length, ms = Math.round(performance.now() - began);
    live.say(`${count} ${count === 1 ? 'token' : 'tokens'}, read in ${ms} ms`);
  },

  // Roles are those of the whole model; numbers are those of now.
  take(now) {
    const heads = now.heads.map((head, i) => {
      const {role, score} = live.whole.heads[i], rank = live.ranked?.[i];
      return {...head, role, score, ...rank};
    });
    data.models = [{...now, heads}];
    reading.before = now === live.whole ? null : live.whole.samples[0];
    live.showGates();
    showModel();
  },

  // Of encoders: how much alike this text and a second one are.
  async compare() {
    live.other = null;
    byId('second').hidden = !live.whole.samples[0].embedding;
    if (byId('second').hidden || !state.versus.trim()) return;
    const ask = async (list) => (await connection.ask('read', {text: state.versus, gates: list})).samples[0].embedding;
    const whole = await ask([]), now = gates.values.size ? await ask(gates.list()) : whole;
    live.other = {whole, now};
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
    byId('command').textContent = `polyhead view ${quoted(data.live.model)} --prompt ${quoted(live.whole.text)}` +
      (changed ? ` --off ${gates.text()}` : '');
    const before = new Map(live.whole.heads.map((head) => [keyOf(head), head]));
    const differs = state.change && changed && state.colour !== 'role' && !['importance', 'damage'].includes(state.colour);
    grid.difference = differs ? (head, name) => measured(before.get(keyOf(head)), name) : null;
  },

  async rank() {
    live.stopRanking();
    const {signal} = live.ranking = new AbortController(), {text} = live.whole;
    byId('rank').textContent = 'Stop ranking';
    while (!signal.aborted) {
      const answer = await connection.ask('rank', {text}, signal).catch((error) => ({error}));
      if (signal.aborted) return;
      if (answer.error) {
        byId('ranking').textContent = answer.error.message;
        break;
      }
      live.ranked = live.whole.heads.map((_, i) => ({importance: answer.gradient[i], damage: answer.damage[i]}));
      byId('ranking').textContent = answer.done < answer.of ? `${answer.done} of ${answer.of} heads taken out in turn` :
        'Ranked: colour by damage or importance.';
      currentModel().heads.forEach((head, i) => Object.assign(head, live.ranked[i]));
      if (answer.done === answer.of) state.colour = 'damage';
      grid.show();
      if (answer.done === answer.of) break;
      await new Promise((done) => setTimeout(done, 400));
    }
    byId('rank').textContent = 'Rank heads';
    live.ranking = null;
  },

  stopRanking() {
    live.ranking?.abort();
    live.ranking = live.ranked = null;
    byId('ranking').textContent = '';
    byId('rank').textContent = 'Rank heads';
  },
};

// The weights of a head are asked for when it is opened, and kept as long as the text and the gates stay.
source.matrix = async (sample, head) => {
  const tokens = sample.tokens.length, kept = sample.kept ||= new Map();
  if (!kept.has(keyOf(head))) {
    kept.set(keyOf(head), await connection.ask('head', {text: live.whole.text, gates: gates.list(),
      head: [head.layer, head.head]}));
  }
  return {queries: tokens, keys: tokens, bytes: kept.get(keyOf(head))};
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

reading.extra = (sample) => {
  if (!live.other) return [];
  const now = cosine(sample.embedding, live.other.now), whole = cosine(live.whole.samples[0].embedding, live.other.whole);
  const change = gates.values.size ? ` (${signed(now - whole)} against the whole model)` : '';
  return [element('p', {className: 'total'}, 'Similarity of the two texts ', element('b', {}, now.toFixed(3)),
    ` (cosine)${change}`)];
};

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
byId('asking').addEventListener('submit', (event) => event.preventDefault());
byId('undo').addEventListener('click', gates.undo);
byId('redo').addEventListener('click', gates.redo);
byId('all-on').addEventListener('click', () => gates.step((values) => values.clear()));
byId('change').addEventListener('change', (event) => {
  state.change = event.target.checked ? '1' : '';
  writeAddress(false);
  live.showGates();
  grid.paint();
});
byId('colour').addEventListener('change', () => {
  live.showGates();
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
