// Where a live page does otherwise than one with data of its own: all that it may bring along to start (page.js).

import {matrixOf} from './data.js';

export const hooks = {
  fields: {},                      // more that the address says, each with its default
  show: null,                      // shows what the address says; unless given, the model that is chosen
  matrix: matrixOf,                // (sample, head) -> its weights, as data.js has them; may take a while
  usual: () => null,               // the index of the model that one compares with unless told otherwise

  added: () => 0,                  // how many tokens at the end of the text the model has added

  // Of the grid.
  before: () => null,              // head -> what it was before heads were switched off, to colour by the change; or null
  takes: () => false,              // (head, event) -> whether a click on its cell was for something else than to open it
  label: (_, text) => [text],      // of a row, {layer}, or a column, {head}, which has this text
  twice: null,                     // (head) when its cell is clicked twice; unless given, it is opened
  mark: (head) => head.kept === false ? '–' : '',  // what stands in a cell beside its colour
  besideRole: () => [],            // (role) -> more of its entry in the legend

  tools: () => {},                 // (head) when one is opened: what can be done with it, above its map
};
