// What frames the heads: the top of the page, and what can be done with its figures and tables.

function showAbout() {
  if (data.lead) byId('lead').append(data.lead);
  byId('lead').hidden = !data.lead;
  for (const [name, value] of Object.entries(data.about || {})) {
    byId('about').append(element('div', {}, element('dt', {}, name), element('dd', {}, String(value))));
  }
}

// Figures and tables are in the page; what a script adds is a way to save them.
function showFigures() {
  for (const figure of document.querySelectorAll('figure')) {
    const name = figure.id.replace(/^figure-/, ''), alone = () => figureDrawing(figure.querySelector('svg.wide'));
    figure.lastElementChild.append(element('p', {className: 'hint'}, 'Save ', ...save.buttons({
      SVG: () => save.svg(name, alone()), PNG: () => save.png(name, alone())})));
  }
}

function showTables() {
  for (const {id, columns, rows} of data.tables) {
    byId(`table-${id}`).append(element('p', {className: 'hint'}, 'Save ', ...save.tableButtons(id, columns, rows)));
  }
}

function showSections() {
  byId('heads').hidden = !data.models.length;
  for (const section of document.querySelectorAll('main > section:not([hidden])')) {
    const name = section.querySelector('h2').textContent;
    document.querySelector('nav').append(element('a', {href: `#${section.id}`}, name));
  }
  document.querySelector('nav').hidden = document.querySelector('nav').children.length < 2;
}
