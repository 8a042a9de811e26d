"""first_visit_test.py CHROMIUM POLYHEAD FOLDER: what the live page offers to those who open it for the first time: texts to try
and a tour."""
import live_page_test
from live_page_test import THEMES, Live
from first_look_test import SIZES
from browser import Tab

TRIES = "[...document.querySelectorAll('#tries button:not(#compare)')]"


class Visit(Live):
    def expect_texts_to_try(self, names):
        tab = self.tab()
        self.assertEqual(tab.run(f"{TRIES}.map((one) => one.textContent)"), names)
        pressed = f"{TRIES}.map((one) => one.ariaPressed)"
        self.assertEqual(tab.run(pressed), ['true', 'false', 'false'], 'the page begins with the first')
        texts = set()
        for at, name in enumerate(names):
            tab.run(f'{TRIES}[{at}].click()')
            self.wait(tab, '!live.reading')
            self.assertFalse(tab.run("byId('status').classList.contains('wrong')"), tab.text('#status'))
            self.assertEqual(tab.run(pressed), [str(one == at).lower() for one in range(3)])
            note = tab.text('#try-note')
            self.assertTrue(note.startswith(f'{name}. '), note)
            self.assertGreaterEqual(note.count('. '), 2, 'a name and two sentences')
            texts.add(tab.run("byId('text').value"))
        self.assertEqual(len(texts), 3)
        self.assertEqual(tab.run("new URLSearchParams(location.hash.slice(1)).get('text')"), tab.run("byId('text').value"))
        tab.run("byId('text').value = byId('text').value.split(' ').slice(0, 5).join(' '); live.onText(); null")
        self.wait(tab, '!live.reading')
        self.assertEqual([tab.run(pressed), tab.run("byId('try-note').hidden")], [['false'] * 3, True], "somebody's own text")
        return texts


class OfALanguageModel(Visit):
    model = 'gpt'

    def test_texts_to_try(self):
        texts = self.expect_texts_to_try(['Repetition', 'Mary and John', 'A list'])
        self.assertTrue(any(text.startswith('When Mary and John') for text in texts))
        for text in texts:
            if text.startswith('The animal'):
                words = text.split()
                self.assertEqual(words[-6:], words[:6], 'it begins again')

    def tour(self, size, theme='light'):
        tab = Tab(self.browser, *SIZES[size], theme)
        tab.open(self.address)
        self.wait(tab)
        tab.run("byId('tour-begins').focus()")
        tab.press('Enter')
        return tab

    def test_a_tour_of_five_steps(self):
        for size, (width, height) in SIZES.items():
            tab = self.tour(size)
            before = tab.run('location.hash')
            seen = []
            for step in range(5):
                with self.subTest(size=size, step=step):
                    box, about = tab.run("""[byId('tour'), document.querySelector('.toured')].map((one) => {
                        const {left, top, right, bottom} = one.getBoundingClientRect(); return [left, top, right, bottom]; })""")
                    self.assertTrue(box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height, box)
                    self.assertTrue(about[3] > 0 and about[1] < height, 'what it is about is in the window')
                    words = tab.text('#tour')
                    self.assertIn(f'{step + 1} of 5', words)
                    self.assertGreaterEqual(words.count('. '), 1)
                    seen.append(words)
                    self.assertEqual(tab.run('document.activeElement.textContent'), 'Done' if step == 4 else 'Next')
                    tab.press('Enter')
            self.assertEqual(len(set(seen)), 5)
            self.assertEqual(tab.run("[byId('tour').hidden, document.querySelector('.toured'), document.activeElement.id]"),
                             [True, None, 'tour-begins'])
            self.assertEqual(tab.run('location.hash'), before, 'nothing was changed')
            self.expect_quiet(tab)

    def test_the_tour_can_be_left_and_the_page_used_meanwhile(self):
        tab = self.tour('laptop')
        tab.press('Enter')
        self.click(tab, '#look-off')
        self.assertEqual(tab.run("[gates.values.size, byId('tour').hidden]"), [1, False])
        tab.press('Escape')
        self.assertEqual(tab.run("[byId('tour').hidden, document.activeElement.id]"), [True, 'tour-begins'])
        tab.press('Enter')
        self.assertIn('1 of 5', tab.text('#tour'), 'it begins anew')
        tab.run("[...document.querySelectorAll('#tour button')].find((one) => one.textContent === 'Leave').click()")
        self.assertTrue(tab.run("byId('tour').hidden"))

    def test_the_tour_can_be_read_by_all(self):
        for size in ('laptop', 'phone'):
            for theme in THEMES:
                tab = self.tour(size, theme)
                self.expect_fitting(tab)
                self.expect_legible(tab)
                self.expect_accessible(tab)
                self.expect_quiet(tab)

    def test_tokens_are_counted_alike_everywhere(self):
        tab = self.tab(at='#text=one+two&token=1')
        last = tab.run('currentSample().tokens.length') - 1
        self.assertIn(f'Token 1, of 0 to {last}', tab.text('#token-note'))
        self.assertIn('(1)', tab.text('#outcome-name'))


class OfAnEncoder(Visit):
    model = 'encoder'

    def test_texts_to_try(self):
        self.expect_texts_to_try(['Repetition', 'One word, twice', 'Who is it?'])


class OfATask(Visit):
    model = 'classifier'

    def test_texts_to_try(self):
        self.expect_texts_to_try(['Sequence 1', 'Sequence 2', 'Sequence 3'])


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
