// Questions to the server that this page came from, and how they stand.

import {byId} from './dom.js';

export function say(words, wrong = false) {
  byId('status').textContent = words;
  byId('status').classList.toggle('wrong', wrong);
}

// The answer, as JSON or bytes; throws an Error with the server's own words. A busy server is asked again. The signal,
// if there is one, ends the waiting.
export async function ask(what, question, signal) {
  for (let tries = 0; ; ++tries) {
    const answer = await fetch(what, {method: 'POST', signal, body: JSON.stringify(question),
      headers: {'Content-Type': 'application/json'}}).catch(() => {
      throw new Error('The server does not answer. Has it ended? Start polyhead serve again.');
    });
    if (answer.ok) return what === 'file' ? answer.text() : what === 'head' || what === 'layer' ? new Uint8Array(await answer.arrayBuffer()) : answer.json();
    const {error} = await answer.json().catch(() => ({error: `status ${answer.status}`}));
    if (answer.status !== 503 || tries === 20) throw new Error(error);
    say('The server is busy with other questions …');
    await new Promise((done) => setTimeout(done, 250));
  }
}
