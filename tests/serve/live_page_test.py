"""live_page_test.py CHROMIUM POLYHEAD FOLDER: uses the live page as a reader would, on the models in FOLDER.

Screenshots are left in FOLDER, to be looked at."""
import csv
import io
import json
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'viewer'))
from page import SIZES, THEMES, PageTest  # noqa: E402

CHROMIUM, POLYHEAD, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
PageTest.chromium = CHROMIUM
HOSTILE = ('<script>alert(1)</script> "quotes" \'and\' <img src=x onerror=alert(2)> a\u202eb\u200b \U0001f600 '
           '\u05e9\u05dc\u05d5\u05dd \u4f60\u597d {{script}}')
GPT = '3 layers of 4 heads, 130,976 parameters; a language model: it predicts the next token.'


class Live(PageTest):
    model, options = None, ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = subprocess.Popen([POLYHEAD, 'serve', FOLDER / cls.model, *cls.options, '--threads', '1'], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True)
        cls.address = cls.server.stdout.readline().strip()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.server.send_signal(signal.SIGINT)
        code = cls.server.wait(timeout=20)
        cls.server.stdout.close()
        assert code == 0, f'Ctrl-C ended it with {code}'

    def tab(self, size='wide', theme='light', at=''):
        tab = super().tab(size, theme, at)
        self.wait(tab)
        return tab

    def wait(self, tab, until='!live.reading && sides.whole !== null'):
        """For the page to have heard all that it asked for."""
        for _ in range(400):
            if tab.run(until):
                return tab.settle()
            time.sleep(0.05)
        self.fail(f"{until}: {tab.text('#status')}")

    def type(self, tab, text, field='text'):
        tab.run(f"byId('{field}').value = {json.dumps(text)}; byId('{field}').dispatchEvent(new Event('input'))")
        time.sleep(0.4)  # the page waits for the end of a word
        self.wait(tab, '!live.reading')

    def click(self, tab, selector):
        tab.run(f'document.querySelector({json.dumps(selector)}).click()')
        self.wait(tab)


