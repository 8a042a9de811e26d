"""comparing_test.py CHROMIUM POLYHEAD FOLDER: what changes, head by head, when heads are switched off, or beside a second text
or model; live_walk_test.py has it in every combination."""
import json
import urllib.request

import live_page_test
from live_page_test import FOLDER, Live
from first_look_test import SIZES
from browser import Tab

SENTENCE = 'the animal did not cross the road because it was tired'
OTHER = SENTENCE.replace('tired', 'wet')


class Comparing(Live):
    def opened(self, at, size='laptop'):
        tab = Tab(self.browser, *SIZES[size], 'light')
        tab.open(f'{self.address}#text={SENTENCE.replace(" ", "+")}{at}')
        self.wait(tab)
        self.settled(tab)
        return tab

    def settled(self, tab):
        self.wait(tab)
        self.until_found(tab)
        tab.settle()

    def weights(self, text, head, gates=(), model=0):
        question = {'text': text, 'model': model, 'gates': list(gates), 'head': [int(part) for part in head.split('.')]}
        request = urllib.request.Request(self.address + 'head', json.dumps(question).encode(), {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request) as answer:
            return [(byte / 255) ** 2 for byte in answer.read()]

    def listed(self, tab):
        rows = tab.run("[...document.querySelectorAll('.most button')].map((one) => [one.querySelector('b').textContent, "
                       "Number(one.querySelector('.number').textContent)])")
        self.assertTrue(0 < len(rows) <= 10)
        self.assertEqual([value for _, value in rows], sorted((value for _, value in rows), reverse=True))
        return dict(rows)

    def expect_changes(self, tab, now, then):
        """now and then: head -> weights of texts of one length, by row."""
        for head, value in self.listed(tab).items():
            one, other = now(head), then(head)
            tokens = round(len(one) ** 0.5)
            apart = sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2 / tokens
            self.assertAlmostEqual(value, apart, delta=0.00051, msg=head)
            self.assertIn('attention changed', tab.run(f"document.querySelector('.cell[data-head=\"{head}\"]').ariaLabel"))


class OfALanguageModel(Comparing):
    model = 'gpt'

    def test_heads_that_are_off_change_the_others(self):
        tab = self.opened('')
        self.assertEqual(tab.run("[byId('colour').value, document.querySelector('.most')]"), ['role', None])
        tab.run("gates.toggle([currentModel().heads[1]]); null")
        self.settled(tab)
        self.assertEqual(tab.run("byId('colour').value"), 'changed')
        self.expect_changes(tab, lambda head: self.weights(SENTENCE, head, [[0, 1, 0]]), lambda head: self.weights(SENTENCE, head))
        self.assertFalse(any(head.startswith('0.') for head in self.listed(tab)), 'nothing in the first layer depends on its heads')
        self.assertIn('the whole model', tab.text('#legend'))
        first = next(iter(self.listed(tab)))
        tab.point('.most button')
        self.wait(tab, 'look.matrix !== null')
        self.assertEqual(tab.run('[look.shown, state.pin]'), [first] * 2)
        self.expect_accessible(tab)
        self.expect_fitting(tab)
        self.expect_legible(tab)
        tab.screenshot(FOLDER / 'changed.png')
        self.click(tab, '#all-on')
        self.assertEqual(tab.run("[byId('colour').value, document.querySelector('.most')]"), ['role', None], 'there is no change')
        self.expect_quiet(tab)

    def test_the_map_stays_in_its_place(self):
        tab = Tab(self.browser, 1000, 640, 'light')
        tab.open(f'{self.address}#text={SENTENCE.replace(" ", "+")}')
        self.wait(tab)
        room = tab.run("look.canvas.parentElement.clientWidth")
        tab.run("gates.toggle([currentModel().heads[1]]); null")
        self.settled(tab)
        self.assertLess(tab.run("look.canvas.parentElement.clientWidth"), room)
        self.assertLessEqual(tab.run("look.canvas.offsetWidth - look.canvas.parentElement.clientWidth"), 0)

    def test_roles_stay_if_one_wants_them(self):
        tab = self.opened('&off=0.1')
        tab.run("byId('colour').value = 'role'; byId('colour').dispatchEvent(new Event('change', {bubbles: true})); null")
        self.assertIn('colour=role', tab.run('location.hash'))
        tab.call('Page.reload')
        self.wait(tab, "typeof live === 'object' && sides.whole !== null && !live.reading")
        self.assertEqual(tab.run("byId('colour').value"), 'role')
        tab.run("byId('colour').value = 'changed'; byId('colour').dispatchEvent(new Event('change', {bubbles: true})); null")
        self.assertNotIn('colour', tab.run('location.hash'), 'the usual is left out')

    def test_a_word_of_the_text_is_changed(self):
        tab = self.opened('')
        self.assertFalse(tab.run("byId('versus').checkVisibility()"))
        self.click(tab, '#compare')
        self.assertEqual(tab.run("[byId('versus').value, document.activeElement.id, sides.all.length]"), [SENTENCE, 'versus', 1])
        self.type(tab, OTHER, 'versus')
        self.settled(tab)
        if len(self.weights(SENTENCE, '0.0')) == len(self.weights(OTHER, '0.0')):
            self.expect_changes(tab, lambda head: self.weights(SENTENCE, head), lambda head: self.weights(OTHER, head))
        self.assertIn('second text', tab.text('#legend'))
        self.assertEqual(tab.run("byId('choice').querySelector('span').textContent"), 'Look at')
        self.expect_accessible(tab)
        self.click(tab, '#no-second')
        self.assertEqual(tab.run("[byId('versus').checkVisibility(), sides.all.length, byId('colour').value, document.activeElement.id]"),
                         [False, 1, 'role', 'compare'])
        self.assertNotIn('versus', tab.run('location.hash'))

    def test_the_map_shows_the_difference(self):
        tab = self.opened('&off=0.1&pin=2.0&difference=1')
        self.wait(tab, 'look.then !== null')
        self.assertEqual(tab.run("byId('difference').ariaPressed"), 'true')
        now, then = self.weights(SENTENCE, '2.0', [[0, 1, 0]]), self.weights(SENTENCE, '2.0')
        shades = tab.run('[heat.shades, heat.below]')
        tokens = round(len(now) ** 0.5)
        pixels = tab.run("(({data}) => [...data])(look.pixels.getContext('2d').getImageData(0, 0, look.pixels.width, look.pixels.height))")
        signs = set()
        for at, (one, other) in enumerate(zip(now, then)):
            if abs(one - other) > 1e-9:
                signs.add(one > other)
            near = [shades[one < other][max(0, min(255, round(255 * abs(one - other) ** 0.5) + by))] for by in (-1, 0, 1)]
            self.assertIn(pixels[4 * at:4 * at + 3], near, divmod(at, tokens))
        self.assertEqual(signs, {True, False})
        self.click(tab, '#difference')
        self.wait(tab, 'look.then === null')
        self.assertNotIn('difference', tab.run('location.hash'))
        self.click(tab, '#all-on')
        self.assertFalse(tab.run("byId('difference').checkVisibility()"), 'there is nothing to subtract')

    def test_all_of_a_comparison_is_in_the_window(self):
        for size, (width, height) in SIZES.items():
            if size == 'phone':
                continue
            tab = self.opened(f'&off=0.1,1.2&versus={OTHER.replace(" ", "+")}', size)
            tab.screenshot(FOLDER / f'comparing-{size.replace(" ", "-")}.png')
            for which in ('#grid', '#legend', '#look-map', '#outcome-body > div:nth-child(2) .predictions'):
                left, top, right, bottom = tab.run(f"""(({{left, top, right, bottom}}) => [left, top, right, bottom])(
                    document.querySelector('{which}').getBoundingClientRect())""")
                self.assertTrue(left >= 0 and right <= width and top >= 0 and bottom <= height, (size, which, left, top, right, bottom))


class OfTwoModels(Comparing):
    model, options = 'gpt', ('--compare', FOLDER / 'other-gpt')

    def test_another_model_is_a_comparison(self):
        tab = self.opened('')
        self.assertEqual(tab.run("byId('colour').value"), 'changed')
        self.expect_changes(tab, lambda head: self.weights(SENTENCE, head), lambda head: self.weights(SENTENCE, head, model=1))
        self.assertIn('other-gpt', tab.text('#legend'))


class OfAPrunedModel(Comparing):
    model, options = 'pruned-gpt', ('--compare', FOLDER / 'gpt')

    def test_heads_are_matched_by_where_they_come_from(self):
        tab = self.opened('')
        self.assertEqual(tab.run("[byId('colour').value, currentModel().heads.length, comparison.other().heads.length]"), ['changed', 9, 12])
        was = dict(zip(('0.0', '0.1', '0.2', '1.0', '1.1', '2.0'), ('0.0', '0.2', '0.3', '1.1', '1.2', '2.0')))
        self.assertEqual(tab.run(f"{list(was)}.map((key) => originOf(currentModel().heads.find((head) => keyOf(head) === key)))"), list(was.values()))
        self.expect_changes(tab, lambda head: self.weights(SENTENCE, head), lambda head: self.weights(SENTENCE, was.get(head, head), model=1))
        self.assertFalse(any(head.startswith('0.') for head in self.listed(tab)), 'the first layer reads what it always did')
        self.assertIn(', once 1.1', tab.run("document.querySelector('.cell[data-head=\"1.0\"]').ariaLabel"))
        tab.run("gates.toggle([currentModel().heads.find((head) => keyOf(head) === '0.1')]); null")
        self.settled(tab)
        self.assertEqual(tab.run('[gates.text(), ...sides.all.map((side) => side.gates)]'), ['0.2', [[0, 1, 0]], [[0, 2, 0]]])
        self.expect_changes(tab, lambda head: self.weights(SENTENCE, head, [[0, 1, 0]]),
                            lambda head: self.weights(SENTENCE, was.get(head, head), [[0, 2, 0]], model=1))
        tab.run("""controls.elements.model.value = '1'; controls.elements.model.dispatchEvent(new Event('change', {bubbles: true})); null""")
        self.settled(tab)
        self.assertIn('pruned in “pruned-gpt”', tab.run("document.querySelector('.cell[data-head=\"1.3\"]').ariaLabel"))
        self.click(tab, '.cell[data-head="1.3"]')
        self.assertTrue(tab.run('dialog.open'))
        self.expect_quiet(tab)


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
