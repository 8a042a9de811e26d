"""walk_test.py CHROMIUM FOLDER: a long random walk through the page over random data. After every step all that it shows
is read back and compared with expected.py, which works it out from the data a second time; the address, opened anew,
must come to the same.
"""
import base64
import copy
import json
import pathlib
import random
import sys
import unittest
import urllib.parse

import expected
from page import PageTest

STEPS, SEEDS = 80, (95, 124)  # which come by every text, control and order
STATISTICS = ['entropy (nats)', 'mean distance']

READ = '''(async () => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const text = (one) => one.textContent, colour = (one) => one.style.backgroundColor ?
    one.style.backgroundColor.match(/\\d+/g).map(Number) : null;
  const texts = (selector, inside) => all(selector, inside).map(text);
  const pixels = (canvas) => {
    const {data, width, height} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({length: height}, (_, y) => Array.from({length: width}, (_, x) =>
      [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)]));
  };
  const control = (name) => controls.elements[name];
  byId('sorted').open = byId('strongest').open = true;
  grid.showSorted();
  showStrongest();
  const links = () => ({side: text(byId('side')), queries: texts('#queries button'), summary: text(byId('summary')),
    query: all('#queries button').findIndex((one) => one.ariaPressed === 'true'),
    padding: parseFloat(byId('keys').style.paddingTop),
    keys: all('#keys li').map((one) => [...texts('span', one), one.className === 'linked']),
    arcs: all('#arcs path').map((one) => {
      const [from, to] = one.getAttribute('d').match(/^M0 ([0-9.]+)C.* ([0-9.]+)$/).slice(1).map(Number);
      return [from, to, ...['stroke-width', 'stroke-opacity'].map((name) => +(+one.getAttribute(name)).toFixed(4))];
    })});
  return {
    address: location.hash,
    note: text(byId('note')), count: text(byId('count')),
    choices: Object.fromEntries(['model', 'sample', 'against', 'layer', 'role', 'least', 'order'].map((name) => [name,
      [all('option', control(name)).map((one) => [one.value, text(one)]), control(name).value,
        control(name).parentElement.hidden]])),
    measures: [all('#colour option').map((one) => [one.value, text(one)]), byId('colour').value],
    cells: grid.cells().map((one) => ({head: one.dataset.head, colour: colour(one), says: one.ariaLabel,
      pruned: one.classList.contains('gated'), mark: one.dataset.mark, dimmed: one.classList.contains('dimmed'),
      differs: one.classList.contains('differs')})),
    legend: texts('#legend li, #legend .key span, #legend .hint'),
    scale: all('#legend canvas').map(pixels),
    swatches: all('#legend .swatch').map(colour),
    listed: all('#sorted tbody tr').map((one) => texts('td', one)),
    cards: all('#cards > div').map((one) => [texts('h3', one).join(), all('.card', one).map((card) => [
      texts(':scope > span:not(.thumb):not(.empty)', card), texts('.empty', card).join(),
      all('.bar span', card).map((bar) => +parseFloat(bar.style.width).toFixed(2))[0] ?? null,
      card.classList.contains('pruned')])]),
    tokens: all('#tokens button').map((one) => [text(one), colour(one), one.ariaPressed === 'true', one.tabIndex]),
    otherTokens: byId('other-tokens').hidden ? null : all('#other-tokens span').map((one) => [text(one), colour(one)]),
    tokenNote: text(byId('token-note')),
    dialog: !dialog.open ? null : {name: text(byId('head-name')), role: text(byId('head-role')),
      numbers: all('#numbers table').map((one) => all('tr', one).map((row) => texts('th, td', row))),
      other: byId('other-map').hidden ? null : [text(byId('other-name')), pixels(document.querySelector('#other-map canvas'))],
      links: document.querySelector('.links').hidden ? null : links(),
      table: byId('strongest').hidden ? null : all('#strongest tbody tr').map((one) => texts('td', one))},
  };
})()'''


def random_head(rng, layer, head, known):
    one = {'layer': layer, 'head': head, 'kept': rng.random() > 0.15}
    if rng.random() < 0.8:
        one.update(role=rng.choice(expected.ROLES), score=rng.uniform(0.3, 1))
    one['roles'] = {name: rng.uniform(-0.2, 1) for name in expected.ROLES}
    one['statistics'] = {name: rng.uniform(0, 30) for name in STATISTICS if rng.random() < 0.95}
    if known and rng.random() < 0.9:
        damage = rng.uniform(-0.2, 0.6)
        one.update(importance=rng.uniform(0, 2), damage=damage, damage_low=damage - 0.1234, damage_high=damage + 0.1234)
    return one


