// Making and finding elements. Text goes in as text: nothing in the data can become markup.

export const byId = (id) => document.getElementById(id);

// element('td', {className: 'number'}, 'text', otherElement)
export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// As a screen reader should say a token: "⟨E2 80⟩", part of a character, is "bytes E2 80".
const spoken = (token) => token.replace(/⟨([0-9A-F]{2}(?: [0-9A-F]{2})*)⟩/g, 'bytes $1');

// A button or a cell that says a token.
export const ofToken = (name, properties, token) =>
  element(name, spoken(token) === token ? properties : {...properties, ariaLabel: spoken(token)}, token);

export function shape(name, attributes) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// 12345 -> 12,345; -0.012345 -> −0.0123; what is missing -> –
export function number(value) {
  if (value === null || value === undefined) return '–';
  const whole = Number.isInteger(value) || Math.abs(value) >= 1000;
  const digits = whole ? Math.round(value).toLocaleString('en-GB') : String(Number(value.toPrecision(3)));
  return digits.replace('-', '−');
}

// A box that scrolls sideways where its content is wider, by keyboard too.
export function scrolling(label, ...children) {
  const made = element('div', {className: 'scroll', tabIndex: 0, ariaLabel: label}, ...children);
  made.setAttribute('role', 'group');
  return made;
}

export function table(columns, rows) {
  const head = element('tr', {}, ...columns.map((name) => element('th', {scope: 'col'}, name)));
  const body = rows.map((cells) => element('tr', {}, ...cells.map((value) => typeof value === 'string'
    ? element('td', {}, value) : element('td', {className: 'number'}, number(value)))));
  columns.forEach((_, c) => {
    if (rows.length && rows.every((cells) => typeof cells[c] !== 'string')) head.cells[c].className = 'number';
  });
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...body));
}
