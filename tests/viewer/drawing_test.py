"""drawing_test.py CHROMIUM FOLDER: what the page draws is what its data say, read from pixels, places and texts.

FOLDER/page.html is the sample page; FOLDER/hostile.html has text that would be markup in every place that shows text.
"""
import base64
import itertools
import json
import pathlib
import re
import sys
import unittest
import zlib

from browser import Tab
from page import PageTest

FOLDER = pathlib.Path(sys.argv[2]).resolve()
PageTest.chromium, PageTest.address = sys.argv[1], (FOLDER / 'page.html').as_uri()

# Every text that is put on a canvas, with the place where it stands on it.
RECORDER = '''(() => {
    window.drawn = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const m = this.getTransform(), [left, top] = [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f];
        window.drawn.push({text, left, top, turned: m.b < -0.5, canvas: this.canvas.id});
        return fillText.call(this, text, x, y);
    };
    const clearRect = CanvasRenderingContext2D.prototype.clearRect;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
        window.drawn = window.drawn.filter((one) => one.canvas !== this.canvas.id);
        return clearRect.apply(this, box);
    };
})()'''


def data_of(name):
    text = (FOLDER / name).read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


DATA = data_of('page.html')


class Weights:
    """The weights of one head, decoded here once more: nothing of the page's own code is trusted."""

    def __init__(self, model, sample, layer, head):
        self.sample = DATA['models'][model]['samples'][sample]
        index = self.sample['heads'].index([layer, head])
        self.queries, self.keys = self.sample['tokens'], self.sample.get('key_tokens', self.sample['tokens'])
        self.bytes = zlib.decompress(base64.b64decode(self.sample['weights'][index]))
        assert len(self.bytes) == len(self.queries) * len(self.keys)

    def byte(self, query, key):
        return self.bytes[query * len(self.keys) + key]

    def weight(self, query, key):
        return (self.byte(query, key) / 255) ** 2

    def strongest(self, query, most):
        order = sorted(range(len(self.keys)), key=lambda key: -self.byte(query, key))
        return [key for key in order if self.byte(query, key) > 0][:most]


def shown(weight):
    return f'{weight:.2f}' if weight >= 0.1 else f'{weight:.3f}'


def number(value):
    """As the page writes it, up to the grouping of large ones."""
    if value is None:
        return '–'
    if value == int(value) or abs(value) >= 1000:
        return f'{round(value):,}'.replace('-', '−')
    return f'{float(f"{value:.3g}"):g}'.replace('-', '−')