def random_sample(rng, heads, name, queries, keys=None):
    sample = {'name': name, 'tokens': [f'{name or "t"}{i}' for i in range(queries)]}
    if keys:
        sample['key_tokens'] = [f'k{i}' for i in range(keys)]
    sample['heads'] = [[head['layer'], head['head']] for head in heads if head['kept'] and rng.random() < 0.9]
    byte = lambda: 0 if rng.random() < 0.6 else rng.randint(1, 255)
    sample['rows'] = [[[byte() for _ in range(keys or queries)] for _ in range(queries)] for _ in sample['heads']]
    sample['weights'] = base64.b64encode(bytes(b for head in sample['rows'] for row in head for b in row)).decode()
    if rng.random() < 0.6:
        sample['losses'] = [rng.uniform(0, 10) for _ in range(queries - 1)]
    return sample


def random_models(rng):
    """Two of one shape, with texts on both sides of 24 keys; one that is another, of which less is known."""
    models = []
    for name, layers, columns, known in (('first', 3, 4, True), ('second', 3, 4, True), ('third', 2, 9, False)):
        heads = [random_head(rng, layer, head, known) for layer in range(layers) for head in range(columns)
                 if name != 'third' or rng.random() < 0.8]
        rng.shuffle(heads)
        samples = [random_sample(rng, heads, *shape) for shape in (('a', 7), ('', 24), ('c', 25), ('d', 3, 30))]
        models.append({'name': name, 'note': f'about the {name}', 'heads': heads,
                       'samples': samples[:3] if name == 'second' else samples})
    heads = {expected.key(head): i for i, head in enumerate(models[0]['heads'])}
    models[1]['heads'].sort(key=lambda head: heads[expected.key(head)])
    return models


