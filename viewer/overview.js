// What frames the heads: the top of the page, and what can be done with its figures and tables.

import {data} from './data.js';
import {byId, element, shape} from './dom.js';
import {save} from './save.js';

export function showAbout() {
  if (data.lead) byId('lead').append(data.lead);
  byId('lead').hidden = !data.lead;
  for (const [name, value] of Object.entries(data.about || {})) {
    byId('about').append(element('div', {}, element('dt', {}, name), element('dd', {}, String(value))));
  }
}

// A figure of the page by itself: in its own colours, which are those of light paper.
function figureDrawing(figure) {
  const made = figure.cloneNode(true);
  made.removeAttribute('class');
  made.prepend(shape('rect', {width: '100%', height: '100%', fill: '#fff'}));
  return made;
}

// Figures and tables are in the page; what a script adds is a way to save them.
export function showFigures() {
  for (const figure of document.querySelectorAll('figure')) {
    const name = figure.id.replace(/^figure-/, ''), alone = () => figureDrawing(figure.querySelector('svg.wide'));
    figure.lastElementChild.append(element('p', {className: 'hint'}, 'Save ', ...save.buttons({
      SVG: () => save.svg(name, alone()), PNG: () => save.png(name, alone())})));
  }
}

export function showTables() {
  for (const {id, columns, rows} of data.tables) {
    byId(`table-${id}`).append(element('p', {className: 'hint'}, 'Save ', ...save.tableButtons(id, columns, rows)));
  }
}

export function showSections() {
  byId('heads').hidden = !data.models.length;
  for (const section of document.querySelectorAll('main > section:not([hidden])')) {
    const name = section.querySelector('h2').textContent;
    document.querySelector('nav').append(element('a', {href: `#${section.id}`}, name));
  }
  document.querySelector('nav').hidden = document.querySelector('nav').children.length < 2;
}
