"""map_test.py CHROMIUM FOLDER: the large map under the pointer, the wheel and the keyboard, and what is drawn on its cells.

Where the map and its cells are is read from the labels that are drawn beside them, not asked of the page.
"""
import itertools
import json
import random
import sys
import unittest

from browser import Tab
from drawing_test import Weights, shown
from page import PageTest

# Every label on the map: where it stands, how it is turned and aligned, in which ink.
LABELS = '''(() => {
    window.labels = [];
    const {fillText, clearRect} = CanvasRenderingContext2D.prototype;
    Object.assign(CanvasRenderingContext2D.prototype, {
        fillText(text, x, y) {
            const {a, b, e, f} = this.getTransform();
            if (this.canvas.id === 'map') labels.push({text, x: e, y: f, scale: Math.hypot(a, b), turned: Math.abs(b) > 0.5,
                below: y, ink: this.fillStyle, align: this.textAlign, font: this.font, wide: this.measureText(text).width});
            return fillText.call(this, text, x, y);
        },
        clearRect(...box) {
            if (this.canvas.id === 'map') window.labels = [];
            return clearRect.apply(this, box);
        }});
})()'''
FEW, LONG = '#model=1&sample=1&head=0.0', '#head=0.0'  # three queries, four keys; 128 tokens


def near(one, other, most=40):
    return sum(abs(a - b) for a, b in zip(one, other)) <= most