class Walk(PageTest):
    maxDiff = 2000

    def begin(self, seed):
        self.rng = random.Random(seed)
        self.models = random_models(self.rng)
        self.open_tab = self.tab()
        shown = copy.deepcopy(self.models)
        for model in shown:
            for sample in model['samples']:
                del sample['rows']
        self.put = f'data.models = {json.dumps(shown)}; grid.shape = "";'
        self.open_tab.run(f'{self.put} history.replaceState(null, "", "#"); readAddress(); showModel(); null')
        names = ['--map', '--shade', '--cold']
        self.palette = expected.Palette(self.open_tab.run(f'''Object.fromEntries({json.dumps(names)}.map((name) => [name,
            getComputedStyle(document.documentElement).getPropertyValue(name).trim()]))'''))
        self.state = dict(expected.DEFAULTS)

    def page(self):
        return expected.Page(self.models, self.state, self.palette)

    # --- steps: what is done to the page, and what that does to the state

    def choose(self, name):
        page = self.page()
        value = self.rng.choice([value for value, _ in page.choices()[name][0]])
        self.open_tab.run(f'''controls.elements.{name}.value = {json.dumps(value)};
            controls.elements.{name}.dispatchEvent(new Event('change', {{bubbles: true}})); null''')
        self.state[name] = value
        if name == 'model':
            self.state.update(sample='0', layer='', role='', least='', query='', token='', against='')
        self.settle_state()

    def settle_state(self):
        """A choice that is no longer offered falls back to the first."""
        if int(self.state['sample']) >= len(self.models[int(self.state['model'])]['samples']):
            self.state['sample'] = '0'
        for name in ('against', 'layer', 'role', 'least', 'order'):
            values = [value for value, _ in self.page().choices()[name][0]]
            if self.state[name] not in values:
                self.state[name] = values[0]
        if self.state['colour'] and self.state['colour'] not in [name for name, _ in self.page().measures()]:
            self.state['colour'] = ''

    def colour(self):
        value = self.rng.choice(self.page().measures())[0]
        self.open_tab.run(f'''byId('colour').value = {json.dumps(value)};
            byId('colour').dispatchEvent(new Event('change', {{bubbles: true}})); null''')
        self.state['colour'] = '' if value == ('changed' if self.page().base() else 'role') else value

    def token(self):
        index = self.rng.randrange(len(self.page().sample['tokens']))
        self.open_tab.run(f"document.querySelectorAll('#tokens button')[{index}].click(); null")
        self.state['token'] = str(index)

    def click_head(self):
        heads = self.page().shown()
        if not heads:
            return
        name = expected.key(self.rng.choice(heads))
        kind = self.rng.choice(['.card', '.cell'])
        self.open_tab.run(f"document.querySelector('{kind}[data-head=\"{name}\"]').click(); null")
        self.state['head'] = name

    def another_head(self):
        heads = [expected.key(head) for head in self.page().shown()]
        if not heads:
            return
        by = self.rng.choice([-1, 1])
        self.open_tab.run(f"byId('{'next' if by > 0 else 'previous'}').click(); null")
        at = heads.index(self.state['head']) if self.state['head'] in heads else 0
        self.state['head'] = heads[(at + by) % len(heads)]

    def query(self):
        page = self.page()
        if not page.weights(page.sample, page.open_head()):
            return
        index = self.rng.randrange(len(page.sample['tokens']))
        self.open_tab.run(f"document.querySelectorAll('#queries button')[{index}].click(); null")
        self.state['query'] = str(index)

    def look_at_other(self):
        page = self.page()
        if not page.other() or not page.weights(page.other_sample(), page.open_head()):
            return
        self.open_tab.run("byId('look-at-other').click(); null")
        self.state.update(model=self.state['against'], against=self.state['model'])
        self.settle_state()

    def close(self):
        self.open_tab.run("byId('close').click(); null")
        self.state.update(head='', query='')

    def reopen(self):
        """By the address alone, in a page that knows nothing of what happened before."""
        address = self.open_tab.run('location.hash')
        self.open_tab.run('if (dialog.open) dialog.close(); null')
        self.open_tab.settle()
        self.open_tab.run(f'''Object.assign(state, defaults); {self.put}
            history.replaceState(null, '', {json.dumps(address or '#')}); readAddress(); showModel(); null''')

    # --- what is seen

    def expect_all(self, where):
        self.until_found(self.open_tab)
        self.open_tab.settle()
        found, page = self.open_tab.run(READ), self.page()
        address = dict(urllib.parse.parse_qsl(found.pop('address')[1:]))
        self.assertEqual(address, page.address(), where)
        by_role = page.colour == 'role'
        least, most = (0, 1) if by_role else expected.extent([page.value(head) for head in page.heads])
        wanted = {
            'note': page.model['note'], 'count': page.count(), 'choices': page.choices(),
            'measures': [[list(pair) for pair in page.measures()], page.colour], 'cells': page.cells(),
            'legend': page.legend(), 'listed': page.listed(), 'tokens': page.tokens(),
            'swatches': [expected.role_colour(name) for name, _ in page.roles()] if page.colour in ('role', 'changed') else [],
            'scale': [] if by_role or page.colour == 'map' else [[[self.palette.shade(least + (most - least) * x / 255, least, most)
                                           for x in range(256)]]],
            'cards': [[group, [[lines[1:], lines[0], share, pruned] for lines, share, pruned in cards]]
                      for group, cards in page.cards()],
            'otherTokens': page.other_tokens(), 'tokenNote': page.token_note(), 'dialog': page.dialog()}
        self.assertEqual(set(found), set(wanted))
        for name, value in wanted.items():
            self.assertEqual(found[name], json.loads(json.dumps(value)), f'{name}, {where}')

    def test_every_step_shows_what_the_data_say(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.begin(seed)
                self.walk()

    def walk(self):
        self.expect_all('at first')
        choose = [lambda name=name: self.choose(name) for name in [*self.page().choices(), 'sample', 'sample', 'model']]
        outside = [self.colour, self.colour, self.token, self.click_head, self.click_head, self.click_head, self.reopen, *choose]
        inside = [self.another_head, self.query, self.look_at_other, self.reopen, self.close, self.close, self.close]
        for step in range(STEPS):
            self.rng.choice(inside if self.state['head'] else outside)()
            self.expect_all(f'step {step}, {self.state}')
        own = 'willReadFrequently'  # Chromium's word on how often pixels are read here
        self.assertEqual([one for one in self.open_tab.complaints() if own not in one], [])


if __name__ == '__main__':
    Walk.chromium, Walk.address = sys.argv[1], pathlib.Path(sys.argv[2], 'page.html').absolute().as_uri()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
