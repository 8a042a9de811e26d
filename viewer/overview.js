// What frames the heads: the top of the page, and the tables.

function showAbout() {
  if (data.lead) byId('lead').append(data.lead);
  byId('lead').hidden = !data.lead;
  for (const [name, value] of Object.entries(data.about || {})) {
    byId('about').append(element('div', {}, element('dt', {}, name), element('dd', {}, String(value))));
  }
}

function showTables() {
  byId('tables').hidden = !data.tables.length;
  for (const [index, one] of data.tables.entries()) {
    const scroll = element('div', {className: 'scroll', tabIndex: 0}, table(one.columns, one.rows));
    scroll.setAttribute('role', 'group');
    scroll.setAttribute('aria-label', one.title);
    const heading = element('h3', {}, element('span', {className: 'ordinal'}, `Table ${index + 1}`), one.title);
    const block = element('div', {className: 'block', id: `table-${one.id}`}, heading, scroll);
    if (one.caption) block.append(element('p', {className: 'caption'}, one.caption));
    block.append(element('p', {className: 'hint'}, 'Save ',
      ...save.buttons({CSV: () => save.csv(one.id, one.columns, one.rows)})));
    byId('tables').append(block);
  }
}

function showSections() {
  document.querySelectorAll('figure h3').forEach((heading, index) =>
    heading.prepend(element('span', {className: 'ordinal'}, `Figure ${index + 1}`)));
  byId('heads').hidden = !data.models.length;
  for (const section of document.querySelectorAll('main > section:not([hidden])')) {
    const name = section.querySelector('h2').textContent;
    document.querySelector('nav').append(element('a', {href: `#${section.id}`}, name));
  }
  document.querySelector('nav').hidden = document.querySelector('nav').children.length < 2;
}
