"""using_test.py CHROMIUM FOLDER: keys, focus, history, what a state looks like, and what a screen reader says of it all.

The words are in said.txt.
"""
import itertools
import json
import re
import sys
import unittest

import expected
import said
from drawing_test import DATA, FOLDER
from page import HERE, PageTest

ALT, CONTROL, META = 1, 2, 4


class Using(PageTest):
    def choose(self, tab, name, value):
        tab.run(f"""controls.elements.{name}.value = {json.dumps(value)};
            controls.elements.{name}.dispatchEvent(new Event('change', {{bubbles: true}})); null""")

    # --- history

    def test_a_click_on_a_head_is_a_step_and_nothing_else_is(self):
        tab = self.at('#sample=1')
        count = lambda: tab.run('history.length')
        before = count()
        for name, value in (('order', 'damage'), ('layer', '2'), ('sample', '0'), ('sample', '1')):
            self.choose(tab, name, value)
        tab.run("byId('colour').value = 'damage'; byId('colour').dispatchEvent(new Event('change')); null")
        tab.run("document.querySelectorAll('#tokens button')[3].click(); null")
        self.assertEqual(count(), before)
        outside = '#sample=1&layer=2&order=damage&colour=damage&token=3'
        self.assertEqual(tab.run('location.hash'), outside)
        for opener in ('.card', '.cell', '#sorted button.small'):
            tab.run("byId('sorted').open = true; null")
            tab.settle()
            name = tab.run(f"document.querySelector('{opener}').dataset.head || document.querySelector('{opener}').textContent")
            before = count()
            tab.run(f"document.querySelector('{opener}').click(); null")
            tab.settle()
            self.assertEqual(tab.run('dialog.open'), True)
            self.assertIn(f'head={name}', tab.run('location.hash'))
            tab.run("byId('next').click(); null")
            tab.settle()
            self.assertNotIn(f'head={name}', tab.run('location.hash'))
            tab.run("document.querySelectorAll('#queries button')[2].click(); null")
            self.assertIn('query=2', tab.run('location.hash'))
            self.assertLessEqual(count(), before + 1, opener)
            tab.run('history.back()')
            for _ in range(20):
                tab.settle()
                if not tab.run('dialog.open'):
                    break
            self.assertEqual(tab.run('[dialog.open, location.hash]'), [False, outside], opener)

    def test_a_link_to_a_section_changes_nothing(self):
        tab = self.at('#sample=1&layer=2')
        tab.run("document.querySelector('nav a[href=\"#tables\"]').click(); null")
        tab.settle()
        self.assertEqual(tab.run("[location.hash, state.layer, controls.elements.layer.value, byId('count').textContent]"),
                         ['#tables', '2', '2', '8 of 64 heads'])
        tab = self.tab(at='#findings')
        self.assertEqual(tab.run("[location.hash, byId('count').textContent]"), ['#findings', '64 heads'])

    def test_an_address_says_all_and_forgets_what_was(self):
        tab = self.at('#sample=1&head=2.4&query=3&order=damage&layer=2&role=induction&least=0.1&colour=damage&token=2')
        tab = self.at('')
        self.assertEqual(tab.run("""[dialog.open, byId('count').textContent, byId('colour').value,
            ...['sample', 'layer', 'role', 'least', 'order'].map((name) => controls.elements[name].value)]"""),
            [False, '64 heads', 'role', '0', '', '', '', 'layer'])
        for nonsense in ('#blocks=least', '#against=x', '#against=0', '#colour=none', '#token=1.5', '#sample=1234567', '#model=1000000'):
            self.at(nonsense)
            self.assertEqual(tab.run("""[state.blocks, state.against, state.colour, state.token, state.sample, state.model]"""),
                             ['max', '', '', '', '0', '0'], nonsense)
        self.at('#blocks=mean')
        self.assertEqual(tab.run('state.blocks'), 'mean')

    # --- words

    def lines(self, address, selector):
        tab = self.at(address)
        tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        tab.settle()
        return said.lines(tab, selector)

    def test_every_word_and_state(self):
        tab = self.at('')
        tab.call('Input.dispatchMouseEvent', type='mouseMoved', x=1, y=1)
        tab.run("byId('cell-note').textContent = ''; null")
        said.expect(self, HERE / 'said.txt', {
            'the page': self.lines('#model=1&sample=1', 'header, #heads'),
            'a head': self.lines('#model=1&sample=1&head=0.0&query=1', 'dialog'),
            'a head over a long text': self.lines('#sample=0&head=0.0', '.map'),
            'the key to the numbers': self.lines('#model=1&colour=damage', '#legend > *')})

    # --- the keyboard

    def test_arrows_in_a_head(self):
        tab = self.at('#sample=1&head=2.4')
        names = ["Layer 2 · head 4", "Layer 2 · head 5", "Layer 2 · head 3"]
        tab.run("byId('close').focus()")
        for key in ('ArrowLeft', 'ArrowRight'):
            for modifier in (ALT, CONTROL, META):
                self.assertFalse(tab.take(key, modifier), 'that is the browser\'s own')
                self.assertEqual(tab.text('#head-name'), names[0])
        for key in ('ArrowUp', 'ArrowDown', 'a', 'Home'):
            self.assertFalse(tab.take(key), key)
        self.assertTrue(tab.take('ArrowRight'))
        self.assertEqual(tab.text('#head-name'), names[1])
        for _ in range(2):
            self.assertTrue(tab.take('ArrowLeft'))
        self.assertEqual(tab.text('#head-name'), names[2])
        for button, name in (('next', 0), ('next', 1), ('previous', 0)):
            tab.point('#' + button)
            self.assertEqual(tab.text('#head-name'), names[name])
        tab.point('#close')
        self.assertFalse(tab.run('dialog.open'))
        # Those that are shown, from the first again after the last; from one that is not shown, beside the first.
        tab = self.at('#sample=1&layer=2&head=2.7')
        tab.point('#next')
        self.assertEqual(tab.text('#head-name'), 'Layer 2 · head 0')
        tab.point('#previous')
        self.assertEqual(tab.text('#head-name'), 'Layer 2 · head 7')
        tab = self.at('#sample=1&layer=2&head=5.5')
        tab.point('#next')
        self.assertEqual(tab.text('#head-name'), 'Layer 2 · head 1')
        tab = self.at('#sample=1&layer=2&order=damage&head=2.0')
        order = sorted((one for one in DATA['models'][0]['heads'] if one['layer'] == 2), key=lambda one: -one['damage'])
        at = [one['head'] for one in order].index(0)
        tab.point('#next')
        self.assertEqual(tab.text('#head-name'), f"Layer 2 · head {order[(at + 1) % 8]['head']}")

    def test_arrows_among_the_queries(self):
        tab = self.at('#sample=1&head=2.4&query=1')
        tab.run("document.querySelectorAll('#queries button')[1].focus()")
        focused = "[...document.querySelectorAll('#queries button')].indexOf(document.activeElement)"
        reachable = "[...document.querySelectorAll('#queries button')].flatMap((e, i) => e.tabIndex === 0 ? [i] : [])"
        for key, query, taken in (('ArrowUp', 0, True), ('ArrowUp', 0, False), ('ArrowDown', 1, True), ('ArrowDown', 2, True)):
            self.assertEqual(tab.take(key), taken, key)
            self.assertEqual(tab.run(f'[{focused}, ...{reachable}, state.query]'), [query, query, str(query)])
            self.assertIn(f'({query})', tab.text('#summary'))
        self.assertTrue(tab.take('ArrowRight'))
        self.assertEqual(tab.run(f"[{focused}, byId('head-name').textContent]"), [2, 'Layer 2 · head 5'], 'the focus stays there')
        tab = self.at('#sample=1&head=2.4&query=13')
        tab.run("document.querySelectorAll('#queries button')[13].focus()")
        self.assertFalse(tab.take('ArrowDown'))
        self.assertEqual(tab.run(focused), 13)

    def test_the_focus_returns_to_where_it_came_from(self):
        tab = self.at('#sample=1')
        for opener, other in (('.card', '.cell'), ('.cell', '.card')):
            tab.run(f"document.querySelector('{opener}[data-head=\"2.4\"]').focus()")
            tab.press('Enter')
            tab.settle()
            tab.run("byId('next').click(); null")
            tab.settle()
            tab.run("byId('close').click(); null")
            tab.settle()
            self.assertEqual(tab.run(f"[document.activeElement.dataset.head, document.activeElement.matches('{opener}')]"), ['2.5', True])
        self.assertEqual(tab.run("[...document.querySelectorAll('.cell')].flatMap((e) => e.tabIndex === 0 ? [e.dataset.head] : [])"),
                         ['2.5'], 'one cell can be reached, the last one')
        self.assertEqual(tab.run("document.querySelectorAll('.cell[aria-current]').length"), 0)

    def test_arrows_in_the_grid(self):
        tab = self.at('#model=0')
        tab.run("document.querySelector('.cell[data-head=\"0.0\"]').focus()")
        place = "document.activeElement.dataset.head"
        reachable = "[...document.querySelectorAll('.cell')].flatMap((e) => e.tabIndex === 0 ? [e.dataset.head] : [])"
        for key, head in (('ArrowLeft', '0.0'), ('ArrowUp', '0.0'), ('ArrowRight', '0.1'), ('ArrowDown', '1.1'),
                          ('ArrowDown', '2.1'), ('ArrowLeft', '2.0'), ('ArrowUp', '1.0')):
            self.assertTrue(tab.take(key))
            self.assertEqual(tab.run(place), head, key)
            if head != '0.0':
                self.assertEqual(tab.run(reachable), [head])
            self.assertEqual(tab.text('#cell-note'), tab.run('document.activeElement.ariaLabel'))
        self.assertFalse(tab.take('a'))
        for head in ('7.7', '3.4'):
            tab.point(f'.cell[data-head="{head}"]', click=False)
            self.assertEqual(tab.text('#cell-note'), tab.run(f"document.querySelector('.cell[data-head=\"{head}\"]').ariaLabel"))
        tab.run("document.querySelector('.cell[data-head=\"7.7\"]').focus()")
        for key in ('ArrowRight', 'ArrowDown'):
            tab.take(key)
            self.assertEqual(tab.run(place), '7.7')

    def test_arrows_among_the_tokens(self):
        tab = self.at('#sample=1&token=1')
        tab.run("document.querySelectorAll('#tokens button')[1].focus()")
        focused = "[...document.querySelectorAll('#tokens button')].indexOf(document.activeElement)"
        for key, token, taken in (('ArrowLeft', 0, True), ('ArrowLeft', 0, False), ('ArrowRight', 1, True), ('ArrowRight', 2, True),
                                  ('ArrowUp', 2, False)):
            self.assertEqual(tab.take(key), taken, key)
            self.assertEqual(tab.run(f'[{focused}, location.hash]'), [token, f'#sample=1&token={token}'])
        tab = self.at('#sample=1&token=13')
        tab.run("document.querySelectorAll('#tokens button')[13].focus()")
        self.assertFalse(tab.take('ArrowRight'))
        self.assertEqual(tab.run(focused), 13)

    def test_the_page_stands_still_under_the_arrows(self):
        tab = self.at('#sample=1&head=2.4&query=1')
        tab.call('Emulation.setDeviceMetricsOverride', width=1280, height=400, deviceScaleFactor=1, mobile=False)
        tab.run("document.querySelectorAll('#queries button')[1].focus(); dialog.scrollTop = 1e6; null")
        place = tab.run('dialog.scrollTop')
        self.assertLess(tab.run("byId('queries').getBoundingClientRect().bottom"), 0, 'they are out of sight')
        for key in ('ArrowDown', 'ArrowUp', 'ArrowRight'):
            tab.take(key)
            self.assertEqual(tab.run('dialog.scrollTop'), place, key)
        tab = self.at('#sample=1&token=1')
        tab.run("document.querySelectorAll('#tokens button')[1].focus(); scrollTo(0, 1500); null")
        place = tab.run('scrollY')
        self.assertGreater(place, 1000)
        tab.take('ArrowRight')
        self.assertEqual(tab.run('scrollY'), place)
        tab.run('scrollTo(0, 0)')
        tab.call('Emulation.setDeviceMetricsOverride', width=1280, height=860, deviceScaleFactor=1, mobile=False)

    # --- the pointer

    def test_the_pointer_over_queries_changes_no_words(self):
        tab = self.at('#sample=1&head=2.4&query=9')
        before = tab.run("[byId('summary').textContent, byId('arcs').innerHTML]")
        tab.point('#queries li:nth-child(4) button', click=False)
        after = tab.run("[byId('summary').textContent, byId('arcs').innerHTML]")
        self.assertEqual(after[0], before[0])
        self.assertNotEqual(after[1], before[1])
        tab.point('#head-name', click=False)
        self.assertEqual(tab.run("[byId('summary').textContent, byId('arcs').innerHTML]"), before)

    def test_lines_leave_and_arrive_level(self):
        for at, rows in (('#model=1&sample=1&head=0.0&query=0', 4), ('#sample=1&head=2.4&query=9', 14), ('#head=2.4&query=60', 128)):
            tab = self.at(at)
            height, gap, arcs = tab.run("""[byId('arcs').getBoundingClientRect().height, byId('arcs').clientWidth,
                [...document.querySelectorAll('#arcs path')].map((e) => e.getAttribute('d').match(/[0-9.]+/g).map(Number))]""")
            self.assertEqual(height, 24 * rows)
            for left, start, *bends, right, end in arcs:
                self.assertEqual([left, *bends, right], [0, gap / 2, start, gap / 2, end, gap])

    def test_the_list_of_queries_scrolls_only_where_it_must(self):
        tab = self.at('#sample=0&head=0.0&query=60')
        place = "document.querySelector('.pairs').scrollTop"
        middle = tab.run(place)
        height = tab.run("document.querySelector('.pairs').clientHeight")
        self.assertAlmostEqual(middle, 60.5 * 24 - height / 2, delta=1)
        page = tab.run('dialog.scrollTop')
        tab.run("document.querySelectorAll('#queries button')[61].click(); null")
        self.assertEqual(tab.run(place), middle, 'it was in sight')
        for query, at in ((64, 60), (65, 65), (61, 65), (60, 60)):  # four rows on both sides are for its links
            tab.run(f"document.querySelectorAll('#queries button')[{query}].click(); null")
            self.assertAlmostEqual(tab.run(place), (at + 0.5) * 24 - height / 2, delta=1, msg=query)
        self.assertEqual(tab.run('dialog.scrollTop'), page)

    def test_thumbnails_are_drawn_for_paper(self):
        tab = self.tab(at='#sample=1')
        blank = "[...document.querySelectorAll('canvas.thumb')].filter((e) => e.width !== 14).length"
        self.assertGreater(tab.run(blank), 0, 'those that are far below')
        tab.run("dispatchEvent(new Event('beforeprint')); null")
        tab.settle()
        self.assertEqual(tab.run(blank), 0)

    # --- what comes late

    def test_what_comes_late_is_not_shown(self):
        """Weights may take a while: of two heads that are opened, the second is shown, whichever comes first."""
        seen = "[byId('head-name').textContent, byId('summary').textContent, byId('arcs').innerHTML, byId('numbers').textContent]"
        tab = self.at('#sample=1&head=0.1')
        second = tab.run(seen)
        tab = self.at('#sample=1')
        tab.run("""window.kept = hooks.matrix; window.came = []; hooks.matrix = async (sample, head) => {
            await new Promise((done) => setTimeout(done, keyOf(head) === '0.0' ? 100 : 10));
            const matrix = await kept(sample, head);
            came.push(keyOf(head));
            return matrix; }; null""")
        tab.run("document.querySelector('.cell[data-head=\"0.0\"]').click(); byId('next').click(); null")
        for _ in range(100):
            tab.settle()
            if len(tab.run('came')) == 2:
                break
        tab.settle()
        self.assertEqual(tab.run('came'), ['0.1', '0.0'])
        self.assertEqual(tab.run(seen), second)
        tab.run('hooks.matrix = kept; null')

    # --- what a state looks like

    def style(self, tab, selector, name, pseudo=''):
        return tab.run(f"getComputedStyle(document.querySelector({json.dumps(selector)}), {json.dumps(pseudo)}).getPropertyValue('{name}')")

    def test_states_can_be_seen(self):
        tab = self.at('#sample=1&layer=2')
        tab.run('document.activeElement.blur()')
        inks = {name: tab.run(f"""(() => {{ const one = element('i', {{}}); document.body.append(one);
            one.style.color = 'var({name})'; const found = getComputedStyle(one).color; one.remove(); return found; }})()""")
            for name in ('--accent', '--ink', '--soft', '--faint', '--cold', '--paper', '--wash', '--s0', '--s1', '--axis')}
        cell, other = '.cell[data-head="2.4"]', '.cell[data-head="3.4"]'
        self.assertEqual([self.style(tab, cell, 'opacity'), self.style(tab, other, 'opacity')], ['1', '0.25'])
        mark = tab.run(f"document.querySelector('{cell}').dataset.mark")
        self.assertEqual(json.loads(self.style(tab, cell, 'content', '::before')), mark)
        tab.run(f"document.querySelector('{cell}').classList.add('gated', 'differs'); null")
        self.assertEqual(self.style(tab, cell, 'border-left-style'), 'dashed')
        tab.run(f"document.querySelector('{cell}').classList.remove('gated'); null")
        self.assertEqual([self.style(tab, cell, f'border-bottom-{name}') for name in ('width', 'style', 'color')],
                         ['4px', 'solid', inks['--ink']])
        tab.run(f"document.querySelector('{cell}').classList.remove('differs'); document.querySelector('{cell}').ariaCurrent = 'true'; null")
        self.assertEqual([self.style(tab, cell, f'outline-{name}') for name in ('width', 'style', 'color')],
                         ['2px', 'solid', inks['--ink']])
        tab.run("document.querySelectorAll('#tokens button')[3].click(); null")
        self.assertEqual([self.style(tab, '#tokens [aria-pressed="true"]', f'outline-{name}') for name in ('width', 'color')],
                         ['2px', inks['--accent']])
        self.assertEqual(self.style(tab, '#tokens [aria-pressed="false"]', 'outline-style'), 'none')
        tab.run("byId('more').open = true")
        for selector in ('.card', '.cell', '#tokens button', 'select', '#sorted summary', 'nav a'):
            tab.run(f"document.querySelector('{selector}').focus({{focusVisible: true}})")
            self.assertEqual([self.style(tab, f'{selector}:focus', f'outline-{name}') for name in ('style', 'color')],
                             ['solid', inks['--accent']], selector)
        for selector, name in (('.card', 'border-top-color'), ('.cell', 'border-top-color')):
            before = self.style(tab, selector, name)
            tab.point(selector, click=False)
            self.assertEqual([before, self.style(tab, selector, name)], [inks['--faint'], inks['--accent']])
        tab = self.at('#model=1')
        self.assertEqual([self.style(tab, f'.card{kind} .place', 'text-decoration-line') for kind in (':not(.pruned)', '.pruned')],
                         ['none', 'line-through'])
        self.assertEqual([self.style(tab, '.bar span', 'background-color'), self.style(tab, '.bar', 'background-color')],
                         [inks['--s0'], inks['--wash']])
        tab = self.at('#sample=1&head=2.4&query=3')
        chosen, rest = '#queries [aria-pressed="true"]', '#queries [aria-pressed="false"]'
        self.assertEqual([self.style(tab, one, 'font-weight') for one in (chosen, rest)], ['600', '400'])
        self.assertEqual([self.style(tab, one, 'border-top-color') for one in (chosen, rest)], [inks['--accent'], 'rgba(0, 0, 0, 0)'])
        self.assertEqual([self.style(tab, one, 'color') for one in ('.linked .token', '#keys li:not(.linked) .token')],
                         [inks['--ink'], inks['--soft']])
        self.assertEqual([self.style(tab, '#arcs path', name) for name in ('fill', 'stroke')], ['none', inks['--s0']])
        self.assertEqual(self.style(tab, 'html', 'overflow-y'), 'hidden', 'the page behind stands still')
        self.assertEqual(self.style(tab, 'dialog > header', 'position'), 'sticky')
        self.assertEqual([self.style(tab, f'#numbers td{one}', 'text-align') for one in ('.number', ':first-child')], ['right', 'left'])

    def test_both_themes_have_colours_of_their_own(self):
        tab = self.at('')
        names = ['page', 'paper', 'map', 'ink', 'soft', 'faint', 'axis', 'accent', 'heat', 'shade', 'cold', 'on-low', 'on-high',
                 'cross', 'wash', *(f's{i}' for i in range(7))]
        read = f"""(() => {{ const style = getComputedStyle(document.documentElement);
            return {json.dumps(names)}.map((name) => style.getPropertyValue('--' + name).trim()); }})()"""
        found = {}
        for theme in ('light', 'dark'):
            tab.set_theme(theme)
            colours = found[theme] = dict(zip(names, tab.run(read)))
            amount = {name: [int(text[at:at + 2], 16) for at in (1, 3, 5)] for name, text in colours.items()}
            apart = lambda a, b: sum(abs(x - y) for x, y in zip(amount[a], amount[b]))
            for a, b in itertools.combinations([*(f's{i}' for i in range(7)), 'paper'], 2):
                self.assertGreater(apart(a, b), 60, f'{a} and {b}, {theme}')
            for a, b in (('shade', 'cold'), ('shade', 'map'), ('cold', 'map'), ('ink', 'page'), ('accent', 'ink')):
                self.assertGreater(apart(a, b), 150, f'{a} and {b}, {theme}')
        tab.set_theme('light')
        self.assertEqual([name for name in names if found['light'][name] == found['dark'][name]], [])

    def test_roles_that_nobody_has_heard_of(self):
        tab = self.tab()
        tab.run("""currentModel().heads.forEach((head, i) => { head.role = 'role ' + 'abcdefghij'[Math.floor(Math.sqrt(i))]; });
            grid.show(); null""")
        found = tab.run("""[...document.querySelectorAll('.role-key li')].map((e) => [e.textContent,
            e.querySelector('.swatch').style.backgroundColor.match(/\\d+/g).map(Number)])""")
        counts = [15, 13, 11, 9, 7, 5, 3, 1]  # the commonest first
        self.assertEqual(found, [[f'r{name}role {name} ({count})', expected.COLOURS['other'][0]] for name, count in zip('hgfedcba', counts)])
        self.assertEqual(tab.run("[...document.querySelectorAll('.card .role')].every((e) => e.title === e.textContent)"), True)

    def written(self, **changes):
        """A page with other data, opened."""
        text = (FOLDER / 'hostile.html').read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
        harmless = json.dumps({**data, **changes}).replace('<', '\\u003c')
        page = FOLDER / 'changed.html'
        page.write_text(re.sub(r'(id="data">).*?(?=</script>)', lambda found: found.group(1) + harmless, text, flags=re.S))
        tab = self.tab()
        tab.open(page.as_uri())
        return tab

    def test_shares_and_ties(self):
        """A head that has just the share that is asked for is shown; of heads that are alike the first comes first."""
        tab = self.tab()
        shares = [1, 0.5, 0.25, 0.1, 0.4999, 0.2499, 0.0999, 0.5]
        tab.run(f"""currentModel().heads.forEach((head, i) => {{ head.importance = 2 * {shares}[i % 8]; head.damage = i % 8 === 7 ? 1 : 0; }});
            currentModel().heads.reverse(); showHeads(); null""")
        cards = "[...document.querySelectorAll('.card')].map((e) => e.dataset.head)"
        for least in (0.1, 0.25, 0.5):
            self.choose(tab, 'least', str(least))
            self.assertEqual(tab.run(cards), [f'{layer}.{head}' for layer in range(8) for head in range(8) if shares[head] >= least])
        self.choose(tab, 'order', 'damage')
        self.assertEqual(tab.run(cards), [f'{layer}.7' for layer in range(8)] + [f'{layer}.{head}' for layer in range(8) for head in (0, 1)])
        self.choose(tab, 'least', '')
        self.choose(tab, 'order', 'role')
        unclear = tab.run('currentModel().heads.filter((head) => !head.role).map(keyOf)')
        self.assertGreater(len(unclear), 1)
        self.assertEqual([key for key in tab.run(cards) if key in unclear], sorted(unclear))

    def test_data_of_another_schema_are_refused(self):
        tab = self.written(schema=2)
        self.assertIn('this page reads schema 1, found 2', ' '.join(tab.complaints()))

    def test_without_scripts_there_are_figures_and_tables(self):
        tab = self.tab()
        tab.call('Emulation.setScriptExecutionDisabled', value=True)
        tab.load(self.address)
        words = '\n'.join(said.lines(tab, 'main'))
        self.assertIn('Findings, figures and tables need no script; looking at heads does.', words)
        self.assertIn('heading "Findings"', words)
        self.assertNotIn('heading "Heads"', words)

    def test_a_page_without_models_has_no_heads(self):
        tab = self.written(models=[], lead='')
        self.assertEqual(tab.run("[byId('heads'), byId('lead'), byId('tables')].map((e) => e.checkVisibility())"), [False, False, True])
        self.assertEqual(tab.run("[...document.querySelectorAll('nav a')].filter((e) => e.checkVisibility()).map((e) => e.hash)"),
                         ['#question-1', '#tables'])
        tab.set_theme('dark')
        tab.run("location.hash = '#layer=1'")
        tab.settle()
        self.assertEqual(tab.complaints(), [])

    def test_the_numbers_of_a_head_go_below_one_another_in_a_narrow_window(self):
        tab = self.tab('narrow', at='#head=1.3')
        left = tab.run("[...document.querySelectorAll('#numbers table')].map((e) => e.getBoundingClientRect().left)")
        self.assertEqual(left, left[:1] * 2)

    def test_a_telephone_shows_the_page_in_its_own_width(self):
        self.assertEqual(self.tab('narrow').run('[innerWidth, visualViewport.scale]'), [390, 1])

    def test_on_paper_there_are_no_controls(self):
        tab = self.at('#sample=1')
        seen = """['nav', '.controls', '#cards', 'figure', '#grid'].map((one) =>
            [...document.querySelectorAll(one)].some((e) => e.checkVisibility()))"""
        self.assertEqual(tab.run(seen), [True] * 5)
        tab.call('Emulation.setEmulatedMedia', media='print')
        self.assertEqual(tab.run(seen), [False, False, True, True, True])
        self.assertEqual(self.style(tab, '.cell', 'print-color-adjust'), 'exact')
        tab.call('Emulation.setEmulatedMedia', media='')
        tab.set_theme('light')

    def test_the_map_follows_the_theme(self):
        tab = self.tab(at='#sample=1&head=0.0&query=5')
        pixel = """((x, y) => [...byId('map').getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3))
            (Math.round(map.x(13.5)), Math.round(map.y(0.5)))"""
        key = "[...document.querySelector('#head .key canvas').getContext('2d').getImageData(0, 0, 1, 1).data].slice(0, 3)"
        colour = lambda: [int(tab.run("getComputedStyle(document.documentElement).getPropertyValue('--map').trim()")[at:at + 2], 16)
                          for at in (1, 3, 5)]
        for theme in ('light', 'dark'):
            tab.set_theme(theme)
            tab.settle()
            self.assertEqual(tab.run(pixel), colour(), theme)
            self.assertEqual(tab.run(key), colour(), theme)
            none = tab.run("document.querySelector('.role-key li:last-child .swatch').style.backgroundColor.match(/\\d+/g).map(Number)")
            self.assertEqual(none, colour(), theme)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
