// Every head as a cell, a row per layer: the whole model at a glance.

import {blocks} from './blocks.js';
import {changes} from './changes.js';
import {shownHeads} from './choice.js';
import {comparison} from './compare.js';
import {keyOf, nameOf, originOf} from './data.js';
import {byId, element, number, table} from './dom.js';
import {openHead} from './head.js';
import {heat} from './heat.js';
import {hooks} from './hooks.js';
import {look} from './look.js';
import {colouring, distinct, extentOf, measured, measures, roleOf, rolesOf, shortRole, usualColour} from './measures.js';
import {inkOf, meaningOf} from './roles.js';
import {save} from './save.js';
import {currentModel, currentSample, defaults, state, writeAddress} from './state.js';

const narrow = matchMedia('(max-width: 40rem)');  // there a column is a layer: more of them fit beside each other

export const grid = {
  table: byId('grid'),
  shape: '',         // of what is built: the heads, in order
  base: null,        // head -> that which its number is compared with; null: the number itself is shown

  show() {
    const heads = currentModel().heads, shape = heads.map(keyOf).join();
    const choices = measures();
    byId('colour').replaceChildren(...choices.map(([value, text]) => element('option', {value}, text)));
    if (!choices.some(([value]) => value === state.colour)) state.colour = defaults.colour;
    byId('colour').value = colouring();
    if (shape !== grid.shape) grid.build(heads);
    grid.shape = shape;
    grid.paint();
  },

  build(heads) {
    const [down, across] = narrow.matches ? ['head', 'layer'] : ['layer', 'head'];
    const places = (name) => distinct(heads.map((head) => head[name])).sort((a, b) => a - b);
    const label = (scope, name, at) => element('th', {scope}, ...hooks.label({[name]: at}, String(at)));
    const top = element('tr', {}, element('td', {className: 'corner'}, `${down} ↓ `, element('span', {}, `${across} →`)), ...places(across).map((at) => label('col', across, at)));
    const rows = places(down).map((at) => element('tr', {}, label('row', down, at), ...places(across).map((column) => {
      const head = heads.find((one) => one[down] === at && one[across] === column);
      return head ? element('td', {}, grid.cell(head)) : element('td', {});
    })));
    grid.table.replaceChildren(element('thead', {}, top), element('tbody', {}, ...rows));
    grid.table.style.setProperty('--lines', rows.length);
    grid.table.style.setProperty('--columns', places(across).length);
    if (grid.cells().length) grid.cells()[0].tabIndex = 0;
  },

  cell(head) {
    const button = element('button', {type: 'button', className: 'cell', tabIndex: -1});
    button.dataset.head = keyOf(head);
    return button;
  },

  cells: () => [...grid.table.querySelectorAll('.cell')],
  // A cell stays while the model's numbers change under it.
  of: (cell) => currentModel().heads.find((head) => keyOf(head) === cell.dataset.head),

  nameOfColour: () => colouring() === 'changed' ? 'attention changed' : colouring(),
  value(head) {
    const colour = colouring();
    if (colour === 'changed') return changes.valueOf(head);
    const base = grid.base?.(head), now = measured(head, colour), then = base && measured(base, colour);
    return grid.base ? (now === undefined || then === undefined ? undefined : now - then) : now;
  },

  paint() {
    const shown = new Set(shownHeads().map(keyOf)), roles = rolesOf(currentModel().heads);
    grid.base = comparison.partner() || hooks.before();
    const colour = colouring(), byRole = colour === 'role', maps = colour === 'map', changed = colour === 'changed';
    if (changed) changes.find();
    const waiting = changed && Boolean(changes.finding) && !changes.values.size;
    const extent = byRole || maps ? null : extentOf(currentModel().heads.map(grid.value));
    for (const cell of grid.cells()) {
      const head = grid.of(cell), role = roles.find((one) => one.name === roleOf(head));
      const shade = byRole ? heat.role(role.ink) : heat.shadeOf(maps ? 0 : grid.value(head), extent ?? {least: 0, most: 1});
      const mark = hooks.mark(head);
      cell.style.backgroundColor = `rgb(${shade})`;
      cell.style.color = heat.on(shade);
      cell.dataset.mark = mark || (byRole || changed ? shortRole(role.name) : '');
      cell.classList.toggle('dimmed', !shown.has(keyOf(head)));
      cell.classList.toggle('gated', mark !== '');
      cell.classList.toggle('differs', byRole && grid.differs(head));
      cell.setAttribute('aria-label', grid.say(head));
      if (keyOf(head) === state.head) cell.setAttribute('aria-current', 'true');
      else cell.removeAttribute('aria-current');
    }
    grid.showMaps(maps);
    grid.showSorted();
    const pruned = currentModel().heads.some((head) => head.kept === false);
    byId('legend').replaceChildren(...(byRole || changed ? grid.roleKey(roles) : []), ...(maps ? grid.mapKey() : byRole || waiting ? [] : grid.scaleKey(extent)),
      ...(changed ? [waiting ? element('p', {className: 'hint'}, 'Looking at what changed …') : grid.mostChanged()] : []),
      ...(pruned ? [element('p', {className: 'hint'}, '– pruned')] : []), ...(maps || changed ? [] : grid.comparisonKey(byRole)));
  },

  // A small map in every cell, drawn when it is seen.
  showMaps(maps) {
    whenSeen.disconnect();
    grid.table.classList.toggle('maps', maps);
    for (const cell of grid.cells()) {
      if (!maps) {
        cell.replaceChildren();
        continue;
      }
      if (!cell.firstChild) cell.append(element('canvas', {ariaHidden: 'true'}));
      whenSeen.observe(cell);
    }
  },
  async drawMap(cell) {
    const sample = currentSample(), matrix = await hooks.matrix(sample, grid.of(cell)).catch(() => null);
    if (!cell.firstChild || currentSample() !== sample) return;
    if (matrix) heat.paint(cell.firstChild, blocks.small(matrix));
    else cell.replaceChildren();
  },
  mapKey: () => [element('p', {className: 'hint'}, 'Rows are queries, columns are keys.')],

  differs: (head) => Boolean(comparison.other() && grid.base(head)) && roleOf(grid.base(head)) !== roleOf(head),
  comparisonKey(byRole) {
    const other = comparison.other();
    if (!other) return [];
    return [element('p', {className: 'hint'}, byRole ? `Underlined: another role in “${other.name}”.` :
      `The colour is the difference to “${other.name}”.`)];
  },

  // The heads whose attention changed most, to look at.
  mostChanged() {
    const heads = changes.largest(), point = (head) => () => look.point(head);
    return element('div', {className: 'most'}, element('p', {className: 'hint'}, `Attention that lies elsewhere than in “${changes.name()}”, ` +
      (heads.length ? 'from 0 to 1. Most in' : 'from 0 to 1: none.')), element('ol', {}, ...heads.map((head) => {
      const dot = element('span', {className: 'dot'}), role = roleOf(head);
      dot.style.backgroundColor = `rgb(${heat.role(inkOf(role))})`;
      return element('li', {}, element('button', {type: 'button', onclick: () => look.pin(head), onpointerenter: point(head), onpointerleave: point(null)},
        element('b', {}, keyOf(head)), ' ', dot, role, ' ', element('span', {className: 'number'}, changes.valueOf(head).toFixed(3))));
    })));
  },

  // As a list, the largest first; by role, those of a role together.
  showSorted() {
    const box = byId('sorted').querySelector('.scroll'), byRole = ['role', 'map'].includes(colouring());
    if (!byId('sorted').open) return box.replaceChildren();
    const size = (head) => grid.value(head) ?? -Infinity;
    const heads = shownHeads().sort((a, b) => byRole ? roleOf(a).localeCompare(roleOf(b)) : size(b) - size(a));
    const rows = heads.map((head) => [keyOf(head), roleOf(head), byRole ? head.score ?? null : grid.value(head) ?? null]);
    const columns = ['head', 'role', byRole ? 'score' : grid.nameOfColour()], made = table(columns, rows);
    [...made.tBodies[0].rows].forEach((row, i) => row.cells[0].replaceChildren(element('button', {type: 'button', className: 'small',
      ariaLabel: `Open ${nameOf(heads[i])}`, onclick: () => openHead(heads[i], true)}, keyOf(heads[i]))));
    box.replaceChildren(made, element('p', {className: 'hint'}, 'Save ', ...save.tableButtons('sorted-heads', columns, rows)));
  },

  say(head) {
    const other = comparison.other(), colour = colouring(), kind = !grid.base || colour === 'changed' ? '' : other ? ', difference' : ', change';
    const value = colour === 'map' ? '' : colour === 'role' ? (grid.differs(head) ? `, ${roleOf(grid.base(head))} in “${other.name}”` : '') :
      `, ${grid.nameOfColour()}${kind} ${number(grid.value(head))}`;
    const pruned = head.kept === false ? ', pruned' : other && !grid.base(head) ? `, pruned in “${other.name}”` : head.origin ? `, once ${originOf(head)}` : '';
    const mark = hooks.mark(head), gate = mark === '×' ? ', off' : Number(mark) ? `, gate ${mark}` : '';
    return `${nameOf(head)}: ${roleOf(head)}${value}${pruned}${gate}`;
  },

  roleKey: (roles) => [element('ul', {className: 'role-key'}, ...roles.map(({name, count, ink}) => {
    const colour = heat.role(ink), swatch = element('span', {className: 'swatch'}, shortRole(name));
    swatch.style.backgroundColor = `rgb(${colour})`;
    swatch.style.color = heat.on(colour);
    swatch.setAttribute('aria-hidden', 'true');
    return element('li', {title: meaningOf(name).join(' ')}, swatch, element('span', {}, `${name} (${count})`), ...hooks.besideRole(name));
  }))],

  scaleKey({least, most}) {
    const canvas = element('canvas', {width: 256, height: 1}), pen = canvas.getContext('2d');
    for (let x = 0; x < 256; ++x) {
      pen.fillStyle = `rgb(${heat.shadeOf(least + (most - least) * x / 255, {least, most})})`;
      pen.fillRect(x, 0, 1, 1);
    }
    const ends = least < 0 ? [least, 0, most] : [0, most / 2, most];
    return [element('div', {className: 'key', ariaHidden: 'true'}, canvas,
      ...ends.map((value) => element('span', {}, number(Number(value.toPrecision(2))))))];
  },

  // From cell to cell; where a row is shorter, to its nearest.
  move(cell, [down, across]) {
    const rows = [...grid.table.tBodies[0].rows], row = rows.indexOf(cell.closest('tr'));
    const next = rows[row + down]?.cells[cell.closest('td').cellIndex + across]?.querySelector('.cell');
    if (next) grid.focus(next);
  },

  focus(cell) {
    for (const one of grid.cells()) one.tabIndex = one === cell ? 0 : -1;
    cell.focus();
  },
};

