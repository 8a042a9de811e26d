"""reading_test.py CHROMIUM FOLDER: what the page makes of a text, the grid's colours and keys, and what it saves.

FOLDER/page.html is the sample page; predictions, losses and embeddings are put into its data here.
"""
import csv
import io
import itertools
import json
import random
import sys
import unittest
import xml.etree.ElementTree

import expected
from drawing_test import DATA, FOLDER, Weights, number
from page import PageTest

SVG = '{http://www.w3.org/2000/svg}'
TOKENS = DATA['models'][0]['samples'][1]['tokens']  # 14 of them
LOSSES = [0, 1, 2, 4, 8, 16, 3, 0.5, 0.25, 6, 7, 1.5, 2.5]
BEFORE = [0, 2, 1, 4, 7, 20, 3, 0.5, 0.125, 6, 6, 1.5, 3]


def predictions(first):
    """A row for every token; the likeliest of row 4 are a, b and c."""
    return [[['a', first], ['b', 0.25], ['c', 0.0625]] if t == 4 else [[f'next {t}', 0.5]] for t in range(len(TOKENS))]


class Reading(PageTest):
    def opened(self, at='', **more):
        """The short text with what a model may have said of it."""
        tab = self.tab(at='#sample=1' + at)
        tab.run(f'Object.assign(currentSample(), {json.dumps(more)}); reading.show(); null')
        return tab

    def colour(self, tab, name):
        text = tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()")
        return [int(text[at:at + 2], 16) for at in (1, 3, 5)]

    def expect_colour(self, tab, found, share, ink, where):
        """`found` is that share of the way from the paper to the ink."""
        for channel, low, high in zip(found, self.colour(tab, '--map'), self.colour(tab, ink)):
            self.assertAlmostEqual(channel, low + share * (high - low), delta=1.5, msg=where)

    def backgrounds(self, tab, selector):
        return tab.run(f"""[...document.querySelectorAll('{selector}')].map((e) => e.style.backgroundColor &&
            e.style.backgroundColor.match(/\\d+/g).map(Number))""")

    # --- tokens

    def test_a_token_is_the_darker_the_less_it_was_expected(self):
        tab = self.opened(losses=LOSSES)
        shades = self.backgrounds(tab, '#tokens button')
        self.assertEqual(shades[0], '', 'nothing is known of the first')
        for t, loss in enumerate(LOSSES, 1):
            self.expect_colour(tab, shades[t], min(loss, 8) / 16, '--shade', t)

    def test_with_gates_the_shade_is_the_change(self):
        tab = self.opened(losses=LOSSES, before={'losses': BEFORE})
        shades = self.backgrounds(tab, '#tokens button')
        for t, (loss, before) in enumerate(zip(LOSSES, BEFORE), 1):
            ink = '--shade' if loss >= before else '--cold'
            self.expect_colour(tab, shades[t], min(abs(loss - before) / 4, 1), ink, t)

    def test_the_note_says_which_token_and_its_loss(self):
        tab = self.opened('&token=3', losses=LOSSES, predictions=predictions(0.5))
        shade = ' The stronger the shade, the less the model expected the token.'
        self.assertEqual(tab.text('#token-note'), 'Token 3, of 0 to 13, at which heads open, its loss 2.' + shade)
        tab.run(f"currentSample().before = {{losses: {json.dumps(BEFORE)}, predictions: currentSample().predictions}}; reading.show()")
        self.assertEqual(tab.text('#token-note'), 'Token 3, of 0 to 13, at which heads open, its loss 2, +1 against the whole model. '
                                                  'The shade is the change of the loss.')
        pressed = "[...document.querySelectorAll('#tokens button')].map((e) => e.getAttribute('aria-pressed')).indexOf('true')"
        self.assertEqual(tab.run(pressed), 3)
        tab.point('#tokens li:nth-child(6) button')
        self.assertEqual([tab.run(pressed), tab.run('state.token')], [5, '5'])
        tab.press('ArrowLeft')
        self.assertEqual([tab.run(pressed), tab.run('state.token')], [4, '4'])
        tab.point('#tokens li:last-child button')
        self.assertEqual([tab.run(pressed), tab.run('state.token')], [13, ''], 'the last is what is shown anyway')
        tab.press('ArrowRight')
        self.assertEqual(tab.run(pressed), 13)
        tab.press('ArrowLeft')
        self.assertEqual(tab.run(pressed), 12)

    # --- what comes next

    def rows(self, tab):
        return tab.run("""[...document.querySelectorAll('.predictions tbody tr')].map((row) => ({
            cells: [...row.cells].map((cell) => cell.textContent),
            bar: row.querySelector('.chance span').style.width, mark: row.querySelector('.chance i')?.style.left ?? ''}))""")

    def test_what_is_likely_after_a_token(self):
        tab = self.opened('&token=4', losses=LOSSES, predictions=predictions(0.5))
        self.assertEqual(tab.text('#outcome-name'), f'Next, after {TOKENS[4]} (4)')
        self.assertEqual(self.rows(tab), [{'cells': ['a', '', '50.0 %'], 'bar': '50%', 'mark': ''},
                                          {'cells': ['b', '', '25.0 %'], 'bar': '25%', 'mark': ''},
                                          {'cells': ['c', '', '6.25 %'], 'bar': '6.25%', 'mark': ''}])
        tab.point('#tokens li:nth-child(3) button')
        self.assertEqual(self.rows(tab)[0]['cells'][0], 'next 2')

    def test_with_gates_what_it_was_before(self):
        before = predictions(0.5)
        before[4] = [['a', 0.625], ['c', 0.03125], ['d', 0.01]]
        tab = self.opened('&token=4', losses=LOSSES, predictions=predictions(0.5),
                          before={'losses': BEFORE, 'predictions': before})
        self.assertEqual(self.rows(tab), [{'cells': ['a', '', '50.0 %', '−12.5'], 'bar': '50%', 'mark': '62.5%'},
                                          {'cells': ['b', '', '25.0 %', 'new'], 'bar': '25%', 'mark': ''},
                                          {'cells': ['c', '', '6.25 %', '+3.1'], 'bar': '6.25%', 'mark': '3.125%'}])
        heads = tab.run("[...document.querySelectorAll('.predictions thead tr > *')].map((e) => e.textContent)")
        self.assertEqual(heads, ['token', '', 'probability', 'change, points'])
        self.assertIn('No longer among the likeliest: d', tab.text('#outcome'))
        mean, whole = sum(LOSSES) / 13, sum(BEFORE) / 13
        self.assertIn(f'Mean loss of the text {mean:.3f} nats (−{whole - mean:.3g} against the whole model)', tab.text('#outcome'))

    def test_classes_are_of_the_whole_text(self):
        tab = self.opened('&token=4', classes=True, predictions=[[['class 1', 0.75], ['class 0', 0.25]]])
        self.assertEqual(tab.text('#outcome-name'), 'Class')
        self.assertEqual([row['cells'] for row in self.rows(tab)], [['class 1', '', '75.0 %'], ['class 0', '', '25.0 %']])

    def test_an_embedding_is_a_strip_of_two_hues(self):
        values = [0.5, -1, 0, 2, -2]
        tab = self.opened(embedding=values)
        self.assertEqual(tab.text('#outcome-name'), 'Embedding')
        for x, value in enumerate(values):
            pixel = tab.run(f"[...document.querySelector('.strip').getContext('2d').getImageData({x}, 0, 1, 1).data]")
            self.expect_colour(tab, pixel[:3], abs(value) / 2, '--cold' if value < 0 else '--shade', value)
        self.assertEqual(tab.run("document.querySelector('.strip').ariaLabel"), '5 numbers, from −2 to 2')
        tab.run('currentSample().before = {embedding: [0.5, -1, 0, 2, 2]}; reading.show()')
        self.assertIn(f'Cosine distance {number(1 - (0.25 + 1 + 4 - 4) / 9.25)} from', tab.text('#outcome'))

    def test_shares_and_changes_are_short(self):
        tab = self.tab()
        self.assertEqual(tab.run('[0, 0.001234, 0.0994, 0.0996, 0.5, 1].map(percent)'),
                         ['0.00 %', '0.12 %', '9.94 %', '10.0 %', '50.0 %', '100.0 %'])
        self.assertEqual(tab.run('[0.1234, -0.1234, 0, -0.00001].map((value) => signed(value, 1))'), ['+0.1', '−0.1', '0', '0'])
        self.assertEqual(tab.run('[0.12345, -12345, 0].map((value) => signed(value))'), ['+0.123', '−12,300', '0'])
        self.assertAlmostEqual(tab.run('cosine([1, 2, 3], [3, 2, 1])'), 10 / 14)

    # --- the grid

    def cells(self, tab):
        return {one['head']: one for one in tab.run("""[...document.querySelectorAll('.cell')].map((e) => ({
            head: e.dataset.head, mark: e.dataset.mark, label: e.ariaLabel, dimmed: e.classList.contains('dimmed'),
            current: e.ariaCurrent, colour: e.style.backgroundColor.match(/\\d+/g).map(Number)}))""")}

    def test_figures_have_the_same_colours_for_roles(self):
        """The file by itself, on light paper, and the figure in the page, in both themes."""
        namespace = '{http://www.w3.org/2000/svg}'
        shapes = list(xml.etree.ElementTree.parse(FOLDER / 'patterns.svg').getroot().iter())
        found = {}
        for dot, note in zip(shapes, shapes[1:]):
            if dot.tag == namespace + 'circle':
                found[note.text] = [int(dot.get('color')[at:at + 2], 16) for at in (1, 3, 5)]
        self.assertEqual(found, {name: expected.role_colour(name) for name in ('previous token', 'induction', 'first token', 'self', 'local')})
        for theme in ('light', 'dark'):
            shown = self.tab(theme=theme).run("""Object.fromEntries([...document.querySelectorAll('#figure-patterns svg.wide circle')].map((dot) =>
                [dot.nextElementSibling.textContent, getComputedStyle(dot).color.match(/\\d+/g).map(Number)]))""")
            self.assertEqual(shown, {name: expected.role_colour(name, theme) for name in found}, theme)

    def test_roles_have_colours_and_the_key_counts_them(self):
        for model, theme in itertools.product((0, 1), ('light', 'dark')):
            heads = {f"{head['layer']}.{head['head']}": head for head in DATA['models'][model]['heads']}
            tab, counts = self.tab(theme=theme, at=f'#model={model}'), {}
            for head in heads.values():
                role = head.get('role') or 'no clear role'
                counts[role] = counts.get(role, 0) + 1
            key = tab.run("""[...document.querySelectorAll('.role-key li')].map((e) => [e.textContent,
                e.querySelector('.swatch').textContent, e.querySelector('.swatch').style.backgroundColor.match(/\\d+/g).map(Number)])""")
            short = {'previous token': 'pt', 'first token': '', 'induction': 'in', 'self': 'se', 'local': 'lo', 'no clear role': ''}
            listed = [entry[0][len(entry[1]):].rsplit(' (')[0] for entry in key]
            self.assertEqual(listed, sorted(counts, key=lambda role: (role == 'no clear role', role == 'first token', -counts[role])))
            self.assertEqual([counts[role] for role in listed], [int(entry[0].split('(')[1][:-1]) for entry in key])
            colours = {entry[0][len(entry[1]):].rsplit(' (')[0]: entry[2] for entry in key}
            self.assertEqual(set(colours), set(counts))
            for name, colour in colours.items():
                self.assertEqual(colour, expected.role_colour(name, theme), name)
            for name, cell in self.cells(tab).items():
                role = heads[name].get('role') or 'no clear role'
                self.assertEqual(cell['colour'], colours[role], name)
                self.assertEqual(cell['mark'], short[role] if heads[name]['kept'] else '–', name)
                layer, head = name.split('.')
                self.assertEqual(cell['label'], f"Layer {layer} · head {head}: {role}{'' if heads[name]['kept'] else ', pruned'}")
            self.assertEqual('– pruned' in tab.text('#legend'), model == 1)

    def test_heads_that_are_not_chosen_are_dimmed_and_the_open_one_is_marked(self):
        tab = self.tab(at='#layer=2&head=2.5')
        for name, cell in self.cells(tab).items():
            self.assertEqual(cell['dimmed'], not name.startswith('2.'), name)
            self.assertEqual(cell['current'], 'true' if name == '2.5' else None, name)

    def test_what_is_below_zero_has_the_other_hue_and_both_have_one_scale(self):
        heads = {f"{head['layer']}.{head['head']}": head for head in DATA['models'][0]['heads']}
        tab = self.tab(at='#colour=damage')
        most = max(abs(head['damage']) for head in heads.values())
        self.assertLess(min(head['damage'] for head in heads.values()), 0)
        for name, cell in self.cells(tab).items():
            damage = heads[name]['damage']
            self.expect_colour(tab, cell['colour'], abs(damage) / most, '--cold' if damage < 0 else '--shade', name)
            self.assertTrue(cell['label'].endswith(f', damage {number(damage)}'), cell['label'])
        short = number(float(f'{most:.2g}'))
        ends = "[...document.querySelectorAll('#legend .key span')].map((e) => e.textContent)"
        self.assertEqual(tab.run(ends), [f'−{short}', '0', short])
        for x, ink in ((0, '--cold'), (255, '--shade')):
            pixel = tab.run(f"[...document.querySelector('#legend canvas').getContext('2d').getImageData({x}, 0, 1, 1).data]")
            self.expect_colour(tab, pixel[:3], 1, ink, x)
        most = max(head['importance'] for head in heads.values())
        tab = self.tab(at='#colour=importance')
        self.assertEqual(tab.run(ends), ['0', *(number(float(f'{share:.2g}')) for share in (most / 2, most))])
        names = [*heads['0.0']['statistics'], *heads['0.0']['roles'], 'importance', 'damage']
        self.assertEqual(tab.run("[...byId('colour').options].map((o) => o.value)"), ['role', 'map', *names])
        label = tab.run("[...byId('colour').options].map((o) => o.text)")[2 + len(heads['0.0']['statistics'])]
        self.assertEqual(label, f"role score: {next(iter(heads['0.0']['roles']))}")

    def test_letters_on_a_shade_can_be_read(self):
        """Black on what is light and white on what is dark, by the contrast of WCAG."""
        tab, rng = self.tab(), random.Random(1)
        linear = lambda c: c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4
        colours = [[grey] * 3 for grey in (0, 60, 110, 125, 200, 255)]
        colours += [[rng.choice((0, 9, 255, rng.randrange(256))) for _ in range(3)] for _ in range(3000)]
        for colour, found in zip(colours, tab.run(f'{json.dumps(colours)}.map(heat.on)'), strict=True):
            light = sum(share * linear(c) for share, c in zip((0.2126, 0.7152, 0.0722), colour))
            black, white = (light + 0.05) / 0.05, 1.05 / (light + 0.05)
            if abs(black - white) > 0.03:
                self.assertEqual(found, '#000' if black > white else '#fff', colour)

    # --- around the heads

    def test_the_page_has_a_way_to_every_section_and_says_what_it_offers(self):
        tab = self.tab()
        links = tab.run("[...document.querySelectorAll('nav a')].filter((e) => e.checkVisibility()).map((e) => [e.hash, e.textContent])")
        self.assertEqual(links, [['#heads', 'Heads'], ['#findings', 'Findings'], ['#tables', 'Tables']])
        options = tab.run("[...controls.elements.least.options].map((o) => [o.value, o.text])")
        self.assertEqual(options, [['', 'any'], ['0.1', '10 % of the highest'], ['0.25', '25 % of the highest'],
                                   ['0.5', '50 % of the highest']])
        self.assertEqual(tab.text('#count'), '64 heads')
        self.assertEqual(self.tab(at='#model=1').text('#count'), '8 heads; struck through: pruned')
        coarse = "(at) => document.querySelector('.card[data-head=\"0.0\"] canvas').classList.contains('coarse')"
        for sample, expected in ((0, False), (1, True)):
            tab = self.tab(at=f'#sample={sample}')
            tab.point('.card[data-head="0.0"]', click=False)
            tab.settle()
            self.assertEqual(tab.run(f'({coarse})()'), expected, 'few cells have sharp edges')

    def test_the_map_is_dragged_and_zoomed_where_the_pointer_is(self):
        tab = self.tab(at='#sample=0&head=0.0&query=3')
        box = tab.run("(({x, y}) => ({x, y}))(byId('map').getBoundingClientRect())")
        at = {'x': box['x'] + tab.run('map.left') + 200, 'y': box['y'] + tab.run('map.top') + 150}

        def wheel(down, modifiers=0):
            tab.call('Input.dispatchMouseEvent', type='mouseWheel', deltaX=0, deltaY=down, modifiers=modifiers, **at)
            tab.settle()

        under = 'map.first.key + 200 / map.cell'
        key = tab.run(under)
        wheel(-100, 2)
        self.assertGreater(tab.run('map.zoom'), 1.2, 'closer')
        self.assertAlmostEqual(tab.run(under), key, delta=0.3, msg='what is under the pointer stays there')
        first = tab.run('map.first.query')
        wheel(24)
        self.assertAlmostEqual(tab.run('map.first.query'), first + 24 / tab.run('map.cell'), delta=0.01, msg='downwards')
        tab.call('Input.dispatchMouseEvent', type='mousePressed', button='left', buttons=1, clickCount=1, **at)
        before = tab.run('map.first')
        tab.call('Input.dispatchMouseEvent', type='mouseMoved', button='left', buttons=1, x=at['x'] - 30, y=at['y'] - 20)
        tab.call('Input.dispatchMouseEvent', type='mouseReleased', button='left', clickCount=1, x=at['x'] - 30, y=at['y'] - 20)
        tab.settle()
        cell, after = tab.run('map.cell'), tab.run('map.first')
        self.assertAlmostEqual(after['key'] - before['key'], 30 / cell, delta=0.01)
        self.assertAlmostEqual(after['query'] - before['query'], 20 / cell, delta=0.01)
        self.assertIn('query=3', tab.run('location.hash'), 'a drag is no click')
        wheel(300, 2)
        self.assertEqual(tab.run('map.zoom'), 1)

    def test_the_buttons_zoom_about_the_middle_or_the_cursor(self):
        tab = self.tab(at='#sample=0&head=0.0&query=3')
        middle = '[map.first.query + map.seen.queries / 2, map.first.key + map.seen.keys / 2]'
        for cursor, place in (('null', middle), ('{query: 9, key: 5}', '[map.y(9), map.x(5)]')):
            tab.run(f'map.zoom = 1; map.look(); map.cursor = {cursor}; null')
            before = tab.run(place)
            tab.point('#zoom-in')
            self.assertEqual(tab.run('map.zoom'), 2)
            for found, wanted in zip(tab.run(place), before):
                self.assertAlmostEqual(found, wanted, delta=0.01, msg=f'{cursor} stays where it was')
            tab.point('#zoom-out')
            self.assertEqual(tab.run('map.zoom'), 1)
            for found, wanted in zip(tab.run(place), before):
                self.assertAlmostEqual(found, wanted, delta=0.01)

    def test_inks_of_figures_are_those_of_the_theme(self):
        names = ['ink', 'soft', 'faint', 'axis', 'paper', 'heat', 'cold', 'on-low', 'on-high', *(f's{i}' for i in range(7))]
        for theme in ('light', 'dark'):
            tab = self.tab(theme=theme)
            for name in names:
                tab.run(f'''document.querySelector('.plot').append(element('span', {{id: 'of-{name}', className: '{name}'}}))''')
                found = tab.run(f"getComputedStyle(byId('of-{name}')).color.match(/\\d+/g).map(Number)")
                text = tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
                if len(text) == 4:  # #fff
                    text = '#' + ''.join(2 * letter for letter in text[1:])
                self.assertEqual(found, [int(text[at:at + 2], 16) for at in (1, 3, 5)], f'{name}, {theme}')

    # --- what can be saved

    def saved(self, tab, selector):
        tab.run("""window.saved = {}; save.file = (name, type, content) => {
            window.saved[name] = typeof content === 'string' ? content : type; };
            document.querySelectorAll('%s').forEach((button) => button.click())""" % selector)
        return tab.run('saved')

    def test_the_grid_is_drawn_as_it_is_shown(self):
        tab = self.tab(at='#model=1')
        shown = self.cells(tab)
        drawn = xml.etree.ElementTree.fromstring(self.saved(tab, '#save-grid button')['heads.svg'])
        rects = [one for one in drawn.iter(SVG + 'rect')][1:]
        texts = [(float(one.get('x')), float(one.get('y')), one.text or '') for one in drawn.iter(SVG + 'text')]
        self.assertEqual(len(rects), 8)
        middle = lambda rect, at, size: float(rect.get(at)) + float(rect.get(size)) / 2
        for rect, (name, cell) in zip(rects, shown.items()):
            layer, head = name.split('.')
            x, y = middle(rect, 'x', 'width'), middle(rect, 'y', 'height')
            self.assertEqual([int(part) for part in rect.get('fill')[4:-1].split(',')], cell['colour'], name)
            inside = [text for tx, ty, text in texts if abs(tx - x) < 2 and abs(ty - y) < 8]
            self.assertEqual(inside, [cell['mark']], name)
            above = [text for tx, ty, text in texts if abs(tx - x) < 2 and ty < 24]
            self.assertEqual(above, [head], name)
            beside = [text for tx, ty, text in texts if tx < 30 and abs(ty - y) < 8]
            self.assertEqual(beside, [layer], name)

    def test_numbers_of_heads_are_saved_under_their_names(self):
        heads = DATA['models'][1]['heads']
        saved = self.saved(self.tab(at='#model=1'), '#save-grid button')
        rows = list(csv.DictReader(io.StringIO(saved['heads.csv'])))
        self.assertEqual(len(rows), len(heads))
        for row, head in zip(rows, heads):
            self.assertEqual((row['layer'], row['head']), (str(head['layer']), str(head['head'])))
            self.assertEqual(row['role'], head.get('role') or 'no clear role')
            for name, value in {**head['statistics'], **head['roles'], 'damage': head['damage'],
                                'importance': head['importance']}.items():
                self.assertAlmostEqual(float(row[name]), value, places=12, msg=name)
        self.assertEqual(json.loads(saved['heads.json']), heads)

    def test_a_map_is_saved_with_its_tokens_and_weights(self):
        for sample in (0, 1):  # hostile tokens; three queries and four keys
            weights = Weights(1, sample, 0, 0)
            tab = self.tab(at=f'#model=1&sample={sample}&head=0.0')
            saved = self.saved(tab, '#save-map button')
            rows = list(csv.reader(io.StringIO(saved['head-0.0.csv'])))
            self.assertEqual(rows[0], ['query', *weights.keys])
            self.assertEqual([row[0] for row in rows[1:]], weights.queries)
            for query, row in enumerate(rows[1:]):
                for key, cell in enumerate(row[1:]):
                    self.assertAlmostEqual(float(cell), weights.weight(query, key), delta=0.005 * weights.weight(query, key) + 1e-9)
            drawn = xml.etree.ElementTree.fromstring(saved['head-0.0.svg'])
            frame = drawn.find(SVG + 'svg')
            left, top, width, height = (float(frame.get(name)) for name in ('x', 'y', 'width', 'height'))
            image = frame.find(SVG + 'image')
            self.assertAlmostEqual(float(image.get('width')), width, delta=0.01)
            self.assertAlmostEqual(float(image.get('height')), height, delta=0.01)
            texts = list(drawn.iter(SVG + 'text'))
            down = [one for one in texts if one.get('y')]
            across = [one for one in texts if one.get('transform')]
            self.assertEqual([one.text for one in down], weights.queries)
            self.assertEqual([one.text for one in across], weights.keys)
            for i, one in enumerate(down):
                self.assertAlmostEqual(float(one.get('y')) - 4, top + (i + 0.5) * height / len(down), delta=1)
                self.assertLess(float(one.get('x')), left)
            for i, one in enumerate(across):
                x, y = (float(part) for part in one.get('transform').split('(')[1].split(')')[0].split())
                self.assertAlmostEqual(x - 4, left + (i + 0.5) * width / len(across), delta=1)
                self.assertLess(y, top)

    def test_tables_are_saved_by_their_ids(self):
        table = DATA['tables'][0]
        saved = self.saved(self.tab(), '#tables button')
        rows = list(csv.reader(io.StringIO(saved[f"{table['id']}.csv"])))
        self.assertEqual(rows[0], table['columns'])
        self.assertEqual([[cell if isinstance(cell, str) else float(cell) for cell in row] for row in table['rows']],
                         [[cell if isinstance(table['rows'][r][c], str) else float(cell) for c, cell in enumerate(row)]
                          for r, row in enumerate(rows[1:])])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
