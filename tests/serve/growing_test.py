"""growing_test.py CHROMIUM POLYHEAD FOLDER: the model goes on with a text, token by token, and each becomes a row of the map."""
import live_page_test
from live_page_test import Live

TEXT = 'the road'
NEXT = 'currentSample().predictions.at(-1)[0][0]'
TOKENS = 'currentSample().tokens'


class OfALanguageModel(Live):
    model = 'gpt'

    def opened(self, at=''):
        tab = self.tab(at=f'#text={TEXT.replace(" ", "+")}{at}')
        self.wait(tab, 'look.matrix !== null')
        return tab

    def test_each_step_is_a_row(self):
        tab = self.opened()
        tokens, map_ = tab.run(TOKENS), tab.run('[...look.matrix.bytes]')
        for step in range(3):
            likely, size = tab.run(NEXT), len(tokens)
            self.click(tab, '#next-token')
            self.wait(tab, f'look.matrix?.queries === {size + 1}')
            self.assertEqual(tab.run(TOKENS), tokens + [likely])
            grown = tab.run('[...look.matrix.bytes]')
            rows = [grown[query * (size + 1):query * (size + 1) + size] for query in range(size)]
            self.assertEqual(sum(rows, []), map_, 'the rows before stay as they were')
            self.assertEqual(tab.run('look.query()'), size, 'the new row is the one that is shown')
            tokens, map_ = tab.run(TOKENS), grown
        self.assertEqual(tab.run("[...document.querySelectorAll('#tokens button')].map((one) => one.classList.contains('added'))"),
                         [False] * (len(tokens) - 3) + [True] * 3)
        self.assertEqual(tab.run("byId('text').value"), TEXT)
        self.assertIn('  # without the 3 tokens that were added', tab.run("byId('command').textContent"))
        self.expect_accessible(tab)
        self.expect_fitting(tab)
        address, whole = tab.run('location.hash'), tokens
        self.click(tab, '#shrink')
        self.assertEqual(tab.run(TOKENS), tokens[:-1])
        self.type(tab, TEXT)
        self.assertEqual(tab.run("[growing.added().length, byId('shrink').hidden]"), [0, True], 'a text that is typed is all there is')
        self.expect_quiet(tab)
        self.assertEqual(self.tab(at=address).run(TOKENS), whole, 'the address has them')

    def test_another_token_can_be_chosen(self):
        tab = self.opened()
        tokens, third = tab.run(TOKENS), tab.run('currentSample().predictions.at(-1)[2][0]')
        tab.run("document.querySelector('.predictions tbody tr:nth-child(3) button').focus()")
        tab.press('Enter')
        self.wait(tab)
        self.assertEqual(tab.run(TOKENS), tokens + [third])
        tab.run('reading.choose(0)')
        self.assertEqual(tab.run("document.querySelectorAll('.choose').length"), 0, 'only at the end it goes on')

    def test_it_writes_on_until_it_is_stopped(self):
        tab = self.opened('&off=0.1')
        count = len(tab.run(TOKENS))
        self.click(tab, '#write')
        self.assertEqual(tab.run("[byId('write').textContent, byId('next-token').disabled]"), ['Stop', True])
        self.wait(tab, f'{TOKENS}.length >= {count + 2}')
        self.click(tab, '#write')
        self.wait(tab)
        written = tab.run(TOKENS)
        self.assertEqual(tab.run("[byId('write').textContent, growing.walking]"), ['Write on', None])
        self.assertEqual(tab.run('gates.text()'), '0.1')
        tab.run("gates.step((values) => values.clear()); null")
        self.wait(tab)
        self.assertEqual(tab.run(TOKENS), written, 'what was added stays, whatever is switched')

    def test_an_address_that_is_no_list_of_tokens_adds_none(self):
        for then in ('x', '1,,2', '-1', '1.5'):
            tab = self.opened(f'&then={then}')
            self.assertEqual(tab.run(f'{TOKENS}.length'), 3, then)
        tab = self.opened()
        tab.run("location.hash = '#text=the+road&then=399999'")
        self.wait(tab, "!live.reading && byId('status').classList.contains('wrong')")
        self.assertIn('then', tab.text('#status'))
        self.assertTrue(tab.run("byId('status').classList.contains('wrong')"))


class OfAnEncoder(Live):
    model = 'encoder'

    def test_nothing_goes_on(self):
        self.assertFalse(self.tab().run("byId('grow').checkVisibility()"))


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