const whenSeen = new IntersectionObserver((entries) => {
  for (const {isIntersecting, target} of entries) {
    if (!isIntersecting) continue;
    whenSeen.unobserve(target);
    grid.drawMap(target);
  }
});

grid.table.addEventListener('click', (event) => {
  const cell = event.target.closest('.cell');
  if (!cell || hooks.takes(grid.of(cell), event)) return;
  if (event.detail === 0) openHead(grid.of(cell), true);  // pressed by a key: the focus has shown it already
  else look.pin(grid.of(cell));
});
grid.table.addEventListener('dblclick', (event) => {
  const cell = event.target.closest('.cell');
  if (!cell || event.shiftKey || event.ctrlKey || event.metaKey) return;
  if (hooks.twice) hooks.twice(grid.of(cell));
  else openHead(grid.of(cell), true);
});
grid.table.addEventListener('keydown', (event) => {
  const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  if (!step || !event.target.matches('.cell')) return;
  event.preventDefault();
  grid.move(event.target, step);
});
for (const kind of ['pointerover', 'focusin']) {
  grid.table.addEventListener(kind, (event) => {
    const cell = event.target.closest('.cell');
    if (!cell) return;
    byId('cell-note').textContent = grid.say(grid.of(cell));
    if (kind === 'focusin') look.focus(grid.of(cell));
    else look.point(grid.of(cell));
  });
}
grid.table.addEventListener('pointerleave', () => look.point(null));
look.followers.push((head) => grid.cells().forEach((cell) => cell.classList.toggle('looked', cell.dataset.head === keyOf(head))));
narrow.addEventListener('change', () => {
  grid.shape = '';
  if (currentModel()) grid.show();
});
byId('sorted').addEventListener('toggle', grid.showSorted);
byId('colour').addEventListener('change', (event) => {
  state.colour = event.target.value === usualColour() ? '' : event.target.value;
  grid.paint();
  writeAddress(false);
});
changes.followers.push(() => grid.paint());
