// The order in which the page comes up, and what makes it draw again.

function showModel() {
  if (!data.models.length) return;
  showHeads();
  const head = currentModel().heads.find((one) => keyOf(one) === state.head);
  if (head) return openHead(head, false);
  state.head = '';
  if (dialog.open) dialog.close();
}

function redraw() {
  heat.learn();
  heat.key(document.querySelector('#head .key canvas'));
}

function resize() {
  if (!dialog.open || !map.matrix) return;
  map.measure();
  map.draw();
  links.choose(currentQuery());
}

function start() {
  if (data.schema !== 1) throw new Error(`this page reads schema 1, found ${data.schema}`);
  showAbout();
  showFigures();
  showTables();
  showSections();
  readAddress();
  redraw();
  source.start();
  window.addEventListener('popstate', () => {
    if (readAddress()) source.onAddress();
  });
  window.addEventListener('resize', resize);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    redraw();
    showModel();
  });
}

start();