class OfALanguageModel(Live):
    model = 'gpt'

    def test_at_every_width_and_theme(self):
        for size in SIZES:
            for theme in THEMES:
                with self.subTest(size=size, theme=theme):
                    tab = self.tab(size, theme, '#off=0.1,1.2:0.5')
                    self.expect_fitting(tab)
                    self.expect_legible(tab)
                    self.expect_accessible(tab)
                    tab.screenshot(FOLDER / f'live-{size}-{theme}.png', whole=True)
                    self.click(tab, '.cell[data-head="1.2"]')
                    self.wait(tab, 'map.matrix !== null')
                    self.expect_fitting(tab)
                    self.expect_legible(tab)
                    self.expect_accessible(tab)
                    self.expect_quiet(tab)

    def test_a_text_is_read_as_it_is_typed(self):
        tab = self.tab()
        self.type(tab, 'one two')
        first = tab.run('currentSample().tokens.join("|")')
        self.type(tab, 'one two three')
        self.assertTrue(tab.run('currentSample().tokens.join("|")').startswith(first))
        self.assertIn('text=one+two+three', tab.run('location.hash'))
        self.assertRegex(tab.text('#status'), r'\d+ tokens, read in \d+ ms')
        long = 'one two ' * 500  # 4,000 letters
        self.type(tab, long)
        self.assertIn('text=one', tab.run('location.hash'))
        self.type(tab, long + 'x')
        self.assertNotIn('text=', tab.run('location.hash'), 'an address has its limits')
        self.type(tab, 'one two three')
        self.assertEqual(tab.run("document.querySelectorAll('#tokens button').length"),
                         tab.run('currentSample().tokens.length'))
        self.assertEqual(tab.run("document.querySelectorAll('.predictions tbody tr').length"), 8)
        self.expect_quiet(tab)

    def test_heads_go_off_and_come_back(self):
        tab = self.tab()
        loss = 'currentSample().losses.reduce((a, b) => a + b)'
        whole = tab.run(loss)
        tab.run("""document.querySelector('.cell[data-head="0.1"]').dispatchEvent(
            new MouseEvent('click', {bubbles: true, shiftKey: true}))""")
        self.wait(tab)
        without = tab.run(loss)
        self.assertNotEqual(without, whole)
        self.assertEqual(tab.run('location.hash'), '#off=0.1')
        self.assertIn('1 of 12 heads off', tab.text('#switched'))
        self.assertIn('against the whole model', tab.text('#outcome'))
        self.assertIn(', off', tab.run("document.querySelector('.cell[data-head=\"0.1\"]').ariaLabel"))
        self.click(tab, '#grid tbody tr:nth-child(2) .line')
        self.assertEqual(tab.run('gates.text()'), '0.1,1.0,1.1,1.2,1.3')
        self.click(tab, '#grid thead th:nth-child(2) .line')
        self.assertEqual(tab.run('gates.values.size'), 7)
        for _ in range(2):
            self.click(tab, '#undo')
        self.assertEqual(tab.run(loss), without)
        self.click(tab, '#redo')
        self.assertEqual(tab.run('gates.values.size'), 5)
        self.click(tab, '#all-on')
        self.assertEqual(tab.run(loss), whole)
        self.assertEqual(tab.run('location.hash'), '')
        role = tab.run("document.querySelector('.role-key button').ariaLabel")
        self.click(tab, '.role-key button')
        self.assertGreater(tab.run('gates.values.size'), 0, role)
        self.expect_quiet(tab)

    def test_the_keyboard_switches_heads(self):
        tab = self.tab()
        tab.run("document.querySelector('.cell[tabindex=\"0\"]').focus()")
        tab.press('ArrowRight')
        tab.call('Input.dispatchKeyEvent', type='keyDown', key=' ', code='Space', windowsVirtualKeyCode=32, text=' ')
        tab.call('Input.dispatchKeyEvent', type='keyUp', key=' ', code='Space', windowsVirtualKeyCode=32)
        self.wait(tab)
        self.assertEqual(tab.run('gates.text()'), '0.1')
        self.assertEqual(tab.run('document.activeElement.dataset.head'), '0.1', 'the focus stays')
        self.assertFalse(tab.run('dialog.open'))
        tab.call('Input.dispatchKeyEvent', type='keyDown', key='z', code='KeyZ', windowsVirtualKeyCode=90, modifiers=2)
        self.wait(tab)
        self.assertEqual(tab.run('gates.text()'), '')
        tab.press('Enter')
        self.wait(tab, 'map.matrix !== null')
        self.assertEqual(tab.text('#head-name'), 'Layer 0 · head 1')
        tab.run("byId('gate').focus()")
        for _ in range(2):
            tab.press('ArrowLeft')
        self.wait(tab)
        self.assertEqual(tab.run('gates.text()'), '0.1:0.9')
        self.assertEqual(tab.run('document.activeElement.id'), 'gate')
        self.assertEqual(tab.text('#switched'), '0 of 12 heads off, 1 turned.')
        tab.run("""for (const value of [0.5, 0.25]) Object.assign(byId('gate'), {value}).dispatchEvent(new Event('input'));
            byId('gate').dispatchEvent(new Event('change'))""")
        for go, left in (('undo', '0.1:0.9'), ('redo', '0.1:0.25')):  # all turning of a gate is one step
            tab.run(f'gates.{go}()')
            self.wait(tab)
            self.assertEqual(tab.run('gates.text()'), left)
        self.expect_quiet(tab)

    def test_the_address_brings_it_all_back(self):
        tab = self.tab(at='#text=the+road&off=2.1,0.0:1.5&colour=entropy+(nats)&token=0&change=1')
        self.assertEqual(tab.run("byId('text').value"), 'the road')
        self.assertEqual(tab.run('gates.text()'), '2.1,0.0:1.5')
        self.assertEqual(tab.run("byId('colour').value"), 'entropy (nats)')
        self.assertIn('(0)', tab.text('#outcome-name'))
        self.assertIn('change', tab.run("document.querySelector('.cell[data-head=\"2.2\"]').ariaLabel"))
        for nonsense in ('#off=9.9,x,0.0:7,0.1:NaN', '#off=,,,:', '#token=-1&off=0.0:1', '#text=%FF'):
            tab.open('about:blank')
            tab.open(self.address + nonsense)
            self.wait(tab)
            self.assertEqual(tab.run('gates.values.size'), 0, nonsense)
            self.expect_quiet(tab)

    def test_heads_are_ranked_meanwhile(self):
        tab = self.tab()
        self.click(tab, '#rank')
        self.wait(tab, "byId('ranking').textContent.startsWith('Ranked')")
        self.assertEqual(tab.run("byId('colour').value"), 'damage')
        damage = tab.run('currentModel().heads[5].damage')
        mean = '(losses) => losses.reduce((a, b) => a + b) / losses.length'
        tab.run('gates.toggle([currentModel().heads[5]])')
        self.wait(tab)
        change = tab.run(f'({mean})(currentSample().losses) - ({mean})(sides.whole.samples[0].losses)')
        self.assertAlmostEqual(damage, change, places=5)
        self.type(tab, 'another text')
        self.assertEqual(tab.text('#ranking'), '')
        self.assertIsNone(tab.run('currentModel().heads[5].damage ?? null'))
        self.expect_quiet(tab)

    def test_what_is_wrong_is_said_and_the_page_goes_on(self):
        tab = self.tab()
        for text, words in (('', 'expected a text, found none'), ('road ' * 3000, 'expected up to 2,048 tokens')):
            self.type(tab, text)
            self.assertIn(words.replace(',048', '048'), tab.text('#status'))
            self.assertTrue(tab.run("byId('status').classList.contains('wrong')"))
        self.type(tab, 'a road')
        self.assertFalse(tab.run("byId('status').classList.contains('wrong')"))
        self.assertRegex(tab.text('#status'), 'read in')

    def test_hostile_text_stays_text(self):
        tab = self.tab()
        self.type(tab, HOSTILE)
        self.assertEqual(tab.run("document.querySelectorAll('img, iframe, script:not([type])').length"), 1)  # our script
        shown = tab.run('currentSample().tokens.join("")')
        self.assertIn('<script>', shown)
        self.assertNotRegex(shown, '[\u202e\u200b]')
        self.expect_fitting(tab)
        self.expect_quiet(tab)

    def test_parts_of_characters_are_bytes(self):
        tab = self.tab(at='#text=%E2%98%83&head=0.0')  # a snowman
        self.wait(tab, 'map.matrix !== null')
        self.assertEqual(tab.run('currentSample().tokens'), ['⟨E2⟩', '⟨98⟩', '⟨83⟩'])
        for buttons in ('#tokens', '#queries'):
            names = tab.run(f"[...document.querySelectorAll('{buttons} button')].map((e) => e.ariaLabel)")
            self.assertEqual(names, ['bytes E2', 'bytes 98', 'bytes 83'])
        self.assertEqual(tab.run("spoken('⟨E2 98⟩a⟨83⟩')"), 'bytes E2 98abytes 83')
        self.assertEqual(tab.run("spoken('⟨a⟩⟨E2,98⟩')"), '⟨a⟩⟨E2,98⟩', 'brackets of a text')
        self.expect_accessible(tab)
        self.expect_quiet(tab)

    def test_an_entry_of_the_legend_switches_its_heads(self):
        tab = self.tab()
        tab.run("""for (const heads of [currentModel().heads, sides.all[0].whole.heads]) {
            heads.forEach((head, i) => { if (i < 5) head.role = 'first'; else if (i < 8) delete head.role; }); }
            showHeads()""")
        roles = tab.run('currentModel().heads.map((head) => [keyOf(head), head.role ?? "no clear role"])')
        entries = tab.run("[...document.querySelectorAll('.role-key button')].map((e) => e.ariaLabel)")
        self.assertEqual(sorted(entries), sorted({f'{role}: off / on' for _, role in roles}))
        off = lambda: sorted(tab.run('[...gates.values.entries()].filter(([, value]) => value === 0).map(([key]) => key)'))
        for entry in entries:
            of_it = sorted(key for key, role in roles if entry == f'{role}: off / on')
            press = f"document.querySelector('.role-key button[aria-label=\"{entry}\"]').onclick()"
            for expected in (of_it, []):
                tab.run(press + '; null')
                self.wait(tab)
                self.assertEqual(off(), expected, entry)
        self.expect_quiet(tab)

    def test_two_thousand_tokens(self):
        tab = self.tab()
        self.type(tab, ''.join((' a', ' the', ' it', ' to')[n * n % 7 % 4] for n in range(1990)))
        self.wait(tab)
        count = tab.run('currentSample().tokens.length')
        self.assertGreater(count, 1900)
        self.click(tab, '.cell[data-head="1.1"]')
        self.wait(tab, f'map.matrix?.queries === {count}')
        for kind in ('max', 'mean'):
            self.expect_blocks(tab, kind, count)
        self.expect_blocks_saved(tab, count)
        self.expect_thin_row(tab)
        self.assertIn('blocks=mean', tab.run('location.hash'))
        for _ in range(6):
            tab.run('map.zoomBy(2)')
            tab.settle()
        self.assertEqual(tab.run("[map.size, byId('blocks').hidden]"), [1, True], 'single tokens')
        self.assertLess(tab.run('map.pixels.width'), 60, 'only what is seen is drawn')
        self.expect_fitting(tab)
        self.expect_accessible(tab)
        self.assertEqual([one for one in tab.complaints() if 'getImageData' not in one], [], 'but for what the test does')

    def expect_blocks(self, tab, kind, count):
        """From far away a dot is a block of weights, and says what of them it shows."""
        tab.run(f"""byId('blocks').querySelector('select').value = '{kind}';
            byId('blocks').querySelector('select').dispatchEvent(new Event('change', {{bubbles: true}})); state.query = '0'; map.draw()""")
        size = tab.run('map.size')
        self.assertGreater(size, 2)
        self.assertTrue(tab.text('#blocks').startswith(f'Each dot is a block of {size} × {size} weights:'))
        shades = tab.run('heat.shades')
        last = (count - 1) // size  # at the edge, not whole
        for row, column in ((40, 3), (100, 2), (200, 199), (last, last), (last, 5)):
            weights = tab.run(f"""(() => {{
                const found = [];
                for (let query = {row * size}; query < Math.min({row * size + size}, {count}); ++query) {{
                    for (let key = {column * size}; key < Math.min({column * size + size}, {count}); ++key) {{
                        found.push((map.matrix.bytes[query * {count} + key] / 255) ** 2);
                    }}
                }}
                return found;
            }})()""")
            shown = max(weights) if kind == 'max' else sum(weights) / len(weights)
            shade = round(255 * shown ** 0.5)
            self.assertEqual(tab.run(f"blocks.of(map.matrix, {size}, '{kind}').bytes[{row * (last + 1) + column}]"), shade)
            if row == last:
                continue
            pixel = tab.run(f"""[...map.canvas.getContext('2d').getImageData(
                Math.floor((map.left + ({column} + 0.5) * map.cell * map.size) * map.ratio),
                Math.floor((map.top + ({row} + 0.5) * map.cell * map.size) * map.ratio), 1, 1).data].slice(0, 3)""")
            self.assertEqual(pixel, shades[shade], (kind, row, column))

    def expect_thin_row(self, tab):
        """Where a row is thinner than a pixel, the chosen one is two pixels high between its lines."""
        rows = tab.run("""(() => {
            const query = Array.from({length: 1000}, (_, at) => 500 + at).find((at) => map.y(at) % 1 < 0.02);
            state.query = String(query);
            map.draw();
            const {data} = map.canvas.getContext('2d').getImageData(Math.floor(map.left - 3.9), Math.floor(map.y(query)) - 8, 1, 20);
            return data.filter((_, i) => i % 4 === 3 && data[i] > 10).length;
        })()""")
        self.assertEqual(rows, 4)

    def expect_blocks_saved(self, tab, count):
        """What is saved are blocks, too: all of them at their places, under names that do not lie on each other."""
        saved = tab.run("""(() => {
            const drawn = mapDrawing(), frame = drawn.querySelector('svg'), image = frame.firstChild;
            const size = (of) => [of.getAttribute('width'), of.getAttribute('height')].map(Number);
            const names = [...drawn.querySelectorAll('text[y]')].map((one) => Number(one.getAttribute('y')));
            return {frame: size(frame), image: size(image), names, cell: map.whole, block: blocks.sizeFor(map.whole, 0.5)};
        })()""")
        self.assertGreater(saved['block'], 1)
        whole = -(-count // saved['block']) * saved['block']  # the last block may be cut short
        for frame, image in zip(saved['frame'], saved['image']):
            self.assertAlmostEqual(frame, count * saved['cell'], places=3)
            self.assertAlmostEqual(image, whole * saved['cell'], places=3)
        steps = [after - before for before, after in zip(saved['names'], saved['names'][1:])]
        self.assertTrue(all(13 <= step < 14 for step in steps), steps)

    def test_what_is_seen_can_be_saved(self):
        tab = self.tab(at='#off=0.1&text=it%27s+a+road')
        self.assertEqual(tab.run("byId('command').textContent"),
                         f"polyhead view {FOLDER / 'gpt'} --prompt 'it'\\''s a road' --off 0.1")
        self.click(tab, '.cell[data-head="1.2"]')
        self.wait(tab, 'map.matrix !== null')
        tab.run("""window.saved = {};
            save.file = async (name, type, content) => {
                if (content instanceof Blob) {
                    const image = await createImageBitmap(content), canvas = new OffscreenCanvas(image.width, image.height);
                    canvas.getContext('2d').drawImage(image, 0, 0);
                    const {data} = canvas.getContext('2d').getImageData(0, 0, image.width, image.height);
                    content = `${content.type}, ${data.every((byte, i) => i % 4 < 3 || byte === 255) ? 'opaque' : 'not opaque'}`;
                }
                saved[name] = content;
            }""")
        for button in range(4):
            tab.run(f"document.querySelectorAll('#save-grid button')[{button}].click()")
        for button in range(3):
            tab.run(f"document.querySelectorAll('#save-map button')[{button}].click()")
        tab.run("document.querySelectorAll('#outcome button[title^=Save]').forEach((button) => button.click())")
        self.wait(tab, 'Object.keys(saved).length === 9')
        saved = tab.run('saved')
        for name in ('heads.svg', 'head-1.2.svg'):
            self.assertGreater(len(list(xml.etree.ElementTree.fromstring(saved[name]))), 10, name)
        for name in ('heads.png', 'head-1.2.png'):
            self.assertEqual(saved[name], 'image/png, opaque')
        heads = list(csv.DictReader(io.StringIO(saved['heads.csv'])))
        self.assertEqual([(head['layer'], head['head']) for head in heads],
                         [(str(layer), str(head)) for layer in range(3) for head in range(4)])
        self.assertEqual(float(heads[6]['entropy (nats)']), json.loads(saved['heads.json'])[6]['statistics']['entropy (nats)'])
        sample = tab.run('currentSample()')
        expected = [[str(place), sample['tokens'][place], token] for place, row in enumerate(sample['predictions']) for token, _ in row]
        self.assertEqual([row[:3] for row in csv.reader(io.StringIO(saved['predictions.csv']))][1:], expected)
        self.assertEqual(json.loads(saved['predictions.json'])[8]['probability'], sample['predictions'][1][0][1])
        rows = list(csv.reader(io.StringIO(saved['head-1.2.csv'])))
        self.assertEqual(rows[0][1:], [row[0] for row in rows[1:]], 'the text is queries and keys')
        for row in rows[1:]:
            self.assertAlmostEqual(sum(map(float, row[1:])), 1, delta=0.03)
        self.expect_quiet(tab)


    def test_two_texts_stand_side_by_side(self):
        tab = self.tab()
        self.type(tab, 'the road')
        alone = tab.run('currentModel()')
        self.type(tab, 'one two three', 'versus')
        models = tab.run('data.models')
        self.assertEqual([model['name'] for model in models], ['first text', 'second text'])
        self.assertEqual(models[0]['heads'], alone['heads'])
        expect_side_by_side(self, tab, models)
        self.assertEqual(tab.run("[...document.querySelectorAll('#other-tokens span')].map((e) => e.textContent)"),
                         models[1]['samples'][0]['tokens'])
        self.assertIn("--prompt 'the road' --versus 'one two three'", tab.run("byId('command').textContent"))
        tab.open('about:blank')
        tab.open(self.address + '#text=the+road&versus=one+two+three&model=1&head=1.2')
        self.wait(tab)
        self.wait(tab, "map.matrix !== null && byId('other-name').textContent !== ''")
        self.assertEqual(tab.run('map.sample.tokens'), models[1]['samples'][0]['tokens'], 'the address says which')
        self.assertEqual(tab.text('#other-name'), 'first text')
        self.assertEqual(tab.run("document.querySelector('#other-map canvas').width"), len(models[0]['samples'][0]['tokens']))
        self.expect_accessible(tab)
        self.click(tab, '#look-at-other')
        self.wait(tab, f"map.sample.tokens.length === {len(models[0]['samples'][0]['tokens'])}")
        tab.run('dialog.close()')
        tab.run("state.model = '1'; showModel(); ranking.start()")
        self.type(tab, '', 'versus')
        self.assertIsNone(tab.run('ranking.underWay'), 'nobody ranks a text that is gone')
        self.assertEqual(tab.run('currentModel().heads'), alone['heads'])
        self.assertTrue(tab.run("byId('other-tokens').hidden"))
        self.type(tab, 'road ' * 3000, 'versus')
        self.assertIn('The second text: ', tab.text('#status'))
        self.assertEqual(tab.run('currentModel().heads'), alone['heads'], 'the first one stays')


def expect_side_by_side(test, tab, models):
    """The grid is the difference of the two, and both predictions are there."""
    name = 'entropy (nats)'
    tab.run(f"byId('colour').value = '{name}'; byId('colour').dispatchEvent(new Event('change'))")
    differences = [a['statistics'][name] - b['statistics'][name] for a, b in zip(models[0]['heads'], models[1]['heads'])]
    test.assertGreater(max(map(abs, differences)), 0)
    shown = tab.run('currentModel().heads.map(grid.value)')
    for one, expected in zip(shown, differences):
        test.assertAlmostEqual(one, expected, places=9)
    label = tab.run("document.querySelector('.cell[data-head=\"1.2\"]').ariaLabel")
    test.assertIn(f'difference {differences[6]:.3g}'.replace('-', '−')[:15], label)
    tables = tab.run("""[...document.querySelectorAll('.predictions')].map((table) =>
        [...table.tBodies[0].rows].map((row) => row.cells[0].textContent))""")
    test.assertEqual(tables, [[token for token, _ in model['samples'][0]['predictions'][-1]] for model in models])
    tab.run("controls.elements.against.value = 'none'; controls.elements.against.dispatchEvent(new Event('change', {bubbles: true}))")
    test.assertEqual(tab.run("document.querySelectorAll('.predictions').length"), 1)
    tab.run("controls.elements.against.value = ''; controls.elements.against.dispatchEvent(new Event('change', {bubbles: true}))")
    test.assertEqual(tab.run("document.querySelectorAll('.predictions').length"), 2)
    test.expect_fitting(tab)
    test.expect_legible(tab)
    test.expect_accessible(tab)
    test.expect_quiet(tab)


class OfTwoModels(Live):
    model, options = 'gpt', ('--compare', FOLDER / 'other-gpt')

    def test_they_stand_side_by_side(self):
        for size, theme in (('wide', 'light'), ('narrow', 'dark')):
            tab = self.tab(size, theme)
            models = tab.run('data.models')
            self.assertEqual([model['name'] for model in models], ['gpt', 'other-gpt'])
            self.assertEqual(models[0]['samples'][0]['tokens'], models[1]['samples'][0]['tokens'])
            expect_side_by_side(self, tab, models)
            tab.screenshot(FOLDER / f'compared-{size}-{theme}.png', whole=True)
        tab.run('gates.toggle([currentModel().heads[1]])')
        self.wait(tab)
        self.assertEqual(tab.text('#outcome-body').count('against the whole model'), 2, 'both lose the head')
        self.assertIn(f"--compare {FOLDER / 'other-gpt'} --off 0.1", tab.run("byId('command').textContent"))

    def test_a_file_has_both(self):
        arguments = ['view', 'gpt', '--compare', 'other-gpt', '--prompt', 'the road', '--out', 'both.html']
        subprocess.run([POLYHEAD, *arguments], check=True, capture_output=True, cwd=FOLDER)
        refused = subprocess.run([POLYHEAD, 'view', 'gpt', '--compare', 'encoder'], capture_output=True, text=True, cwd=FOLDER)
        self.assertEqual(refused.returncode, 3)
        self.assertIn('expected the second to have the kind, layers and heads of the first', refused.stderr)
        tab = self.tab(at='#text=the+road')
        models = tab.run('data.models')
        tab.open((FOLDER / 'both.html').as_uri() + '#against=1')
        self.assertEqual(tab.run('data.models.map((model) => model.name)'), ['gpt', 'other-gpt'])
        self.assertEqual(tab.run('data.models.map((model) => model.heads.map((head) => head.statistics))'),
                         [[head['statistics'] for head in model['heads']] for model in models])
        self.assertEqual(tab.run("document.querySelectorAll('.predictions').length"), 2)
        self.expect_accessible(tab)
        self.assertEqual(tab.complaints(), [])


class OfAFile(PageTest):
    """What polyhead view and polyhead heads --html write."""

    def page(self, *arguments):
        result = subprocess.run([POLYHEAD, *arguments], capture_output=True, text=True, cwd=FOLDER)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_view(self):
        self.page('view', 'gpt', '--prompt', HOSTILE, '--off', '0.1,1.2:0.5', '--out', 'view.html')
        self.address = (FOLDER / 'view.html').as_uri()
        for size, theme in (('wide', 'light'), ('narrow', 'dark')):
            tab = self.tab(size, theme)
            self.expect_fitting(tab)
            self.expect_legible(tab)
            self.expect_accessible(tab)
            self.assertEqual(tab.run("document.querySelectorAll('.cell').length"), 12)
            self.assertEqual(tab.run("document.querySelectorAll('.predictions tbody tr').length"), 8)
            self.assertEqual(tab.text('#lead'), GPT)
            self.assertIn('0.1,1.2:0.5', tab.text('#about'))
            self.assertIn("polyhead view 'gpt' --prompt '", tab.text('#about'))
            tab.point('.cell[data-head="2.3"]')
            self.assertEqual(tab.text('#look-name'), 'Layer 2 · head 3')
            tab.run("byId('closer').click(); null")
            for _ in range(100):
                if tab.run('map.matrix !== null'):
                    break
                time.sleep(0.02)
            sums = tab.run('Array.from({length: map.matrix.queries}, (_, query) => ' +
                           'Array.from({length: map.matrix.keys}, (_, key) => weightAt(map.matrix, query, key)).reduce((a, b) => a + b))')
            self.assertTrue(all(abs(one - 1) < 0.04 for one in sums), sums)
            self.expect_quiet(tab)

    def test_one_layer_of_a_long_text(self):
        (FOLDER / 'long.txt').write_text('a ' * 1990)
        self.page('view', 'gpt', '--text', 'long.txt', '--layer', '1', '--out', 'long.html')
        self.address = (FOLDER / 'long.html').as_uri()
        tab = self.tab(at='#head=1.1')
        self.assertGreater(tab.run('map.matrix.queries'), 1900)
        self.expect_quiet(tab)

    def test_heads(self):
        (FOLDER / 'text.txt').write_text('the animal did not cross the road because it was tired. ' * 20)
        self.page('heads', 'gpt', '--text', 'text.txt', '--samples', '2', '--length', '16', '--damage', '--html', 'heads.html')
        self.address = (FOLDER / 'heads.html').as_uri()
        tab = self.tab(at='#colour=damage')
        self.assertEqual(tab.run("byId('colour').value"), 'damage')
        self.assertEqual(tab.text('#lead'), GPT)
        self.assertEqual(tab.run("document.querySelectorAll('.card').length"), 12)
        self.expect_fitting(tab)
        self.expect_quiet(tab)


class OfAnEncoder(Live):
    model = 'encoder'

    def test_two_texts_are_compared(self):
        tab = self.tab()
        self.assertIn('Embedding', tab.text('#outcome'))
        self.type(tab, tab.run("byId('text').value"), 'versus')
        self.assertIn('Similarity of the two 1.000', tab.text('#outcome'))
        self.type(tab, 'something else', 'versus')
        self.assertNotIn('1.000', tab.text('#outcome'))
        tab.run('gates.toggle(currentModel().heads.slice(0, 6))')
        self.wait(tab)
        self.assertRegex(tab.text('#outcome'), r'Cosine distance [\d.e−-]+ from the whole model')
        self.assertRegex(tab.text('#outcome'), r'\(cosine\) \([+−]?[\d.]+ against the whole model\)')
        self.expect_legible(tab)
        self.expect_accessible(tab)
        self.expect_quiet(tab)


class OfAClassifier(Live):
    model = 'classifier'

    def test_classes_and_words_that_it_does_not_have(self):
        tab = self.tab()
        self.assertEqual(tab.text('#outcome-name'), 'Class')
        self.assertIn('class ', tab.text('.predictions'))
        self.type(tab, 'notaword')
        self.assertIn('has no word', tab.text('#status'))
        self.expect_quiet_but_for_refusals(tab)

    def expect_quiet_but_for_refusals(self, tab):
        self.assertEqual([one for one in tab.complaints() if '422' not in one], [])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
