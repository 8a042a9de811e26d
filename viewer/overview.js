// The top of the page: what was found, and the tables.

function showAbout() {
  if (data.lead) byId('lead').append(data.lead);
  byId('lead').hidden = !data.lead;
  for (const [name, value] of Object.entries(data.about || {})) {
    byId('about').append(element('div', {}, element('dt', {}, name), element('dd', {}, String(value))));
  }
}

function evidenceOf(id) {
  const figure = data.figures.findIndex((one) => one.id === id);
  return figure >= 0 ? {href: `#figure-${id}`, name: `Figure ${figure + 1}`}
    : {href: `#table-${id}`, name: `Table ${data.tables.findIndex((one) => one.id === id) + 1}`};
}

function showFindings() {
  byId('findings').hidden = !data.findings.length;
  for (const finding of data.findings) {
    const item = element('li', {}, finding.text);
    if (finding.figure) {
      const {href, name} = evidenceOf(finding.figure);
      item.append(' ', element('a', {href}, name));
    }
    byId('findings').querySelector('ol').append(item);
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
    byId('tables').append(block);
  }
}

function showSections() {
  byId('figures').hidden = !data.figures.length;
  document.querySelectorAll('figure h3').forEach((heading, index) =>
    heading.prepend(element('span', {className: 'ordinal'}, `Figure ${index + 1}`)));
  byId('heads').hidden = !data.models.length;
  for (const section of document.querySelectorAll('main > section:not([hidden])')) {
    const name = section.querySelector('h2').textContent;
    document.querySelector('nav').append(element('a', {href: `#${section.id}`}, name));
  }
  document.querySelector('nav').hidden = document.querySelector('nav').children.length < 2;
}
