// Where the reader is, kept in the address: #model=1&head=2.3&query=5. What is at its default is left out.

import {data} from './data.js';

export const defaults = {model: '0', sample: '0', layer: '', role: '', least: '', order: 'layer', head: '', query: '',
  colour: '', token: '', against: '', blocks: 'max', pin: '', difference: ''};
export const state = {...defaults};
export const currentModel = () => data.models[Number(state.model)];
export const currentSample = () => currentModel()?.samples[Number(state.sample)];

function address() {
  const changed = Object.entries(state).filter(([name, value]) => value !== defaults[name]);
  return '#' + new URLSearchParams(changed);
}

// False for an address that names a section of the page (there is no "=" in it): that changes nothing.
export function readAddress() {
  if (/^#[^=]+$/.test(location.hash)) return false;
  const given = new URLSearchParams(location.hash.slice(1) || data.view || '');  // a file may say how it is to open
  for (const name of Object.keys(defaults)) state[name] = given.get(name) ?? defaults[name];
  for (const name of ['model', 'sample', 'query', 'token']) {
    if (!/^\d{1,6}$/.test(state[name])) state[name] = defaults[name];
  }
  if (state.blocks !== 'mean') state.blocks = 'max';
  if (!/^(none|\d{1,6})?$/.test(state.against)) state.against = '';
  if (data.models.length && !currentModel()) state.model = '0';
  return true;
}

// A step that "back" undoes, or a change in place.
export function writeAddress(step) {
  history[step ? 'pushState' : 'replaceState'](null, '', address());
}