class Map(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = Tab(cls.browser, 1280, 860, 'light')
        cls.shared.call('Page.addScriptToEvaluateOnNewDocument', source=LABELS)
        cls.shared.open(cls.address)

    def opened(self, at, ratio=1):
        """The one tab of these tests, with nothing left of the test before."""
        tab = self.shared
        tab.run('if (dialog.open) dialog.close(); null')
        tab.call('Emulation.setDeviceMetricsOverride', width=1280, height=860, deviceScaleFactor=ratio, mobile=False)
        tab.settle()
        tab.run(f"map.matrix = map.cell = null; location.hash = '{at}'; null")
        tab.settle()
        tab.call('Input.dispatchMouseEvent', type='mouseMoved', x=1, y=1)
        self.ratio = ratio
        self.look(tab)
        return tab

    def look(self, tab):
        """Where the map begins and how large a cell is, in CSS pixels, by the labels."""
        self.labels = tab.run('labels')
        self.down = [one for one in self.labels if not one['turned']]
        self.across = [one for one in self.labels if one['turned']]
        self.left, self.top = self.down[0]['x'] / self.ratio + 5, self.across[0]['y'] / self.ratio + 5
        self.cell = (self.across[1]['x'] - self.across[0]['x']) / self.ratio

    def middle(self, query, key):
        return self.left + (key + 0.5) * self.cell, self.top + (query + 0.5) * self.cell

    def colour(self, tab, name):
        text = tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()")
        return [int(text[at:at + 2], 16) for at in range(1, len(text), 2)]

    def pixels(self, tab, places):
        """At places in CSS pixels from the corner of the canvas."""
        spots = [[int(x * self.ratio), int(y * self.ratio)] for x, y in places]
        return tab.run(f"""{json.dumps(spots)}.map(([x, y]) =>
            [...byId('map').getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3))""")

    def mouse(self, tab, kind, query, key, **more):
        corner = tab.run("(({x, y}) => [x, y])(byId('map').getBoundingClientRect())")
        x, y = self.middle(query, key)
        tab.call('Input.dispatchMouseEvent', type=kind, x=corner[0] + x, y=corner[1] + y, **more)
        tab.settle()

    def drag(self, tab, start, end):
        pressed = {'button': 'left', 'buttons': 1, 'clickCount': 1}
        self.mouse(tab, 'mouseMoved', *start)
        self.mouse(tab, 'mousePressed', *start, **pressed)
        self.mouse(tab, 'mouseMoved', *end, **pressed)
        self.mouse(tab, 'mouseReleased', *end, button='left', clickCount=1)

    def state(self, tab):
        return tab.run("""[byId('readout').textContent, byId('head-name').textContent, location.hash,
            document.activeElement.id]""")

    def test_cells_cross_and_frames_at_both_resolutions(self):
        weights = Weights(1, 1, 0, 0)
        for ratio in (1, 2):
            tab = self.opened(FEW + '&query=1', ratio)
            accent, cross, faint = (self.colour(tab, name) for name in ('--accent', '--cross', '--faint'))
            paper, ink = self.colour(tab, '--map'), self.colour(tab, '--shade')
            shade = lambda q, k: [low + weights.byte(q, k) / 255 * (high - low) for low, high in zip(paper, ink)]
            alpha = cross[3] / 255
            over = lambda colour: [alpha * top + (1 - alpha) * below for top, below in zip(cross, colour)]
            self.assertEqual([one['text'] for one in self.down], weights.queries)
            self.assertEqual([one['scale'] for one in self.labels], [ratio] * 7)
            width, height = tab.run("[byId('map').clientWidth, byId('map').clientHeight]")
            self.assertAlmostEqual(width, self.left + 4 * self.cell, delta=1)
            self.assertAlmostEqual(height, self.top + 3 * self.cell, delta=1)
            self.assertEqual(tab.run("[map.canvas.width, map.canvas.height]"), [round(width * ratio), round(height * ratio)])
            cells = [(query, key) for query in range(3) for key in range(4)]
            for (query, key), found in zip(cells, self.pixels(tab, [self.middle(*cell) for cell in cells])):
                self.assertTrue(near(found, shade(query, key), 6), (ratio, query, key))
            # The chosen row lies between two lines, and they point at it from the left.
            right, (x, y) = self.left + 4 * self.cell, self.middle(1, 1)
            for place in ((self.left - 4, y), (x, y - self.cell / 2 - 1), (x, y + self.cell / 2 + 0.5), (right - 1, y)):
                self.assertTrue(near(self.pixels(tab, [place])[0], accent, 160), (ratio, place))
            self.assertTrue(near(self.pixels(tab, [(x, self.top)])[0], faint, 60), 'all are framed')
            self.assertTrue(near(self.pixels(tab, [(self.left, self.middle(2, 0)[1])])[0], faint, 60), 'all are framed')
            # The row and the column of the cursor are tinted, its cell is framed, its tokens are in the page's ink.
            self.mouse(tab, 'mouseMoved', 2, 3)
            self.look(tab)
            for (query, key), found in zip(cells, self.pixels(tab, [self.middle(*cell) for cell in cells])):
                wanted = shade(query, key)
                for _ in range((query == 2) + (key == 3)):
                    wanted = over(wanted)
                self.assertTrue(near(found, wanted, 8), (ratio, query, key, found, wanted))
            x, y = self.middle(2, 2)
            self.assertTrue(near(self.pixels(tab, [(x + self.cell / 2 - 1, y)])[0], accent, 30), 'the cell of the cursor')
            inks = {name: tab.run(f"(() => {{ const pen = document.createElement('canvas').getContext('2d'); "
                                  f"pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('{name}'); "
                                  "return pen.fillStyle; })()") for name in ('--ink', '--soft')}
            for labels, chosen, align in ((self.down, 2, 'right'), (self.across, 3, 'left')):
                self.assertEqual([one['ink'] for one in labels],
                                 [inks['--ink' if at == chosen else '--soft'] for at in range(len(labels))])
                self.assertEqual({(one['align'], one['below'], one['font'].split()[0]) for one in labels}, {(align, 4, '11px')})

    def test_a_thin_row_can_be_seen(self):
        tab = self.opened('#sample=0&head=0.0&query=64')
        self.assertEqual(tab.run("byId('zoom').hidden"), False)
        y = self.top + 64 * tab.run('map.whole')
        accent = self.colour(tab, '--accent')
        rows = self.pixels(tab, [(self.left - 4, y + at) for at in range(-3, 8)])
        self.assertGreaterEqual(sum(near(one, accent, 200) for one in rows), 3)

    def test_what_is_too_long_takes_all_of_its_room(self):
        tab = self.opened('#model=1&sample=0&head=0.0')
        cut = [one for one in self.labels if one['text'].endswith('…')]
        self.assertTrue(cut)
        for one in self.labels:
            self.assertLessEqual(one['wide'], 90)
        for one in cut:
            self.assertGreater(one['wide'], 75, one['text'])

    def test_the_keyboard_on_the_map(self):
        weights = Weights(1, 1, 0, 0)
        says = lambda query, key: (f'Query {weights.queries[query]} ({query}) → key {weights.keys[key]} ({key}): '
                                   f'weight {shown(weights.weight(query, key))}')
        tab = self.opened(FEW + '&query=1')
        self.assertEqual(tab.text('#readout'), 'Point at a cell to read its weight.')
        tab.run("byId('close').focus()")
        tab.press('Tab')
        name = tab.text('#head-name')
        self.assertEqual(self.state(tab), [says(1, 0), name, FEW + '&query=1', 'map'], 'the chosen query')
        for key, cell in (('ArrowRight', (1, 1)), ('ArrowDown', (2, 1)), ('ArrowLeft', (2, 0)), ('ArrowUp', (1, 0))):
            self.assertTrue(tab.take(key))
            self.assertEqual(self.state(tab), [says(*cell), name, FEW + '&query=1', 'map'], key)
        tab.take('ArrowDown')
        self.assertTrue(tab.take('Enter'))
        self.assertEqual(self.state(tab), [says(2, 0), name, FEW + '&query=2', 'map'])
        self.assertFalse(tab.take('x'))
        # By the pointer the focus alone moves nothing.
        tab = self.opened(FEW)
        tab.point('#map', 0.01, 0.01)
        self.assertEqual(tab.text('#readout'), 'Point at a cell to read its weight.', 'no cell, no weight')
        self.assertEqual(tab.run('location.hash'), FEW)

    def test_keys_and_buttons_zoom(self):
        tab = self.opened(LONG)
        disabled = "[byId('zoom-out').disabled, byId('zoom-in').disabled]"
        cells = lambda: tab.run('map.cell')
        whole = cells()
        self.assertEqual(tab.run(disabled), [True, False])
        tab.run("byId('map').focus()")
        for key, times in (('+', 2), ('=', 4), ('-', 2), ('-', 1), ('-', 1)):
            self.assertTrue(tab.take(key))
            self.assertAlmostEqual(cells(), whole * times, places=6, msg=key)
        for step in (2, 4):
            tab.point('#zoom-in')
            self.assertAlmostEqual(cells(), whole * step, places=6)
            self.assertEqual(tab.run(disabled), [False, False])
        for _ in range(2):
            tab.point('#zoom-in')
        self.assertAlmostEqual(cells(), 24, places=6)
        self.assertEqual(tab.run(disabled), [False, True])
        for size in (12, 6):
            tab.point('#zoom-out')
            self.assertAlmostEqual(cells(), size, places=6)
            self.assertEqual(tab.run(disabled), [False, False])
        # Another head of this text is seen as closely; another text is seen whole.
        tab.run("map.pan(-240, -120)")
        seen = tab.run('[map.zoom, map.first]')
        tab.run("byId('next').click()")
        tab.settle()
        self.assertEqual(tab.run('[map.zoom, map.first]'), seen)
        tab.run("location.hash = '#sample=1&head=0.0'")
        tab.settle()
        self.assertEqual(tab.run("[map.zoom, map.first, byId('zoom').hidden]"), [1, {'query': 0, 'key': 0}, True])

    def test_drags_clicks_and_wheels(self):
        tab = self.opened(LONG + '&query=3')
        few = LONG + '&query=3'
        self.cell = tab.run('map.cell')
        self.drag(tab, (40, 20), (44, 30))
        self.assertIn('(44)', tab.text('#readout'), 'seen whole, nothing can be moved')
        self.assertEqual(tab.run('map.first'), {'query': 0, 'key': 0})
        tab.run(f"location.hash = '{few}'")
        tab.settle()
        tab.run('map.zoomBy(4)')
        self.look(tab)
        tab.settle()
        scale = tab.run('map.cell')
        self.cell = scale
        first = tab.run('map.first')
        inside = (5, 5)
        self.drag(tab, inside, (5, 5 + 30 / scale))
        self.assertEqual(tab.run('location.hash'), few, 'a drag across is no click')
        self.assertAlmostEqual(tab.run('map.first.key'), first['key'] - 30 / scale, delta=0.02)
        self.drag(tab, inside, (5 + 30 / scale, 5))
        self.assertEqual(tab.run('location.hash'), few, 'nor is one down')
        self.assertAlmostEqual(tab.run('map.first.query'), first['query'] - 30 / scale, delta=0.02)
        # The other way, alone and together: away from an edge, so that there is room for it.
        middle = (12, 12)
        for down, right in ((0, -30), (-30, 0), (-30, -30), (-30, 30), (30, -30)):
            first = tab.run('map.first')
            self.drag(tab, middle, (12 + down / scale, 12 + right / scale))
            self.assertEqual(tab.run('location.hash'), few, f'{down} down and {right} to the right')
            self.assertAlmostEqual(tab.run('map.first.key'), first['key'] - right / scale, delta=0.02)
            self.assertAlmostEqual(tab.run('map.first.query'), first['query'] - down / scale, delta=0.02)
        first = tab.run('map.first')
        self.drag(tab, inside, (5 + 2 / scale, 5 + 2 / scale))
        self.assertNotEqual(tab.run('location.hash'), few, 'a hand that shakes')
        # The wheel moves what is seen closely, and else the page.
        first, place = tab.run('map.first'), tab.run('dialog.scrollTop')
        self.mouse(tab, 'mouseWheel', *inside, deltaX=24, deltaY=0)
        self.mouse(tab, 'mouseWheel', *inside, deltaX=0, deltaY=36)
        after = tab.run('map.first')
        self.assertAlmostEqual(after['key'], first['key'] + 24 / scale, delta=0.02)
        self.assertAlmostEqual(after['query'], first['query'] + 36 / scale, delta=0.02)
        self.assertEqual(tab.run('dialog.scrollTop'), place)
        under = tab.run(f'[map.first.key + {5.5 * scale} / map.cell, map.first.query + {5.5 * scale} / map.cell, map.cell]')
        self.mouse(tab, 'mouseWheel', *inside, deltaX=0, deltaY=-40, modifiers=2)
        for before, after in zip(under, tab.run(
                f'[map.first.key + {5.5 * scale} / map.cell, map.first.query + {5.5 * scale} / map.cell]')):
            self.assertAlmostEqual(after, before, delta=0.1, msg='what is under the pointer')
        self.assertAlmostEqual(tab.run('map.cell'), under[2] * 2.718281828 ** 0.2, delta=0.01)
        tab.run('map.zoomBy(0.01)')
        taken = """(() => { const wheel = new WheelEvent('wheel', {deltaY: 9, cancelable: true});
            map.canvas.dispatchEvent(wheel); return wheel.defaultPrevented; })()"""
        self.assertFalse(tab.run(taken), 'seen whole, the page scrolls')

    def test_it_is_drawn_once_a_frame_however_often_it_moves(self):
        tab = self.opened(LONG)
        tab.run('map.zoomBy(4)')
        tab.settle()
        tab.run('window.drawn = 0; window.draw = map.draw; map.draw = () => { ++drawn; draw(); }; null')
        for frames in (1, 2):
            tab.run("""for (const deltaY of [9, 8, 7]) {
                map.canvas.dispatchEvent(new WheelEvent('wheel', {deltaY, cancelable: true})); } null""")
            tab.settle()
            self.assertEqual(tab.run('drawn'), frames)
        tab.run('map.draw = draw; null')

    def test_the_arrow_keys_take_the_view_along(self):
        tab = self.opened(LONG + '&query=0')
        tab.run("byId('map').focus(); map.moveTo(0, 0); map.zoomBy(4)")
        tab.settle()
        seen = tab.run('map.seen.keys')
        for keys, place, wanted in (
                (('ArrowRight', 'ArrowDown'), lambda first: int(first + seen) - 2, lambda cursor: cursor + 1 - seen),
                (('ArrowLeft', 'ArrowUp'), lambda first: int(first) + 2, lambda cursor: cursor)):
            for key, name in zip(keys, ('key', 'query')):
                near_edge = place(tab.run(f'map.first.{name}'))
                tab.run(f'map.moveTo(...Object.values({{...map.cursor, {name}: {near_edge}}})); null')
                for _ in range(4):
                    tab.take(key)
                self.assertAlmostEqual(tab.run(f'map.first.{name}'), wanted(tab.run(f'map.cursor.{name}')), places=3, msg=key)

    def test_seen_closely_tokens_stand_at_their_cells(self):
        weights = Weights(0, 0, 0, 0)
        tab = self.opened(LONG + '&query=0')
        tab.run('map.zoomBy(8); map.cursor = null; map.pan(-10.5 * map.cell, -20.25 * map.cell)')
        tab.settle()
        left, top = self.left, self.top
        self.labels = tab.run('labels')
        cell, first, seen = tab.run('map.cell'), tab.run('map.first'), tab.run('map.seen')
        for turned, tokens, begin, count in ((False, weights.queries, first['query'], seen['queries']),
                                             (True, weights.keys, first['key'], seen['keys'])):
            inside = [i for i in range(len(tokens)) if begin <= i + 0.5 <= begin + count]
            found = [one for one in self.labels if one['turned'] == turned]
            self.assertEqual([one['text'] for one in found], [tokens[i] for i in inside])
            for i, one in zip(inside, found):
                place = one['x'] - left if turned else one['y'] - top
                self.assertAlmostEqual(place, (i + 0.5 - begin) * cell, delta=0.01)

    def test_nothing_is_drawn_over_the_tokens(self):
        tab = self.opened(LONG + '&query=0')
        tab.run('map.moveTo(0, 0); map.zoomBy(8); map.pan(-1.5 * map.cell, -1.5 * map.cell)')
        tab.settle()
        accent = self.colour(tab, '--accent')
        coloured = tab.run(f"""(() => {{
            const {{data, width}} = map.canvas.getContext('2d').getImageData(0, 0, map.canvas.width, map.canvas.height);
            const found = [], near = (at) => {json.dumps(accent)}.every((c, i) => Math.abs(data[at + i] - c) < 40);
            for (let at = 0; at < data.length; at += 4) {{
                const x = at / 4 % width, y = Math.floor(at / 4 / width);
                const outside = x < {self.left - 6} || y < {self.top - 3};
                if (outside && data[at + 3] > 20 && (near(at) || data[at] > data[at + 2] + 20)) found.push([x, y]);
            }}
            return found; }})()""")
        self.assertEqual(coloured, [], 'a row and a cursor that are out of sight')

    def test_it_cannot_be_moved_out_of_sight(self):
        tab = self.opened(LONG)
        tab.run('map.zoomBy(4); map.pan(-1e6, -1e6)')
        first, seen = tab.run('map.first'), tab.run('map.seen')
        self.assertAlmostEqual(first['key'] + seen['keys'], 128)
        self.assertAlmostEqual(first['query'] + seen['queries'], 128)
        tab.run('map.pan(1e6, 1e6)')
        self.assertEqual(tab.run('map.first'), {'query': 0, 'key': 0})

    def written(self, tab, count, byte='0'):
        """A text of so many tokens, opened at its only head, with weights by q and k; how wide a cell is."""
        tab.run(f"""if (dialog.open) dialog.close();
            data.models[0].samples[1] = {{name: 'x', tokens: Array({count}).fill('x'), heads: [[0, 0]],
                weights: btoa(Array.from({{length: {count}}}, (_, q) => String.fromCharCode(
                    ...Array.from({{length: {count}}}, (_, k) => ({byte}) % 256))).join(''))}};
            location.hash = '#sample=1&head=0.0&query=' + ({count} % 7); null""")
        tab.settle()
        for _ in range(50):
            if tab.run(f'map.matrix?.keys === {count}'):
                break
            tab.settle()
        return tab.run("map.whole")

    def test_buttons_and_blocks_come_where_they_help(self):
        """Closer than 24 pixels a cell there is nothing to see; dots are as large as a pixel of the screen."""
        tab = self.opened(LONG)
        kept = tab.run('data.models[0].samples[1]')
        shown = {}
        for count in range(32, 36):
            cell = self.written(tab, count)
            shown[cell] = tab.run("!byId('zoom').hidden")
        self.assertEqual(shown, {cell: 24 / cell >= 1.5 for cell in shown})
        self.assertEqual(set(shown.values()), {True, False})
        for ratio in (1, 2):
            tab.call('Emulation.setDeviceMetricsOverride', width=1280, height=860, deviceScaleFactor=ratio, mobile=False)
            for count in (400, 1100, 1300):
                cell = self.written(tab, count)
                size = 1
                while size * cell * ratio < 1:
                    size *= 2
                words = tab.run("byId('blocks').checkVisibility() ? byId('blocks').querySelector('label').firstChild.textContent + "
                                "byId('blocks').querySelector('span').textContent : ''")
                self.assertEqual(words, f'Each dot is a block of {size} × {size}' if size > 1 else '', (ratio, count))
        tab.run(f'data.models[0].samples[1] = {json.dumps(kept)}; null')

    def test_blocks_lie_where_their_cells_are(self):
        """Of squares of 16 × 16 equal cells, whatever part is looked at, and from however far."""
        tab = self.opened(LONG)
        kept, count = tab.run('data.models[0].samples[1]'), 1300
        self.written(tab, count, '7 * (q >> 4) + 13 * (k >> 4)')
        self.look(tab)
        paper, ink = self.colour(tab, '--map'), self.colour(tab, '--shade')
        for zoom, across, down, size in ((1, 0, 0, 4), (1.5, -60, -90, 2), (1.4, -1e6, -1e6, 2), (2, 40, 30, 1)):
            tab.run(f'map.cursor = null; map.zoomBy({zoom}); map.pan({across}, {down}); null')
            tab.settle()
            (first, cell), found = tab.run('[map.first, map.cell]'), tab.run('map.size')
            self.assertEqual(found, size)
            right, bottom = tab.run('[map.width, map.height]')
            places = []
            for query, key in itertools.product(range(40, count, 16), repeat=2):
                x, y = self.left + (key + 0.5 - first['key']) * cell, self.top + (query + 0.5 - first['query']) * cell
                if self.left + 2 < x < right - 2 and self.top + 2 < y < bottom - 2 and (query + key) % 5 == 0:
                    places.append((query, key, x, y))
            self.assertGreater(len(places), 60)
            for (query, key, *_), pixel in zip(places, self.pixels(tab, [place[2:] for place in places])):
                byte = (7 * (query >> 4) + 13 * (key >> 4)) % 256
                self.assertTrue(near(pixel, [low + byte / 255 * (high - low) for low, high in zip(paper, ink)], 6), (zoom, query, key))
        tab.run(f'data.models[0].samples[1] = {json.dumps(kept)}; null')

    def test_blocks_of_any_shape(self):
        tab, rng = self.opened(FEW), random.Random(2)
        for queries, keys, size in ((5, 9, 2), (9, 5, 4), (4, 4, 2), (3, 8, 8)):
            cells = [[rng.randrange(256) for _ in range(keys)] for _ in range(queries)]
            down, across = -(-queries // size), -(-keys // size)
            for kind in ('max', 'mean'):
                wanted = []
                for row in range(down):
                    for column in range(across):
                        inside = [byte for line in cells[row * size:(row + 1) * size] for byte in line[column * size:(column + 1) * size]]
                        mean = sum((byte / 255) ** 2 for byte in inside) / len(inside)
                        wanted.append(max(inside) if kind == 'max' else round(255 * mean ** 0.5))
                found = tab.run(f"""(({{queries, keys, bytes}}) => [queries, keys, [...bytes]])(blocks.of(
                    {{queries: {queries}, keys: {keys}, bytes: Uint8Array.from({sum(cells, [])})}}, {size}, '{kind}'))""")
                self.assertEqual(found, [down, across, wanted], (queries, keys, size, kind))

    def test_another_window_has_sharp_cells(self):
        tab = self.opened('#sample=1&head=0.0')
        for width in (420, 1280):
            tab.call('Emulation.setDeviceMetricsOverride', width=width, height=860, deviceScaleFactor=1, mobile=False)
            tab.settle()
            shown, drawn = tab.run("[byId('map').clientWidth, byId('map').width]")
            self.assertAlmostEqual(shown, drawn, delta=1, msg='a pixel is a pixel')

    def test_another_head_is_not_pointed_at(self):
        tab = self.opened(FEW)
        self.mouse(tab, 'mouseMoved', 1, 1)
        self.assertTrue(tab.text('#readout').startswith('Query'))
        tab.run("byId('next').click(); byId('previous').click(); null")
        tab.settle()
        self.assertEqual(tab.text('#readout'), 'Point at a cell to read its weight.')

    def test_a_head_without_weights_says_so(self):
        tab = self.opened(FEW)
        tab.run("location.hash = '#model=1&sample=1&head=0.1'")
        tab.settle()
        self.assertEqual(tab.text('#readout'), 'This text has no weights for this head.')
        self.assertEqual(tab.run("[byId('map'), document.querySelector('.links'), byId('strongest')].map((e) => e.checkVisibility())"),
                         [False, False, False])
        tab.run(f"location.hash = '{FEW}'")
        tab.settle()
        self.assertEqual(tab.run("[byId('map'), document.querySelector('.links'), byId('strongest')].map((e) => e.checkVisibility())"),
                         [True, True, True])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