class Drawing(PageTest):
    def recorded(self, at):
        """A tab with the recorder in place before the page's own scripts run."""
        tab = Tab(self.browser, 1280, 860, 'light')
        tab.call('Page.addScriptToEvaluateOnNewDocument', source=RECORDER)
        tab.open(self.address + at)
        return tab

    def colour(self, tab, name):
        text = tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()")
        return [int(text[at:at + 2], 16) for at in (1, 3, 5)]

    def expect_shade(self, tab, pixel, byte, where):
        paper, ink = self.colour(tab, '--map'), self.colour(tab, '--shade')
        for channel, low, high in zip(pixel, paper, ink):
            self.assertAlmostEqual(channel, low + byte / 255 * (high - low), delta=1.5, msg=where)

    def labels(self, tab, weights):
        """Where the labels of queries and keys stand on the map: down and across, by index."""
        drawn = [one for one in tab.run('window.drawn') if one['canvas'] == 'map']
        down = [one for one in drawn if not one['turned']]
        across = [one for one in drawn if one['turned']]
        self.assertEqual([one['text'] for one in down], weights.queries)
        self.assertEqual([one['text'] for one in across], weights.keys)
        # A text stands 4 below the middle of its line; one that is turned, 4 to the right of it.
        return [one['top'] - 4 for one in down], [one['left'] - 4 for one in across]

    def pixel(self, tab, x, y):
        return tab.run(f"[...byId('map').getContext('2d').getImageData({round(x)}, {round(y)}, 1, 1).data].slice(0, 3)")

    def test_labels_stand_at_their_cells_and_shades_are_the_weights(self):
        for model, sample, layer, head in ((0, 1, 0, 0), (0, 1, 2, 4), (1, 1, 0, 0)):
            weights = Weights(model, sample, layer, head)
            tab = self.recorded(f'#model={model}&sample={sample}&head={layer}.{head}')
            down, across = self.labels(tab, weights)
            near = 0.4 * (across[1] - across[0])  # to the edges of a cell
            for query, y in enumerate(down):
                for key, x in enumerate(across):
                    for side in (-near, 0, near):
                        self.expect_shade(tab, self.pixel(tab, x + side, y + side), weights.byte(query, key), f'{query}, {key}')

    def test_the_darkest_cell_is_the_largest_weight(self):
        weights = Weights(0, 1, 0, 2)
        tab = self.recorded('#sample=1&head=0.2')
        down, across = self.labels(tab, weights)
        paper = self.colour(tab, '--map')
        far = {(q, k): sum(abs(a - b) for a, b in zip(self.pixel(tab, x, y), paper))
               for q, y in enumerate(down) for k, x in enumerate(across)}
        darkest = max(far, key=far.get)
        largest = max(far, key=lambda cell: weights.byte(*cell))
        self.assertEqual(weights.byte(*darkest), weights.byte(*largest))

    def test_the_pointer_reads_the_cell_that_it_is_over(self):
        weights = Weights(1, 1, 0, 0)  # three queries, four keys
        tab = self.recorded('#model=1&sample=1&head=0.0')
        down, across = self.labels(tab, weights)
        ratio, width, height = tab.run("[map.ratio, byId('map').clientWidth, byId('map').clientHeight]")
        near = 0.4 * (across[1] - across[0])  # to opposite corners of a cell
        for query, key, side in itertools.product(range(len(down)), range(len(across)), (-near, near)):
            tab.point('#map', (across[key] + side) / ratio / width, (down[query] + side) / ratio / height, click=False)
            self.assertEqual(tab.text('#readout'), f'Query {weights.queries[query]} ({query}) → key {weights.keys[key]} '
                                                   f'({key}): weight {shown(weights.weight(query, key))}')
        # A click chooses the row; the cursor frames the cell.
        tab.point('#map', across[2] / ratio / width, down[1] / ratio / height)
        self.assertIn('query=1', tab.run('location.hash'))
        self.assertEqual(tab.run('[map.cursor.query, map.cursor.key]'), [1, 2])
        accent = self.colour(tab, '--accent')
        half = tab.run('map.cell * map.ratio / 2') + 1
        for x, y in ((across[2] - half, down[1]), (across[2] + half, down[1]), (across[2], down[1] - half)):
            self.assertLess(sum(abs(a - b) for a, b in zip(self.pixel(tab, x, y), accent)), 90, 'the frame')

    def arcs(self, tab):
        return tab.run('''(() => {
            const box = byId('arcs').getBoundingClientRect(), middle = (e) => {
                const own = e.getBoundingClientRect();
                return own.top + own.height / 2 - box.top;
            };
            return {
                arcs: [...document.querySelectorAll('#arcs path')].map((path) => ({
                    numbers: path.getAttribute('d').match(/-?[0-9.]+/g).map(Number),
                    width: Number(path.getAttribute('stroke-width')), shade: Number(path.getAttribute('stroke-opacity'))})),
                from: middle(document.querySelector('#queries [aria-pressed="true"]')),
                pressed: document.querySelector('#queries [aria-pressed="true"]').innerText,
                rows: [...byId('keys').children].map((e) => ({y: middle(e), token: e.querySelector('.token').textContent,
                    key: Number(e.querySelector('.index').textContent), weight: e.querySelector('.weight').textContent,
                    linked: e.classList.contains('linked')})),
                gap: box.width, height: box.height};
        })()''')

    def test_arcs_go_from_the_query_to_its_strongest_keys(self):
        for sample, query in ((1, 9), (0, 100)):  # all keys listed; only the linked ones
            weights = Weights(0, sample, 2, 4)
            tab = self.tab(at=f'#sample={sample}&head=2.4&query={query}')
            found = self.arcs(tab)
            self.assertEqual(found['pressed'], weights.queries[query])
            strongest = weights.strongest(query, 8)
            self.assertEqual(len(found['arcs']), len(strongest))
            rows = {row['key']: row for row in found['rows']}
            self.assertEqual(list(rows), sorted(rows), 'in the order of the text')
            self.assertEqual(sorted(rows), list(range(len(weights.keys))) if sample == 1 else sorted(strongest))
            for arc, key in zip(found['arcs'], strongest):
                left, from_y, *_, right, to_y = arc['numbers']
                self.assertEqual(left, 0)
                self.assertAlmostEqual(right, found['gap'], delta=1)
                self.assertAlmostEqual(from_y, found['from'], delta=2)
                self.assertAlmostEqual(to_y, rows[key]['y'], delta=2, msg=f'{key}')
                self.assertAlmostEqual(arc['width'], 1 + 7 * weights.weight(query, key), delta=0.01)
                self.assertEqual(rows[key]['weight'], shown(weights.weight(query, key)))
                self.assertEqual(rows[key]['token'], weights.keys[key])
            for kind in ('width', 'shade'):
                values = [arc[kind] for arc in found['arcs']]
                self.assertEqual(values, sorted(values, reverse=True), 'thicker and darker for more')
            for key, row in rows.items():
                self.assertEqual(row['linked'], key in strongest)
                self.assertEqual(row['weight'] != '', key in strongest)
            self.assertGreaterEqual(found['height'], max(row['y'] for row in rows.values()))
            self.assertEqual(tab.text('#side'), 'keys' if sample == 1 else 'strongest keys')
            if sample == 0:
                middle = sum(row['y'] for row in rows.values()) / len(rows)
                self.assertAlmostEqual(middle, found['from'], delta=13, msg='beside the query')
            words = ', '.join(f'{weights.keys[key]} {shown(weights.weight(query, key))}' for key in strongest[:5])
            self.assertEqual(tab.text('#summary'), f'Query {weights.queries[query]} ({query}) → {words}')

    def test_one_query_is_chosen_and_can_be_reached(self):
        tab = self.tab(at='#sample=1&head=2.4&query=3')
        of_queries = "[...document.querySelectorAll('#queries button')].map((e) => [e.tabIndex, e.getAttribute('aria-pressed')])"
        self.assertEqual(tab.run(of_queries), [[0, 'true'] if query == 3 else [-1, 'false'] for query in range(14)])
        tab.point('#queries li:nth-child(6) button')
        self.assertIn('query=5', tab.run('location.hash'))
        self.assertEqual(self.arcs(tab)['pressed'], Weights(0, 1, 2, 4).queries[5])

    def test_the_pointer_draws_the_lines_of_the_query_that_it_is_over(self):
        weights = Weights(0, 1, 2, 4)
        tab = self.tab(at='#sample=1&head=2.4&query=3')
        tab.point('#queries li:nth-child(10) button', click=False)
        found = self.arcs(tab)
        self.assertEqual({row['key'] for row in found['rows'] if row['linked']}, set(weights.strongest(9, 8)))
        self.assertEqual(found['pressed'], weights.queries[3], 'what was chosen stays')
        tab.point('#head-name', click=False)
        self.assertEqual({row['key'] for row in self.arcs(tab)['rows'] if row['linked']}, set(weights.strongest(3, 8)))

    def test_heads_are_listed_in_the_order_of_their_colour(self):
        tab = self.tab(at='#colour=importance')
        tab.run("byId('more').open = true")
        tab.point('#sorted summary')
        rows = tab.run("[...document.querySelectorAll('#sorted tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        heads = sorted(DATA['models'][0]['heads'], key=lambda head: -head['importance'])
        self.assertEqual(rows, [[f"{head['layer']}.{head['head']}", head.get('role') or 'no clear role', number(head['importance'])]
                                for head in heads])
        tab.point('#sorted tbody tr:nth-child(2) button')
        self.assertEqual(tab.run('state.head'), rows[1][0])

    def test_every_figure_and_every_table_can_be_saved(self):
        tab = self.tab(at='#sample=1&head=2.4&query=3')
        tab.run("byId('strongest').open = true; byId('sorted').open = true")
        tab.run("""window.saved = {}; save.file = async (name, type, content) => {
            saved[name] = content instanceof Blob ? (await createImageBitmap(content)).width : content; }""")
        tab.settle()
        self.assertEqual(tab.run("""[...document.querySelectorAll('figure, #grid, #map, #arcs, main table:not(#grid), #head table')]
            .filter((shown) => !(shown.id === 'grid' ? byId('save-grid') : shown.closest('section, figure, .block, details, #numbers'))
                .querySelector('button.small[title^=Save]'))
            .map((shown) => shown.id || shown.className)"""), [])
        tab.run("[...document.querySelectorAll('button[title^=\"Save as\"]')].forEach((button) => button.click())")
        count = tab.run("document.querySelectorAll('button[title^=\"Save as\"]').length")
        for _ in range(100):
            tab.settle()
            if tab.run('Object.keys(saved).length') == count:
                break
        saved = tab.run('saved')
        self.assertEqual(len(saved), count)
        table = DATA['tables'][0]
        self.assertEqual(json.loads(saved['summary.json']), [dict(zip(table['columns'], row)) for row in table['rows']])
        weights = Weights(0, 1, 2, 4)
        rows = json.loads(saved['head-2.4.json'])
        self.assertEqual(rows['queries'], weights.queries)
        for query, row in enumerate(rows['weights']):
            for key, weight in enumerate(row):
                self.assertAlmostEqual(weight, weights.weight(query, key), places=3)
        self.assertEqual(saved['head-2.4-links.svg'].count('<path'), len(weights.strongest(3, 8)))
        self.assertIn('fill="#fff"', saved[f"{DATA['figures'][0]['id']}.svg"])
        self.assertGreater(saved[f"{DATA['figures'][0]['id']}.png"], 1000)

    def test_a_head_opens_at_its_most_telling_query(self):
        for head in ((0, 0), (2, 4), (7, 7)):
            weights = Weights(0, 1, *head)
            best = lambda query: max(weights.byte(query, key) for key in range(1, len(weights.keys)))
            telling = max(range(len(weights.queries)), key=best)
            tab = self.tab(at='#sample=1&head={}.{}'.format(*head))
            self.assertEqual(tab.run('currentQuery(map.matrix)'), telling)
            self.assertIn(f'({telling})', tab.text('#summary'))
            token = (telling + 1) % len(weights.queries)
            tab = self.tab(at='#sample=1&token={}&head={}.{}'.format(token, *head))
            self.assertEqual(tab.run('currentQuery(map.matrix)'), token, 'or at the token that was chosen above')

    def test_cells_of_the_grid_have_the_shade_of_their_number(self):
        tab = self.tab(at='#colour=importance')
        heads = DATA['models'][0]['heads']
        most = max(head['importance'] for head in heads)
        for head in heads[::7]:
            cell = f'.cell[data-head="{head["layer"]}.{head["head"]}"]'
            pixel = tab.run(f"getComputedStyle(document.querySelector('{cell}')).backgroundColor.match(/\\d+/g).map(Number)")
            self.expect_shade(tab, pixel, round(255 * head['importance'] / most), cell)
            self.assertIn(number(head['importance']), tab.run(f"document.querySelector('{cell}').ariaLabel"))

    def test_a_part_can_be_looked_at_closely(self):
        weights = Weights(0, 0, 0, 0)
        tab = self.recorded('#sample=0&head=0.0')
        pixel = """(([query, key]) => Array.from(map.canvas.getContext('2d').getImageData(
            Math.round(map.x(key + 0.5) * map.ratio), Math.round(map.y(query + 0.5) * map.ratio), 1, 1).data).slice(0, 3))"""
        tab.run("map.moveTo(100, 60)")
        for _ in range(3):
            tab.point('#zoom-in')
        tab.run("map.cursor = null; state.query = '0'; map.draw()")
        self.assertTrue(tab.run("byId('zoom-in').disabled"))
        self.assertAlmostEqual(tab.run('map.cell'), 24, places=6)
        first, seen = tab.run('map.first'), tab.run('map.seen')
        self.assertTrue(first['query'] < 100 < first['query'] + seen['queries'], 'the cursor stays in view')
        self.assertTrue(first['key'] < 60 < first['key'] + seen['keys'])
        for query, key in ((100, 60), (99, 61), (101, 59)):
            self.expect_shade(tab, tab.run(f'{pixel}([{query}, {key}])'), weights.byte(query, key), (query, key))
        # Cells that the edges cut in two.
        for cut in (0.4, 0.6):
            for query, key in ((90 + cut, 50 + cut), (110 + cut - seen['queries'], 70 + cut - seen['keys'])):
                tab.run(f'map.first = {{query: {query}, key: {key}}}; map.draw()')
                for down in (0.2, seen['queries'] / 2, seen['queries'] - 0.2):
                    for across in (0.2, seen['keys'] / 2, seen['keys'] - 0.2):
                        at = query + down, key + across
                        cell = [int(one) for one in at]
                        if min(abs(one % 1 - edge) for one in at for edge in (0, 1)) > 0.1:
                            self.expect_shade(tab, tab.run(f'{pixel}([{at[0] - 0.5}, {at[1] - 0.5}])'), weights.byte(*cell), at)
        tab.run(f"map.first = {{query: {first['query']}, key: {first['key']}}}; map.pan(-48, 24)")
        tab.settle()
        self.assertAlmostEqual(tab.run('map.first.key'), first['key'] + 2, places=6)
        self.assertAlmostEqual(tab.run('map.first.query'), first['query'] - 1, places=6)
        tab.run("byId('map').focus(); map.moveTo(0, 0); map.follow()")
        self.assertEqual(tab.run('map.first'), {'query': 0, 'key': 0}, 'the view follows the cursor')
        for _ in range(4):
            tab.press('ArrowRight')
        tab.point('#map', 0.995, 0.995)  # on a whole pixel of it, wherever the page begins
        self.assertEqual(tab.run('map.cursor.key'), tab.run('Math.ceil(map.seen.keys) - 1'), 'a cell is where it is drawn')
        for _ in range(4):
            tab.run('map.zoomBy(0.5)')
        self.assertEqual(tab.run('[map.zoom, map.first.query, map.first.key]'), [1, 0, 0])

    def test_the_arrows_move_by_one_cell_and_stay_on_the_map(self):
        tab = self.tab(at='#model=1&sample=1&head=0.0&query=0')  # three queries, four keys
        tab.run("byId('map').focus()")
        way = [('Down', 1, 0), ('Right', 1, 1), ('Up', 0, 1), ('Left', 0, 0), ('Left', 0, 0), ('Up', 0, 0)]
        way += [('Right', 0, key) for key in (1, 2, 3, 3)] + [('Down', query, 3) for query in (1, 2, 2)]
        for key, *cell in way:
            tab.press('Arrow' + key)
            self.assertEqual(tab.run('[map.cursor.query, map.cursor.key]'), cell, key)

    def test_where_cells_are_small_every_nth_token_has_a_label(self):
        weights = Weights(0, 0, 0, 0)
        tab = self.recorded('#sample=0&head=0.0')
        every = tab.run('Math.ceil(13 / map.cell)')
        self.assertGreater(every, 1)

        def shown(turned):
            return [one['text'] for one in tab.run('window.drawn') if one['canvas'] == 'map' and one['turned'] == turned]

        def expected(tokens, chosen=None):
            return [token for i, token in enumerate(tokens)
                    if i == chosen or (i % every == 0 and (chosen is None or abs(i - chosen) >= every))]

        self.assertEqual(shown(False), expected(weights.queries))
        self.assertEqual(shown(True), expected(weights.keys))
        chosen = 10 * every  # its neighbours are just far enough
        tab.run(f'map.moveTo({chosen}, 31)')
        tab.settle()
        self.assertEqual(shown(False), expected(weights.queries, chosen))
        self.assertEqual(shown(True), expected(weights.keys, 31))

    def test_numbers_are_short_and_thousands_are_grouped(self):
        self.assertEqual(self.tab().run('[0, -0.012345, 999.4, 1000.4, 1234.5, -1234.6, -12345, 5, null].map(number)'),
                         ['0', '−0.0123', '999', '1,000', '1,235', '−1,235', '−12,345', '5', '–'])

    def test_the_table_has_the_five_strongest_of_every_query(self):
        weights = Weights(0, 1, 2, 4)
        tab = self.tab(at='#sample=1&head=2.4')
        tab.point('#strongest summary')
        rows = tab.run("[...document.querySelectorAll('#strongest tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        for query, row in enumerate(rows):
            cells = [f'{weights.keys[key]} ({key}) {shown(weights.weight(query, key))}' for key in weights.strongest(query, 5)]
            self.assertEqual(row, [f'{weights.queries[query]} ({query})', *cells, *[''] * (5 - len(cells))])
        self.assertEqual(len(rows), 14)
        tab.run('moveHead(1)')
        self.assertEqual(tab.run("document.querySelectorAll('#strongest table').length"), 1, 'that of the head that is shown')
        first = tab.run("document.querySelectorAll('#strongest tbody tr')[9].cells[1].textContent")
        key = Weights(0, 1, 2, 5).strongest(9, 1)[0]
        self.assertTrue(first.startswith(f'{weights.keys[key]} ({key}) '), first)

    def test_thumbnails_are_the_weights(self):
        tab = self.tab(at='#sample=1')
        for layer, head in ((0, 0), (3, 5)):
            weights = Weights(0, 1, layer, head)
            tab.point(f'.card[data-head="{layer}.{head}"]', click=False)
            tab.settle()
            width, height, pixels = tab.run(f'''((e) => [e.width, e.height,
                [...e.getContext('2d').getImageData(0, 0, e.width, e.height).data]])(
                document.querySelector('.card[data-head="{layer}.{head}"] canvas'))''')
            self.assertEqual((width, height), (14, 14))
            for query in range(14):
                for key in range(14):
                    at = 4 * (query * 14 + key)
                    self.expect_shade(tab, pixels[at:at + 3], weights.byte(query, key), f'{query}, {key}')

    def test_the_key_goes_from_nothing_to_all(self):
        tab = self.tab(at='#head=0.0')
        for byte in (0, 16, 128, 255):
            pixel = tab.run(f"[...document.querySelector('.key canvas').getContext('2d').getImageData({byte}, 0, 1, 1).data]")
            self.expect_shade(tab, pixel[:3], byte, byte)

    def cards(self, tab):
        return tab.run('''[...document.querySelectorAll('.card')].map((e) => ({head: e.dataset.head,
            place: e.querySelector('.place').textContent, score: e.querySelector('.score').textContent,
            role: e.querySelector('.role').textContent, pruned: e.classList.contains('pruned'),
            group: e.closest('ul').previousElementSibling?.textContent ?? '',
            importance: e.querySelector('.importance')?.textContent,
            share: e.querySelector('.bar span')?.getBoundingClientRect().width /
                e.querySelector('.bar')?.getBoundingClientRect().width}))''')

    def test_cards_say_what_is_known_of_their_head(self):
        for number_of_model, model in enumerate(DATA['models']):
            heads = {f"{head['layer']}.{head['head']}": head for head in model['heads']}
            highest = max(head['importance'] for head in heads.values())
            cards = self.cards(self.tab(at=f'#model={number_of_model}'))
            self.assertEqual([card['head'] for card in cards], list(heads), 'by layer, then by head')
            for card in cards:
                head = heads[card['head']]
                self.assertEqual(card['place'], f"Head {card['head']}")
                self.assertEqual(card['role'], head.get('role') or 'no clear role')
                self.assertEqual(card['score'], f"{head['score']:.2f}" if 'score' in head else '')
                self.assertEqual(card['pruned'], not head['kept'])
                self.assertEqual(card['group'], f"Layer {head['layer']}")
                self.assertAlmostEqual(card['share'], head['importance'] / highest, delta=0.02)
                self.assertEqual(card['importance'], 'importance ' + number(float(f"{head['importance']:.2g}")))

    def test_orders_and_choices(self):
        heads = DATA['models'][0]['heads']
        name = lambda head: f"{head['layer']}.{head['head']}"
        role = lambda head: head.get('role') or 'no clear role'
        place = lambda head: (head['layer'], head['head'])
        orders = {'importance': lambda head: (-head['importance'], *place(head)),
                  'damage': lambda head: (-head['damage'], *place(head)),
                  'role': lambda head: (role(head), -head.get('score', 0), *place(head))}
        for order, by in orders.items():
            cards = self.cards(self.tab(at=f'#order={order}'))
            self.assertEqual([card['head'] for card in cards], [name(head) for head in sorted(heads, key=by)], order)
            if order == 'role':
                self.assertTrue(all(card['group'] == card['role'] for card in cards))
        highest = max(head['importance'] for head in heads)
        for least in ('0.25', '0.5'):
            cards = self.cards(self.tab(at=f'#least={least}'))
            self.assertEqual([card['head'] for card in cards],
                             [name(head) for head in heads if head['importance'] >= float(least) * highest])
        tab = self.tab(at='#layer=2&role=induction')
        self.assertEqual([card['head'] for card in self.cards(tab)],
                         [name(head) for head in heads if head['layer'] == 2 and role(head) == 'induction'])
        options = tab.run("[...document.querySelector('.controls').elements.role.options].map((o) => o.text)")
        self.assertEqual(options, ['all', *sorted({role(head) for head in heads})])

    def test_the_chosen_query_is_in_sight(self):
        for query in (0, 60, 127):
            tab = self.tab(at=f'#sample=0&head=0.0&query={query}')
            chosen, box = tab.run("""[document.querySelector('#queries [aria-pressed="true"]'), document.querySelector('.pairs')]
                .map((e) => [e.getBoundingClientRect().top, e.getBoundingClientRect().bottom])""")
            self.assertGreaterEqual(chosen[0], box[0], query)
            self.assertLessEqual(chosen[1], box[1], query)
            if query == 60:
                self.assertAlmostEqual(sum(chosen), sum(box), delta=60, msg='in the middle of the list')

    def test_long_tokens_are_cut_and_say_so(self):
        tab = self.recorded('#model=1&sample=0&head=0.0')
        tokens = DATA['models'][1]['samples'][0]['tokens']
        down = [one['text'] for one in tab.run('window.drawn') if one['canvas'] == 'map' and not one['turned']]
        self.assertEqual(len(down), len(tokens))
        cut = [text for text, token in zip(down, tokens) if text != token]
        self.assertTrue(cut)
        for text, token in zip(down, tokens):
            self.assertTrue(text == token or (text.endswith('…') and token.startswith(text[:-1])), text)

    def test_tokens_have_the_room_that_the_longest_needs(self):
        tab = self.tab(at='#model=1&sample=1&head=0.0')  # its keys are longer than its queries
        room = tab.run("""(() => { const pen = byId('map').getContext('2d'); pen.font = map.font();
            const widest = (tokens) => Math.max(...tokens.map((token) => pen.measureText(token).width));
            return [map.left - widest(map.sample.tokens), map.top - widest(map.sample.key_tokens)]; })()""")
        for left_over in room:
            self.assertAlmostEqual(left_over, 8, delta=1)

    def test_few_tokens_have_cells_of_a_sensible_size(self):
        self.assertEqual(self.tab(at='#model=1&sample=1&head=0.0').run('map.cell'), 40)

    def test_cards_without_a_map_say_why(self):
        says = """Object.fromEntries([...document.querySelectorAll('.card')].map((e) =>
            [e.dataset.head, e.querySelector('.thumb').textContent]))"""
        heads = {f"{one['layer']}.{one['head']}": one for one in DATA['models'][1]['heads']}
        self.assertEqual(self.tab(at='#model=1&sample=0').run(says),
                         {name: '' if head['kept'] else 'pruned' for name, head in heads.items()})
        self.assertEqual(self.tab(at='#model=1&sample=1').run(says),
                         {name: '' if name == '0.0' else 'not in this text' if head['kept'] else 'pruned'
                          for name, head in heads.items()})

    def test_another_model_is_shown_whole(self):
        tab = self.tab(at='#sample=1&layer=3&role=induction&least=0.25&order=damage')
        tab.run("""(() => { const e = controls.elements.model; e.value = '1';
            e.dispatchEvent(new Event('change', {bubbles: true})); })()""")
        self.assertEqual(len(self.cards(tab)), len(DATA['models'][1]['heads']))
        self.assertEqual(tab.run('location.hash'), '#model=1&order=damage')

    def test_heads_of_which_nothing_is_known_come_last(self):
        tab = self.tab()
        order = tab.run("""(() => {
            currentModel().heads.forEach((head, n) => { if (n % 3 === 0) delete head.damage; });
            state.order = 'damage';
            return shownHeads().map((head) => head.damage ?? null);
        })()""")
        known = [value for value in order if value is not None]
        self.assertLess(min(known), 0)
        self.assertEqual(order, sorted(known, reverse=True) + [None] * (len(order) - len(known)))

    def test_a_choice_of_one_is_not_offered(self):
        hidden = "controls.elements.sample.parentElement.hidden"
        tab = self.tab()
        self.assertEqual(tab.run(f"[fill('sample', [[0, 'one']]), {hidden}][1]"), True)
        self.assertEqual(tab.run(f"[fill('sample', [[0, 'one'], [1, 'two']]), {hidden}][1]"), False)
        # Of what the heads are known by, and whether there are maps.
        shown = "!controls.elements.order.parentElement.hidden"
        self.assertTrue(tab.run(shown))
        tab.run("currentModel().heads.forEach((head) => { delete head.damage; delete head.role; }); showHeads()")
        self.assertTrue(tab.run(shown), 'by layer and by importance')
        tab.run("currentModel().heads.forEach((head) => { delete head.importance; }); showHeads()")
        self.assertFalse(tab.run(shown), 'by layer alone')

    def test_columns_of_numbers_stand_to_the_right(self):
        made = "table(['word', 'number', 'both'], [['a', 1, 2], ['b', null, 'none']])"
        self.assertEqual(self.tab().run(f"[...{made}.querySelectorAll('th')].map((e) => e.className)"), ['', 'number', ''])
        self.assertEqual(self.tab().run(f"[...{made}.querySelectorAll('td')].map((e) => e.className)"),
                         ['', 'number', 'number', '', 'number', ''])

    def test_the_numbers_of_a_head(self):
        head = DATA['models'][0]['heads'][11]
        tab = self.tab(at=f"#head={head['layer']}.{head['head']}")
        rows = tab.run("[...document.querySelectorAll('#numbers tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        interval = f"damage without it ({number(head['damage_low'])} to {number(head['damage_high'])})"
        layer = [one for one in DATA['models'][0]['heads'] if one['layer'] == head['layer']]
        left, right = layer[head['head'] - 1], layer[head['head'] + 1]

        def row(name, of):
            return [name, *(number(of(one)) for one in (head, left, right)), number(sum(map(of, layer)) / len(layer))]

        expected = [row(interval, lambda one: one['damage']), row('importance', lambda one: one['importance'])]
        expected += [row(name, lambda one: one['statistics'][name]) for name in head['statistics']]
        roles = sorted(head['roles'], key=lambda name: -head['roles'][name])
        expected += [row(name, lambda one: one['roles'][name]) for name in roles]
        self.assertEqual(rows, expected)
        columns = tab.run("[...document.querySelector('#numbers thead tr').cells].map((c) => c.textContent)")
        self.assertEqual(columns, ['number', 'head 1.3', 'head 1.2', 'head 1.4', 'layer 1, mean'])
        said = f"{head.get('role') or 'no clear role'}" + (f" {number(head['score'])}" if 'score' in head else '')
        self.assertEqual(tab.text('#head-role'), said)

    def test_pictures_are_the_drawings_from_edge_to_edge(self):
        tab = self.tab()
        for one in DATA['figures']:
            size = re.search(r'width="(\d+)" height="(\d+)"', (FOLDER / f"{one['id']}.svg").read_text())
            picture = base64.b64encode((FOLDER / f"{one['id']}.png").read_bytes()).decode()
            width, height, corners = tab.run("""new Promise((done) => {
                const image = new Image(), canvas = document.createElement('canvas'), pen = canvas.getContext('2d');
                image.onload = () => {
                    const {width, height} = Object.assign(canvas, {width: image.width, height: image.height});
                    pen.drawImage(image, 0, 0);
                    const at = (x, y) => [...pen.getImageData(x, y, 1, 1).data];
                    done([width, height, [[2, 2], [width - 3, 2], [2, height - 3], [width - 3, height - 3]].map((p) => at(...p))]);
                };
                image.src = 'data:image/png;base64,%s';
            })""" % picture)
            self.assertEqual((width, height), (2 * int(size.group(1)), 2 * int(size.group(2))), one['id'])
            self.assertEqual(corners, [[255] * 4] * 4, 'white paper in every corner')

    def test_findings_tables_and_what_the_page_is_about(self):
        tab = self.tab()
        figures, tables = ([one['id'] for one in DATA[kind]] for kind in ('figures', 'tables'))
        for figure in figures:
            said = tab.run(f"[...document.querySelectorAll('#figure-{figure} .says li')].map((e) => e.textContent)")
            self.assertEqual(said, [one['text'] for one in DATA['findings'] if one['figure'] == figure])
        others = [one for one in DATA['findings'] if one['figure'] not in figures]
        self.assertEqual(tab.run("[...document.querySelectorAll('#findings > ol li')].map((e) => [e.textContent, e.querySelector('a').hash])"),
                         [[f"{one['text']} Table {tables.index(one['figure']) + 1}", f"#table-{one['figure']}"] for one in others])
        headings = tab.run("[...document.querySelectorAll('figure h3')].map((e) => e.textContent)")
        self.assertEqual(headings, [f"Figure {n + 1}{one['title']}" for n, one in enumerate(DATA['figures'])])
        headings = tab.run("[...document.querySelectorAll('#tables h3')].map((e) => e.textContent)")
        self.assertEqual(headings, [f"Table {n + 1}{one['title']}" for n, one in enumerate(DATA['tables'])])
        table = DATA['tables'][0]
        cells = tab.run("[...document.querySelectorAll('#tables tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        self.assertEqual(cells[0], table['columns'])
        self.assertEqual(cells[1:], [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in table['rows']])
        about = tab.run("Object.fromEntries([...document.querySelectorAll('#about div')].map((e) => [...e.children].map((c) => c.textContent)))")
        self.assertEqual(about, DATA['about'])
        self.assertEqual(tab.run('document.title'), DATA['title'])

    def test_hostile_text_is_text_in_every_place(self):
        hostile = data_of('hostile.html')
        for theme in ('light', 'dark'):
            tab = Tab(self.browser, 1280, 860, theme)
            tab.open((FOLDER / 'hostile.html').as_uri())
            tab.point('.card')
            tab.point('#strongest summary')
            tab.point('#map', 0.9, 0.9)
            self.assertEqual(tab.run("document.querySelectorAll('b.bad, img, iframe, object, embed').length"), 0)
            self.assertEqual(tab.run('window.bad'), None)
            page = tab.run("document.body.textContent + document.title + [...document.querySelectorAll('option')].map((o) => o.text)")
            for place in ('title', 'lead', 'about name', 'about value', 'finding', 'figure title', 'caption', 'table title',
                          'column', 'cell', 'model', 'note', 'sample', 'role', 'statistic', 'query', 'x label', 'series'):
                self.assertIn(f'<b class=bad onclick=bad=1>{place}</b>', page, place)
            self.assertEqual(tab.complaints(), [])
            self.assertEqual(hostile['models'][0]['name'], '<b class=bad onclick=bad=1>model</b>')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
