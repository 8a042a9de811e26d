"""first_look_test.py CHROMIUM POLYHEAD FOLDER: what the live page shows before anybody has done anything, and how soon it
shows another head, of a model with as many heads as SmolLM2-135M has (FOLDER/tall).

Screenshots are left in FOLDER, to be looked at.
"""
import os
import pathlib
import time
import unittest

import live_page_test
from live_page_test import FOLDER, THEMES, Live
from live_use_test import LISTEN
from browser import Tab

SIZES = {'laptop': (1440, 900), 'small laptop': (1280, 720), 'phone': (390, 844)}
SENTENCE = " the animal did not cross the road because it was tired"
BOXES = """Object.fromEntries(['#tokens', '#all', '#grid', '#legend', '#look', '#look-map', '#outcome', '.predictions'].map((which) => {
    const {left, top, right, bottom} = document.querySelector(which).getBoundingClientRect();
    return [which, [left, top, right, bottom]];
}))"""


class FirstLook(Live):
    model = 'tall'

    def look(self, size, theme, tokens):
        """A tab with a text of so many tokens, as it opens."""
        text = self.text_of(tokens)
        tab = Tab(self.browser, *SIZES[size], theme)
        tab.open(self.address + '#text=' + text.replace(' ', '+'))
        self.wait(tab, 'look.matrix !== null && !live.reading')
        self.assertEqual(tab.run('currentSample().tokens.length'), tokens)
        return tab

    def text_of(self, tokens):
        """Of exactly so many: sentences as long as they fit, then words of one token."""
        return self.at('').run(f"""(async () => {{
            const count = async (text) => (await ask('read', {{text, model: 0}})).samples[0].tokens.length;
            let text = 'a';
            for (const more of [{SENTENCE!r}, ' a']) {{
                while (await count(text + more) <= {tokens}) text += more;
            }}
            return text;
        }})()""")

    def test_all_of_it_is_in_the_window(self):
        for size, (width, height) in SIZES.items():
            for theme in THEMES:
                for tokens in (20, 64):
                    with self.subTest(size=size, theme=theme, tokens=tokens):
                        tab = self.look(size, theme, tokens)
                        tab.screenshot(FOLDER / f'first-{size.replace(" ", "-")}-{theme}-{tokens}.png')
                        self.expect_in_view(tab.run(BOXES), width, height)
                        self.assertEqual(tab.run("document.querySelectorAll('#grid .cell').length"), 270)
                        self.expect_map(tab, tokens)
                        self.assertTrue(tab.run('scrollY === 0 && !dialog.open'))
                        self.expect_fitting(tab)
                        self.expect_legible(tab)
                        self.expect_accessible(tab)
                        self.expect_quiet(tab)

    def expect_in_view(self, boxes, width, height):
        for which in ('#tokens', '#grid', '#legend', '#look-map', '.predictions'):
            left, top, right, bottom = boxes[which]
            self.assertTrue(left >= 0 and top >= 0 and right <= width and bottom <= height and right - left > 100
                            and bottom - top > 20, (which, boxes[which]))
        all_, look, outcome = boxes['#all'], boxes['#look'], boxes['#outcome']
        if width > 960:  # beside each other
            self.assertTrue(all_[2] <= look[0] and look[2] <= outcome[0], boxes)
            self.assertGreater(boxes['#look-map'][3] - boxes['#look-map'][1], 0.45 * height, 'most of what is seen')
        else:  # one below the other
            self.assertTrue(boxes['#tokens'][3] <= all_[1] and all_[3] <= look[1] and look[3] <= outcome[1], boxes)
            self.assertGreater(boxes['#look-map'][3] - boxes['#look-map'][1], 180)

    def expect_map(self, tab, tokens):
        """All tokens have a row and a column in it; of a short text, each has its letters."""
        self.assertEqual(tab.run('[look.matrix.queries, look.matrix.keys]'), [tokens, tokens])
        width, height, left, top, cell, letters = tab.run(
            '[look.canvas.clientWidth, look.canvas.clientHeight, look.left, look.top, look.cell, look.letters]')
        self.assertLessEqual(left + tokens * cell, width + 1)
        self.assertLessEqual(top + tokens * cell, height + 1)
        self.assertGreater(left, 12)
        self.assertGreaterEqual(letters, 8)
        if tokens == 20:
            self.assertGreaterEqual(cell, letters - 1, 'a row of letters for every token')
        self.assertTrue(tab.run("byId('look-links').textContent.includes(' looks at ')"))

    def test_pointing_shows_a_head_and_a_click_keeps_it(self):
        tab = self.look('laptop', 'light', 20)
        usual = tab.text('#look-name')
        shown = lambda: tab.run("[byId('look-name').textContent, document.querySelector('.cell.looked').dataset.head]")
        tab.point('.cell[data-head="3.4"]', click=False)
        self.wait(tab, 'look.matrix !== null')
        self.assertEqual(shown(), ['Layer 3 · head 4', '3.4'])
        tab.point('h1', click=False)
        self.assertEqual(shown()[0], usual, 'it was only pointed at')
        tab.point('.cell[data-head="12.8"]')
        tab.point('h1', click=False)
        self.assertEqual(shown(), ['Layer 12 · head 8', '12.8'])
        self.assertIn('pin=12.8', tab.run('location.hash'))
        self.assertFalse(tab.run('dialog.open'))
        tab.call('Page.reload')
        self.wait(tab, "typeof look === 'object' && look.matrix !== null && !live.reading")
        self.assertEqual(shown()[0], 'Layer 12 · head 8', 'the address keeps it')
        tab.run("byId('closer').click(); null")
        self.assertEqual(tab.text('#head-name'), 'Layer 12 · head 8')

    def test_two_clicks_switch_a_head_off(self):
        tab = self.look('laptop', 'light', 20)
        x, y = tab.run("""(({x, y, width, height}) => [x + width / 2, y + height / 2])(
            document.querySelector('.cell[data-head="2.2"]').getBoundingClientRect())""")
        for count in (1, 2):
            for kind in ('mousePressed', 'mouseReleased'):
                tab.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=count)
        self.wait(tab, '!live.reading')
        self.assertEqual(tab.run('[gates.text(), dialog.open, byId("look-off").textContent]'), ['2.2', False, 'Switch on'])
        self.click(tab, '#look-off')
        self.assertEqual(tab.run('[gates.text(), byId("look-off").textContent]'), ['', 'Switch off'])

    def test_a_telephone_has_words_for_fingers(self):
        tab = self.look('phone', 'light', 20)
        tab.run("byId('more').open = true")
        words = lambda: tab.run("[...document.querySelectorAll('#more > .hint')].filter((one) => one.checkVisibility()).map((one) => one.innerText).join(' ')")
        self.assertRegex(words(), 'Point at a head.*Shift')
        tab.call('Emulation.setTouchEmulationEnabled', enabled=True)
        self.assertRegex(words(), 'Tap a head')
        self.assertNotRegex(words(), 'Point|Enter|Shift|click')

    def test_links_are_drawn_on_the_tokens(self):
        tab = self.look('laptop', 'light', 20)
        for query in (19, 7):
            tab.point(f'#tokens li:nth-child({query + 1}) button', click=False)
            weights = tab.run(f'Array.from({{length: 20}}, (_, key) => weightAt(look.matrix, {query}, key))')
            linked = sorted(sorted(range(20), key=lambda key: -weights[key])[:5])
            ends = sorted(round(float(x)) for x in tab.run(
                "[...document.querySelectorAll('#threads circle')].map((one) => one.getAttribute('cx'))"))
            middle = lambda at: round(tab.run(f"""(({{left, right}}) => (left + right) / 2)(
                document.querySelectorAll('#tokens button')[{at}].getBoundingClientRect()) - byId('threads').getBoundingClientRect().left"""))
            self.assertEqual(ends, sorted(middle(key) for key in linked if key != query and weights[key] >= 0.02))
            self.assertEqual(tab.run('look.query()'), query)
            words = tab.text('#look-links')
            self.assertIn(f'{max(weights):.2f}'.rstrip(), words)

    def test_small_maps_are_drawn_where_they_are_seen(self):
        tab = self.look('small laptop', 'light', 20)
        tab.run("""byId('colour').value = 'map'; byId('colour').dispatchEvent(new Event('change', {bubbles: true})); null""")
        drawn = "[...document.querySelectorAll('.cell canvas')].map((one) => one.width === 20)"
        self.wait(tab, f'{drawn}.some(Boolean)')
        tab.settle()
        first = tab.run(drawn)
        self.assertEqual([len(first), first[0], first[-1]], [270, True, False], 'those below are not seen')
        for head, query in (('0.0', 5), ('1.3', 19)):
            self.assertEqual(tab.run(f"""(async () => {{
                const matrix = await hooks.matrix(currentSample(), currentModel().heads.find((one) => keyOf(one) === '{head}'));
                const pen = document.querySelector('.cell[data-head="{head}"] canvas').getContext('2d', {{willReadFrequently: true}});
                return Array.from({{length: 20}}, (_, key) => [...pen.getImageData(key, {query}, 1, 1).data].slice(0, 3).join() ===
                    heat.shades[matrix.bytes[{query} * 20 + key]].join());
            }})()"""), [True] * 20)
        tab.run("document.querySelector('.field .scroll').scrollTop = 1e6; null")
        self.wait(tab, f'{drawn}[269]')
        self.expect_fitting(tab)
        self.expect_accessible(tab)
        tab.screenshot(FOLDER / 'small-maps.png')
        tab.run("""byId('colour').value = 'role'; byId('colour').dispatchEvent(new Event('change', {bubbles: true})); null""")
        self.assertEqual(tab.run("document.querySelectorAll('.cell canvas').length"), 0)
        self.assertEqual([one for one in tab.complaints() if 'getImageData' not in one], [], 'but for what the test does')

    # --- how soon

    def processor_time(self):
        """Seconds that the server and all of the browser have computed, whatever else the machine does."""
        family = {self.server.pid, self.browser._process.pid}
        stats = {}
        for folder in pathlib.Path('/proc').iterdir():
            if folder.name.isdigit():
                try:
                    stats[int(folder.name)] = (folder / 'stat').read_text().rsplit(')', 1)[1].split()
                except OSError:
                    pass
        while True:
            more = {pid for pid, stat in stats.items() if int(stat[1]) in family} - family
            if not more:
                break
            family |= more
        return sum(int(stats[pid][11]) + int(stats[pid][12]) for pid in family if pid in stats) / os.sysconf('SC_CLK_TCK')

    def hover(self, tab, heads):
        """Processor time for each of them, from the pointer to the frame that shows it."""
        began = self.processor_time()
        for head in heads:
            tab.point(f'.cell[data-head="{head}"]', click=False)
            for _ in range(200):
                if tab.run(f"look.drawn === '{head}'"):
                    break
                time.sleep(0.005)
            self.assertEqual(tab.run('look.drawn'), head)
        return (self.processor_time() - began) / len(heads)

    def test_another_head_is_there_at_once(self):
        tab = self.look('laptop', 'light', 64)
        tab.run(LISTEN)
        self.hover(tab, ['4.0'])
        tab.run('asked.length = 0; null')
        self.assertLess(self.hover(tab, [f'4.{head}' for head in (*range(1, 9), *range(8, -1, -1))]), 0.1)
        self.assertEqual(tab.run('asked.length'), 0, 'a layer comes at once')
        self.assertLess(self.hover(tab, [f'{layer}.{layer % 9}' for layer in range(5, 25)]), 0.4)
        self.assertEqual([what for what, _ in tab.run('asked')], ['layer'] * 20)


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
