"""viewer_test.py CHROMIUM FOLDER: opens FOLDER/page.html at two widths, in two themes, and uses it as a reader would.

Screenshots of all four are left in FOLDER, to be looked at.
"""
import pathlib
import sys
import unittest

from page import SIZES, THEMES, PageTest

FOLDER = pathlib.Path(sys.argv[2]).resolve()
PageTest.chromium, PageTest.address = sys.argv[1], (FOLDER / 'page.html').as_uri()


class Viewer(PageTest):
    def test_at_every_width_and_theme(self):
        for size in SIZES:
            for theme in THEMES:
                with self.subTest(size=size, theme=theme):
                    tab = self.tab(size, theme)
                    self.expect_fitting(tab)
                    self.expect_legible(tab)
                    self.expect_accessible(tab)
                    tab.screenshot(FOLDER / f'page-{size}-{theme}.png', whole=True)
                    tab.run("document.querySelector('#heads').scrollIntoView({behavior: 'instant'})")
                    tab.settle()
                    tab.screenshot(FOLDER / f'heads-{size}-{theme}.png')
                    tab.point('.card[data-head="1.2"]')
                    self.expect_fitting(tab)
                    self.expect_legible(tab)
                    self.expect_accessible(tab)
                    tab.point('#map', 0.5, 0.7)
                    tab.run("document.querySelector('dialog').scrollTop = 0")
                    tab.screenshot(FOLDER / f'head-{size}-{theme}.png')
                    self.expect_quiet(tab)

    def test_axe_finds_what_is_wrong(self):
        tab = self.tab()
        tab.run("byId('colour').parentElement.replaceWith(byId('colour'))")  # its label is gone
        with self.assertRaisesRegex(AssertionError, 'select-name'):
            self.expect_accessible(tab)

    def test_heads_come_first_and_findings_stand_by_their_figures(self):
        tab = self.tab()
        sections = tab.run("[...document.querySelectorAll('main > section:not([hidden])')].map((e) => e.id)")
        self.assertEqual(sections, ['heads', 'findings', 'tables'])
        self.assertEqual(tab.run("document.querySelectorAll('#findings li').length"), 4)
        links = tab.run("[...document.querySelectorAll('#findings a')].every((a) => document.querySelector(a.hash))")
        self.assertTrue(links)
        self.assertIn('<img src=x onerror=alert(3)>', tab.text('#findings'))

    def test_figures_are_drawn(self):
        for size, least in (('wide', 600), ('narrow', 300)):
            sizes = self.tab(size).run("""[...document.querySelectorAll('figure svg')]
                .filter((e) => e.checkVisibility()).map((e) => [e.clientWidth, e.clientHeight])""")
            self.assertEqual(len(sizes), 5)
            for width, height in sizes:
                self.assertGreater(width, least)
                self.assertGreater(height, 150)
        names = self.tab().run("[...document.querySelectorAll('figure svg.wide > title')].map((e) => e.textContent)")
        self.assertEqual(len([name for name in names if name]), 5)

    def test_a_click_opens_a_head_with_its_numbers(self):
        tab = self.tab()
        tab.point('.card[data-head="0.0"]')
        self.assertTrue(tab.run("document.querySelector('dialog').open"))
        self.assertEqual(tab.text('#head-name'), 'Layer 0 · head 0')
        self.assertIn('previous token', tab.text('#head-role'))
        self.assertIn('entropy (nats)', tab.text('#numbers'))
        self.assertIn('damage without it', tab.text('#numbers'))
        self.assertIn('head=0.0', tab.run('location.hash'))
        tab.run('history.back()')
        tab.settle()
        self.assertFalse(tab.run("document.querySelector('dialog').open"))

    def test_thumbnails_are_drawn_when_seen(self):
        tab = self.tab()
        tab.point('.card[data-head="7.7"]', click=False)
        tab.settle()
        drawn = '''((e) => { const d = e.getContext('2d').getImageData(0, 0, e.width, e.height).data;
            return [e.width, new Set(d).size]; })(document.querySelector('.card[data-head="7.7"] canvas'))'''
        width, shades = tab.run(drawn)
        self.assertEqual(width, 128)
        self.assertGreater(shades, 8)

    def test_the_keyboard_does_it_all(self):
        tab = self.tab()
        tab.run('document.querySelector(\'.card[data-head="0.0"]\').focus()')
        tab.press('Enter')
        self.assertEqual(tab.text('#head-name'), 'Layer 0 · head 0')
        tab.press('ArrowRight')
        self.assertEqual(tab.text('#head-name'), 'Layer 0 · head 1')
        tab.press('ArrowLeft')
        tab.press('ArrowLeft')
        self.assertEqual(tab.text('#head-name'), 'Layer 7 · head 7')
        tab.press('ArrowRight')
        tab.run('document.querySelector("#queries button").click()')
        tab.run("document.querySelector('#map').focus()")
        for key in ('ArrowDown', 'ArrowDown', 'ArrowRight'):
            tab.press(key)
        self.assertRegex(tab.text('#readout'), r'Query ·animal \(2\) → key the \(1\): weight 0\.\d+')
        tab.press('Enter')
        self.assertIn('query=2', tab.run('location.hash'))
        self.assertRegex(tab.text('#summary'), r'Query ·animal \(2\) → the 0\.\d+')
        tab.run('document.querySelector(\'#queries [aria-pressed="true"]\').focus()')
        tab.press('ArrowDown')
        self.assertIn('query=3', tab.run('location.hash'))
        for name in ('Layer 0 · head 1', 'Layer 0 · head 2'):
            tab.press('ArrowRight')
            self.assertEqual(tab.text('#head-name'), name)
        tab.press('ArrowLeft')
        tab.press('Escape')
        self.assertFalse(tab.run("document.querySelector('dialog').open"))
        self.assertEqual(tab.run('document.activeElement.dataset.head'), '0.1', 'where the reader was last')
        self.assertNotRegex(tab.run('location.hash'), 'head=|query=')
        self.expect_quiet(tab)

    def test_the_grid_is_walked_by_arrows_and_opens_heads(self):
        tab = self.tab()
        tab.run("document.querySelector('.cell[tabindex=\"0\"]').focus()")
        for key in ('ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowUp'):
            tab.press(key)
        self.assertEqual(tab.run('document.activeElement.dataset.head'), '0.1')
        self.assertIn('Layer 0 · head 1', tab.text('#cell-note'))
        tab.press('Enter')
        self.assertEqual(tab.text('#head-name'), 'Layer 0 · head 1')
        tab.press('Escape')
        self.assertEqual(tab.run('document.activeElement.className'), 'cell looked')
        self.expect_quiet(tab)

    def test_links_and_table_agree_with_the_weights(self):
        tab = self.tab(at='#sample=1&head=0.0&query=5')
        weights = tab.run('Array.from({length: 14}, (_, key) => weightAt(map.matrix, 5, key))')
        self.assertEqual(max(range(14), key=lambda key: weights[key]), 4)  # the previous token
        self.assertAlmostEqual(sum(weights), 1, delta=0.02)
        shown = tab.run("[...document.querySelectorAll('#keys .weight')].map((e) => e.textContent)")
        self.assertEqual(shown[4], f'{weights[4]:.2f}')
        self.assertEqual(tab.run("document.querySelectorAll('#arcs path').length"), 6)
        tab.point('#strongest summary')
        row = tab.run("[...document.querySelectorAll('#strongest tbody tr')[5].cells].map((c) => c.textContent)")
        self.assertEqual(row[0], '·cross (5)')
        self.assertEqual(row[1], f'·not (4) {weights[4]:.2f}')

    def test_heads_are_chosen_and_ordered(self):
        tab = self.tab()
        choose = '''(([name, value]) => { const e = document.querySelector('.controls').elements[name];
            e.value = value; e.dispatchEvent(new Event('change', {bubbles: true})); })'''
        tab.run(f"{choose}(['role', 'induction'])")
        shown = tab.run("[...document.querySelectorAll('.card .role')].map((e) => e.textContent)")
        self.assertTrue(shown and all(role.startswith('induction') for role in shown))
        tab.run(f"{choose}(['role', ''])")
        tab.run(f"{choose}(['order', 'importance'])")
        values = tab.run("[...document.querySelectorAll('.importance')].map((e) => Number(e.innerText.split(' ')[1]))")
        self.assertEqual(values, sorted(values, reverse=True))
        tab.run(f"{choose}(['layer', '3'])")
        self.assertEqual(tab.text('#count'), '8 of 64 heads')
        self.assertEqual(tab.run('location.hash'), '#layer=3&order=importance')
        self.expect_quiet(tab)

    def test_the_address_keeps_the_state(self):
        tab = self.tab(at='#model=1&head=1.1&query=2')
        self.assertEqual(tab.text('#head-name'), 'Layer 1 · head 1')
        self.assertIn('a‹U+202E›b', tab.text('#summary'))
        for nonsense in ('#model=99&head=7.7', '#model=constructor&sample=-1&query=x', '#order=up&least=z', '#=%',
                         '#nowhere', '#head=0.0&query=x', '#head=0.0&query=-1', '#head=0.0&sample=9&query=99999'):
            tab.open('about:blank')
            tab.open(self.address + nonsense)
            self.assertGreater(tab.run("document.querySelectorAll('.card').length"), 0, nonsense)
            if 'head=0.0' in nonsense:
                chosen = "[...document.querySelectorAll('#queries button')].findIndex((e) => e.ariaPressed === 'true')"
                self.assertEqual(tab.run(chosen), 127 if '99999' in nonsense else tab.run('currentQuery(map.matrix)'), nonsense)
            self.expect_quiet(tab)

    def test_hostile_tokens_stay_text(self):
        tab = self.tab(at='#model=1&head=0.0')
        self.assertEqual(tab.run("document.querySelectorAll('img, script:not([type]), iframe').length"), 1)  # ours
        self.assertIn('<img src=x onerror=alert(1)>', tab.text('#queries'))
        tab.open('about:blank')
        tab.open(self.address + '#model=1&head=0.1')
        self.assertIn('pruned', tab.text('#head-role'))
        tab.open('about:blank')
        tab.open(self.address + '#model=1&sample=1&head=0.0')
        self.assertEqual(tab.run("[byId('queries').children.length, byId('keys').children.length]"), [3, 4])
        self.expect_quiet(tab)

    def test_the_theme_can_change_while_it_is_open(self):
        tab = self.tab(at='#head=0.0')
        corner = "heat.shades[0].join()"
        light = tab.run(corner)
        tab.set_theme('dark')
        tab.settle()
        self.assertNotEqual(tab.run(corner), light)
        self.expect_quiet(tab)

    def test_a_window_that_changes_its_size_is_drawn_anew(self):
        tab = self.tab(at='#sample=1&head=0.0&query=5')
        for width in (420, 1000):
            tab.call('Emulation.setDeviceMetricsOverride', width=width, height=860, deviceScaleFactor=1, mobile=False)
            tab.settle()
            self.expect_fitting(tab)
            shown, room, cell = tab.run("[byId('map').clientWidth, byId('map').parentElement.clientWidth, map.cell]")
            self.assertLessEqual(shown, room)
            self.assertTrue(shown > room - 2 or cell == 40, 'it takes the room that there is')
            end = "Number(document.querySelector('#arcs path').getAttribute('d').match(/([0-9.]+) [0-9.]+$/)[1])"
            self.assertAlmostEqual(tab.run(end), tab.run("byId('arcs').clientWidth"), delta=1)
            self.assertEqual(tab.run("document.querySelector('#queries [aria-pressed=\"true\"]').title"), 'query 5')

    def test_a_large_head_opens_at_once(self):
        tab = self.tab()
        seconds = tab.processor_seconds('''(async () => {
            for (let i = 0; i < 10; ++i) { await moveHead(1); document.querySelector('#map').getBoundingClientRect(); }
        })()''')
        self.assertLess(seconds / 10, 0.1)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
