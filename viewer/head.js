// One head: its map, its links, its numbers.

const dialog = byId('head');

function rolesTable(head) {
  const roles = Object.entries(head.roles || {}).sort(([, a], [, b]) => b - a);
  return roles.length ? [table(['role', 'score'], roles)] : [];
}

function statisticsTable(head) {
  const rows = Object.entries(head.statistics || {});
  if (head.importance !== undefined) rows.unshift(['importance', head.importance]);
  const interval = head.damage_low === undefined ? '' : ` (${number(head.damage_low)} to ${number(head.damage_high)})`;
  if (head.damage !== undefined) rows.unshift([`damage without it${interval}`, head.damage]);
  return rows.length ? [table(['number', 'value'], rows)] : [];
}

function strongestTable(sample, matrix) {
  const keys = keysOf(sample);
  const rows = sample.tokens.map((token, query) => {
    const cells = strongest(matrix, query, 5).map(({key, weight}) => `${keys[key]} (${key}) ${weightText(weight)}`);
    return [`${token} (${query})`, ...cells, ...Array(5 - cells.length).fill('')];
  });
  return table(['query', 'first', 'second', 'third', 'fourth', 'fifth'], rows);
}

function showStrongest() {
  const box = byId('strongest').querySelector('.scroll');
  box.replaceChildren();
  if (byId('strongest').open && map.matrix) box.append(strongestTable(map.sample, map.matrix));
}

// What else a live page offers for a head, above its map.
const headTools = {show: () => {}};

// The weights may take a while to come; another head may have been opened meanwhile.
async function showHead(head) {
  const sample = currentSample();
  byId('head-name').textContent = nameOf(head);
  byId('head-role').textContent = roleOf(head) + (head.score === undefined ? '' : ` ${number(head.score)}`) +
    (head.kept ? '' : ' · pruned');
  byId('numbers').replaceChildren(...statisticsTable(head), ...rolesTable(head));
  headTools.show(head);
  const matrix = await source.matrix(sample, head);
  if (state.head !== keyOf(head) || currentSample() !== sample) return;
  byId('strongest').hidden = !matrix;
  map.show(sample, matrix);
  links.show(sample, matrix);
  showStrongest();
  await comparison.showMap(head);
}

let opener = '.cell';  // what the focus returns to: the head's cell, or its card

function openHead(head, step) {
  if (!dialog.open) opener = document.activeElement?.matches('.card') ? '.card' : '.cell';
  state.head = keyOf(head);
  if (!dialog.open) dialog.showModal();
  writeAddress(step);
  return showHead(head);
}

// In the order of the cards, round and round.
function moveHead(by) {
  const heads = shownHeads(), at = heads.findIndex((head) => keyOf(head) === state.head);
  if (heads.length) return openHead(heads[(Math.max(at, 0) + by + heads.length) % heads.length], false);
}

dialog.addEventListener('close', () => {
  const from = document.querySelector(`${opener}[data-head="${state.head}"]`);
  if (state.head) {
    Object.assign(state, {head: '', query: ''});
    writeAddress(false);
  }
  grid.paint();
  if (from?.matches('.cell')) grid.focus(from);
  else from?.focus();
});
dialog.addEventListener('keydown', (event) => {
  const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  moveHead(by);
});
byId('previous').addEventListener('click', () => moveHead(-1));
byId('next').addEventListener('click', () => moveHead(1));
byId('close').addEventListener('click', () => dialog.close());
byId('strongest').addEventListener('toggle', showStrongest);
