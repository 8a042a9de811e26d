"""live_use_test.py CHROMIUM POLYHEAD FOLDER: the live page under keys and clicks, what it asks the server and when, what it
says when the server is slow, busy, wrong or gone, and all that a screen reader says of it, which is in said.txt.
"""
import json
import pathlib
import time
import unittest

import live_page_test
from live_page_test import FOLDER, Live  # who knows where the viewer's tests are
import expected
import said

HERE = pathlib.Path(__file__).parent
ALT, CONTROL, META, SHIFT = 1, 2, 4, 8

# Every question to the server is written down; answers can be put in its place.
LISTEN = '''(() => {
    const ask = window.fetch;
    Object.assign(window, {asked: [], answers: [], waits: [], signal: null});
    window.fetch = async (what, options) => {
        asked.push([what, JSON.parse(options.body)]);
        window.signal = options.signal ?? window.signal;
        const answer = answers.length && (answers[0]?.of ?? what) === what ? answers.shift() : null;
        if (answer === null) return ask(what, options);
        if (answer.gone) throw new TypeError('Failed to fetch');
        return new Response(answer.body ?? JSON.stringify(answer.json), {status: answer.status ?? 200});
    };
})()'''


class Use(Live):
    model = 'gpt'

    def opened(self, at=''):
        tab = self.tab(at=at)
        tab.run(LISTEN)
        return tab

    def take(self, tab, key, modifiers=0):
        taken = tab.take(key, modifiers)
        self.wait(tab)
        return taken

    def off(self, tab):
        return tab.run("[...document.querySelectorAll('.cell')].filter((e) => e.dataset.mark === '×').map((e) => e.dataset.head)")

    # --- keys and clicks

    def test_keys(self):
        tab = self.opened()
        tab.run("document.querySelector('.cell[data-head=\"1.1\"]').focus()")
        self.assertTrue(self.take(tab, ' '))
        self.assertEqual(self.off(tab), ['1.1'])
        for key, modifiers, left in (('z', CONTROL, []), ('Z', CONTROL | SHIFT, ['1.1']), ('z', META, []), ('z', META | SHIFT, ['1.1'])):
            self.assertTrue(self.take(tab, key, modifiers), key)
            self.assertEqual(self.off(tab), left, (key, modifiers))
        for key, modifiers in (('z', 0), ('z', ALT), ('y', CONTROL), ('x', 0)):
            self.assertFalse(self.take(tab, key, modifiers))
            self.assertEqual(self.off(tab), ['1.1'])
        for field in ('text', 'versus', 'change'):
            tab.run(f"byId('{field}').focus()")
            self.assertFalse(self.take(tab, 'z', CONTROL), 'what is typed has an undo of its own')
            self.assertFalse(self.take(tab, ' '))
        self.assertEqual(self.off(tab), ['1.1'])
        tab.run("byId('undo').focus()")
        self.assertFalse(self.take(tab, ' '))
        self.assertEqual(self.off(tab), [], 'a button is pressed by it')
        self.click(tab, '#redo')
        self.click(tab, '.cell[data-head="1.1"]')
        self.wait(tab, 'map.matrix !== null')
        self.assertTrue(self.take(tab, 'z', CONTROL), 'in a head, too')
        self.assertEqual(self.off(tab), [])
        tab.run("byId('gate').focus()")
        for key in ('ArrowLeft', 'ArrowRight', 'ArrowUp'):
            self.assertFalse(self.take(tab, key), 'it turns the gate')
            self.assertEqual(tab.text('#head-name'), 'Layer 1 · head 1')
        tab.run("byId('toggle').focus()")
        self.assertTrue(self.take(tab, 'ArrowRight'))
        self.assertEqual(tab.text('#head-name'), 'Layer 1 · head 2')

    def test_a_click_with_a_key_switches_a_head(self):
        tab = self.opened()
        for name in ('shiftKey', 'ctrlKey', 'metaKey'):
            for left in (['0.1'], []):
                tab.run(f"""document.querySelector('.cell[data-head="0.1"]').dispatchEvent(
                    new MouseEvent('click', {{bubbles: true, {name}: true}})); null""")
                self.wait(tab)
                self.assertEqual([self.off(tab), tab.run('dialog.open')], [left, False], name)
        tab.run("""document.querySelector('.cell[data-head="0.1"]').dispatchEvent(
            new MouseEvent('click', {bubbles: true, altKey: true})); null""")
        self.assertTrue(tab.run('dialog.open'))

    def test_undo_and_redo_have_their_ends(self):
        tab = self.opened()
        states = "['undo', 'redo', 'all-on', 'change'].map((id) => byId(id).disabled)"
        self.assertEqual(tab.run(states), [True, True, True, True])
        tab.run('gates.undo(); gates.redo(); null')
        self.wait(tab)
        self.click(tab, '#grid tbody tr:nth-child(1) .line')
        self.assertEqual(self.off(tab), ['0.0', '0.1', '0.2', '0.3'])
        self.assertEqual(tab.run(states), [False, True, False, False])
        self.click(tab, '#grid tbody tr:nth-child(1) .line')
        self.assertEqual([self.off(tab), tab.run(states)], [[], [False, True, True, True]])
        self.click(tab, '#undo')
        self.click(tab, '#undo')
        self.assertEqual(tab.run(states), [True, False, True, True])
        self.click(tab, '#redo')
        self.click(tab, '#grid thead th:nth-child(2) .line')
        self.assertEqual([self.off(tab), tab.run(states)], [['0.0', '0.1', '0.2', '0.3', '1.0', '2.0'], [False, True, False, False]])

    def test_turning_a_gate_is_one_step(self):
        tab = self.opened('#head=0.1')

        def turn(*values):
            tab.run(f"""for (const value of {list(values)}) Object.assign(byId('gate'), {{value}})
                .dispatchEvent(new Event('input')); null""")
            self.wait(tab)

        turn(0.5, 0.4)
        for go, turned, left in (('undo', (), ''), (None, (0.25, 0.2), '0.1:0.2'), ('undo', (), ''), ('redo', (), '0.1:0.2'),
                                 (None, (0.7,), '0.1:0.7'), ('undo', (), '0.1:0.2'), ('undo', (), '')):
            turn(*turned)
            if go:
                tab.run(f"byId('{go}').click(); null")
            self.wait(tab)
            self.assertEqual(tab.run('gates.text()'), left, (go, turned))

    def test_a_switch_after_a_gate_is_a_step_of_its_own(self):
        tab = self.opened('#head=0.1')
        tab.run("Object.assign(byId('gate'), {value: 0.5}).dispatchEvent(new Event('input')); byId('toggle').click(); null")
        for left in ('0.1', '0.1:0.5', ''):
            self.wait(tab)
            self.assertEqual(tab.run('gates.text()'), left)
            tab.run('gates.undo(); null')

    def test_back_goes_over_no_switch_and_no_text(self):
        tab = self.opened('#off=0.1')
        steps = tab.run('history.length')
        self.click(tab, '#change')
        tab.run('gates.toggle([currentModel().heads[2]]); null')
        self.type(tab, 'one two')
        self.type(tab, 'three', 'versus')
        self.assertEqual(tab.run('[history.length, location.hash]'), [steps, '#text=one+two&off=0.1%2C0.2&versus=three&change=1'])

    # --- what is asked

    def test_while_one_types_nothing_is_asked(self):
        tab = self.opened()
        self.assertEqual(tab.run("""(() => {
            const timers = new Map();
            let count = 0;
            window.setTimeout = (act, wait) => (timers.set(++count, wait), count);
            window.clearTimeout = (timer) => timers.delete(timer);
            for (const id of ['text', 'text', 'versus', 'text', 'versus']) byId(id).dispatchEvent(new Event('input'));
            return [[...timers], asked];
        })()"""), [[[4, 350], [5, 350]], []], 'only the last key of each field starts a question')

    def test_what_is_known_is_not_asked_again(self):
        tab = self.opened()
        asked = lambda: [what for what, _ in tab.run('asked')]
        tab.run("gates.toggle([currentModel().heads[0]]); null")
        self.wait(tab)
        self.wait(tab, 'look.matrix !== null')
        self.until_found(tab)
        self.assertEqual([asked()[0], set(asked()[1:])], ['read', {'layer'}], 'the whole model is known')
        self.assertEqual(tab.run('asked')[0][1]['gates'], [[0, 0, 0]])
        for times in range(2):
            self.click(tab, '.cell[data-head="1.2"]')
            self.wait(tab, "map.matrix !== null && state.head === '1.2'")
            tab.run("byId('close').click(); null")
            tab.settle()
        layers = [(about['layer'], about['gates'] != []) for what, about in tab.run('asked') if what == 'layer']
        self.assertEqual(len(layers), len(set(layers)), 'its weights are known')
        self.assertEqual({layer for layer, off in layers if off}, {0, 1, 2}, 'those of all heads, to see what changed')
        self.assertEqual({about['text'] for _, about in tab.run('asked')}, {tab.run("byId('text').value")})
        tab.run("asked.length = 0; gates.toggle([currentModel().heads[0]]); null")
        self.wait(tab)
        self.assertNotIn('read', asked(), 'all on is known, too')

    def test_a_map_has_the_gates_that_its_model_was_read_with(self):
        """A head is switched off and, before that is answered, another one pointed at: what is kept with the whole model is its own."""
        tab = self.opened()
        layer = tab.run("""(() => { const sample = currentSample(), head = currentModel().heads.find((one) => !sample.kept?.has(keyOf(one)));
            gates.toggle([currentModel().heads[0]]); sides.matrix(sample, head); return head.layer; })()""")
        self.wait(tab)
        asked = [about['gates'] for what, about in tab.run('asked') if what == 'layer' and about['layer'] == layer]
        self.assertEqual(asked[0], [])

    def test_one_question_at_a_time_and_the_last_one_counts(self):
        tab = self.opened()
        tab.run("""(() => { const fetch = window.fetch; window.open = 0; window.most = 0;
            window.fetch = async (...all) => { if (all[0] !== 'read') return fetch(...all); most = Math.max(most, ++open); const found = await fetch(...all);
                await new Promise((done) => setTimeout(done, 100)); --open; return found; }; })()""")
        tab.run("for (const text of ['one', 'one two', 'one two three']) { byId('text').value = text; live.onText(); }")
        self.wait(tab)
        self.assertEqual([question['text'] for what, question in tab.run('asked') if what == 'read'], ['one', 'one two three'])
        self.assertEqual(tab.run('[most, sides.all[0].text]'), [1, 'one two three'])
        # Letter by letter there is but one question.
        count = tab.run("""asked.length = 0; for (const text of ['a', 'a r', 'a road']) {
            byId('text').value = text; byId('text').dispatchEvent(new Event('input')); } asked.length""")
        self.assertEqual(count, 0, 'not before the end of a word')
        time.sleep(0.45)
        self.wait(tab)
        self.assertEqual([question['text'] for what, question in tab.run('asked') if what == 'read'], ['a road'])
        self.type(tab, '  \n ', 'versus')
        self.assertEqual([tab.run('sides.all.length'), tab.text('#status').split(',')[0]],
                         [1, f"{tab.run('currentSample().tokens.length')} tokens"])

    def test_a_server_that_is_busy_wrong_or_gone(self):
        tab = self.opened()
        tab.run("""(() => { const real = setTimeout; window.setTimeout = (act, wait) => { waits.push([wait, byId('status').textContent]);
            return real(act, wait === 250 ? 0 : wait); }; })()""")
        ask = lambda: (tab.run('waits.length = asked.length = 0; sides.all = []; live.read(); null'), self.wait(tab, '!live.reading'))
        says = lambda: tab.run("[byId('status').textContent, byId('status').classList.contains('wrong')]")
        busy = {'status': 503, 'json': {'error': 'busy'}}
        tab.run(f'answers = {json.dumps([busy, busy])}; null')
        ask()
        reads = "asked.filter(([what]) => what === 'read').length"
        self.assertEqual(tab.run(reads), 3)
        self.assertEqual(tab.run('waits.filter(([wait]) => wait === 250)'), [[250, 'The server is busy with other questions …']] * 2)
        self.assertRegex(says()[0], r'^\d+ tokens, read in \d+ ms$')
        for answers, words, count in (
                ([busy] * 30, 'busy', 21), ([{'status': 500, 'body': 'no'}], 'status 500', 1),
                ([{'status': 422, 'json': {'error': '[input] desk: what is wrong'}}], 'desk: what is wrong', 1),
                ([{'gone': True}], 'The server does not answer. Has it ended? Start polyhead serve again.', 1)):
            tab.run(f'answers = {json.dumps(answers)}; null')
            ask()
            self.assertEqual([*says(), tab.run(reads)], [words, True, count])
        tab.run('answers = []; null')
        ask()
        self.assertFalse(says()[1], 'and goes on')
        tab.run("answers = [null, {status: 422, json: {error: '[input] too long'}}]; state.versus = 'x'; null")
        ask()
        self.assertEqual(says(), ['The second text: [input] too long', True])
        tab.run("document.body.append(element('i', {id: 'cold'})); byId('cold').style.color = 'var(--cold)'; null")
        self.assertEqual(*tab.run("['status', 'cold'].map((id) => getComputedStyle(byId(id)).color)"))

    def test_an_address_that_changes_is_followed(self):
        tab = self.opened('#text=the+road&off=0.1&change=1&versus=a')
        tab.run("location.hash = '#text=one+two&off=1.1,2.2:0.5'")
        self.wait(tab)
        self.assertEqual(tab.run("[byId('text').value, byId('versus').value, byId('change').checked, gates.text(), data.models.length]"),
                         ['one two', '', False, '1.1,2.2:0.5', 1])
        tab.run("location.hash = '#versus=one&change=1'")
        self.wait(tab)
        self.assertEqual(tab.run("[byId('text').value === data.live.examples[0].text, byId('versus').value, byId('change').checked, gates.text()]"),
                         [True, 'one', True, ''])
        for given, left in (('0.0:2,0.1:0,1.0:0.05', '0.0:2,0.1,1.0:0.05'), ('0.0:2.05,0.1:-0.1,1.3:1,3.0,0.4,2.3', '2.3')):
            tab.run(f"location.hash = '#off={given}'")
            self.wait(tab)
            self.assertEqual(tab.run('gates.text()'), left)

    def test_an_address_that_names_a_section_says_nothing_else(self):
        tab = self.opened('#heads')
        self.assertEqual([tab.run("byId('versus').value"), tab.run('sides.all.length')], ['', 1], tab.text('#status'))

    def test_before_the_first_answer(self):
        tab = self.tab()
        tab.call('Page.addScriptToEvaluateOnNewDocument', source='window.fetch = () => new Promise(() => {})')
        tab.open(self.address)
        self.assertEqual([tab.text('#status'), tab.run('sides.whole')], ['Reading …', None])
        self.assertEqual(tab.run("['status', 'text', 'versus'].map((id) => byId(id).checkVisibility())"), [True, True, False])

    def test_there_are_no_cards(self):
        tab = self.opened()
        tab.run("byId('more').open = true")
        self.assertEqual(tab.run("""[byId('cards'), byId('count'), controls.elements.order, controls.elements.layer, byId('heads')]
            .map((e) => e.checkVisibility())"""), [False, False, False, True, True], 'a server keeps no weights for them')

    # --- ranking

    def test_ranking_says_how_far_it_is_and_can_be_stopped(self):
        tab = self.opened()
        says = "[byId('rank').textContent, byId('ranking').textContent, byId('colour').value]"
        count = 12
        part = {'done': 3, 'of': count, 'gradient': [i / 10 for i in range(count)],
                'damage': [0.5 if i < 3 else None for i in range(count)]}
        tab.run(f'answers = {json.dumps([{"of": "rank", "json": part}] * 40)}; null')
        tab.run("byId('rank').click(); null")
        self.wait(tab, "byId('ranking').textContent !== ''")
        self.assertEqual(tab.run(says), ['Stop ranking', '3 of 12 heads taken out in turn', 'role'])
        self.assertEqual(tab.run("[...byId('colour').options].map((o) => o.value)")[-2:], ['importance', 'damage'])
        self.assertEqual(tab.run('currentModel().heads.map((head) => head.importance)'), part['gradient'])
        tab.run("gates.toggle([currentModel().heads[2]]); null")
        self.wait(tab)
        self.until_found(tab)
        self.assertEqual(tab.run(says)[0], 'Stop ranking', 'the whole model is ranked, whatever is off')
        self.assertEqual(tab.run('currentModel().heads.map((head) => head.importance)'), part['gradient'])
        tab.run("byId('rank').click(); null")
        asked = tab.run('asked.length')
        self.assertEqual(tab.run(says), ['Rank heads', '', 'changed'])
        self.assertTrue(tab.run('signal.aborted'), 'what was asked is not waited for')
        time.sleep(0.5)
        self.assertEqual(tab.run('asked.length'), asked, 'nothing more is asked')
        whole = {**part, 'done': count, 'damage': [i / 100 for i in range(count)]}
        tab.run(f'answers = {json.dumps([{"json": part}, {"json": whole}])}; null')
        tab.run("byId('rank').click(); null")
        self.wait(tab, "byId('ranking').textContent.startsWith('Ranked')")
        self.assertEqual(tab.run(says), ['Rank heads', 'Ranked: colour by damage or importance.', 'damage'])
        self.assertEqual(tab.run('currentModel().heads.map((head) => head.damage)'), whole['damage'])
        self.assertIsNone(tab.run('ranking.underWay'))
        tab.run("byId('change').click(); null")
        for colour, values in (('importance', part['gradient']), ('damage', whole['damage'])):
            tab.run(f"byId('colour').value = '{colour}'; byId('colour').dispatchEvent(new Event('change')); null")
            labels = tab.run("[...document.querySelectorAll('.cell')].map((e) => e.ariaLabel)")
            for label, value in zip(labels, values, strict=True):
                self.assertIn(f', {colour} {expected.number(value)}', label, 'ranks are those of the whole model: they do not change')
        self.assertEqual(tab.run('asked.length'), asked + 2)
        self.assertEqual(tab.run('asked[asked.length - 1]'), ['rank', {'text': tab.run("byId('text').value"), 'model': 0}])
        self.type(tab, 'one two', 'versus')
        tab.run(f"""controls.elements.model.value = '1'; controls.elements.model.dispatchEvent(new Event('change', {{bubbles: true}}));
            answers = {json.dumps([{"json": whole}])}; byId('rank').click(); null""")
        self.wait(tab, "byId('ranking').textContent.startsWith('Ranked')")
        self.assertEqual(tab.run("asked.filter(([what]) => what === 'rank').at(-1)"), ['rank', {'text': 'one two', 'model': 0}],
                         'the side that is looked at')
        self.assertEqual(tab.run('data.models[1].heads.map((head) => head.damage)'), whole['damage'])
        tab.run("answers = [{status: 422, json: {error: 'no ranks'}}]; byId('rank').click(); null")
        self.wait(tab, "byId('ranking').textContent === 'no ranks'")
        self.assertEqual(tab.run(says)[0], 'Rank heads')
        self.assertEqual(tab.run(f"byId('rank').click(); {says}")[:2], ['Stop ranking', ''], 'nothing of the last one is left')
        tab.run("byId('rank').click(); null")
        time.sleep(0.1)
        self.assertEqual(tab.run(says)[:2], ['Rank heads', ''], 'that no answer came is no complaint')

    def test_a_ranking_that_was_stopped_leaves_the_next_one_alone(self):
        tab = self.opened()
        part = {'done': 3, 'of': 12, 'gradient': [0.1] * 12, 'damage': [0.5] * 3}
        tab.run(f'answers = {json.dumps([{"of": "rank", "json": part}] * 40)}; null')
        tab.run("byId('rank').click(); null")
        self.wait(tab, "byId('ranking').textContent !== ''")
        tab.run("byId('rank').click(); byId('rank').click(); null")
        self.wait(tab, 'asked.length >= 3')  # after a pause of the second; the first was pausing before
        self.assertEqual(tab.run("[byId('rank').textContent, ranking.underWay?.signal.aborted]"), ['Stop ranking', False])
        tab.run("byId('rank').click(); null")
        self.assertEqual(tab.run("[byId('rank').textContent, signal.aborted]"), ['Rank heads', True])

    # --- words

    def test_every_word_and_state(self):
        tab = self.opened('#text=the+road&off=0.1,1.2:0.5&versus=one+two')
        tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        self.until_found(tab)
        tab.settle()
        page = said.lines(tab, 'header, #asking, #choice, #tokens, #switches, #grid .line, #more, .role-key + .hint')
        self.assertEqual(said.lines(tab, '#outcome')[0], 'region "Side by side"')
        self.click(tab, '.cell[data-head="1.2"]')
        self.wait(tab, "map.matrix !== null && byId('other-name').textContent !== ''")
        said.expect(self, HERE / 'said.txt', {
            'the live page': [line.replace(str(FOLDER), 'FOLDER') for line in page],
            'a head': said.lines(tab, '#head-tools, #other-map')})


class OfTwoModels(Live):
    model, options = 'gpt', ('--compare', FOLDER / 'other-gpt')

    def test_the_second_text_is_the_first_unless_there_is_another(self):
        tab = self.tab()
        self.assertEqual(tab.run("byId('versus').placeholder"), 'The same text, unless another one is given')
        self.assertEqual(tab.run('sides.all.map(({text, model}) => [text, model])'),
                         [[tab.run("byId('text').value"), model] for model in (0, 1)])
        self.type(tab, 'one two', 'versus')
        self.assertEqual(tab.run('sides.all.map(({text, model}) => [text, model])'), [[tab.run("byId('text').value"), 0], ['one two', 1]])
        self.assertEqual(tab.run('data.models.map((model) => model.name)'), ['gpt', 'other-gpt'])


class OfAnEncoder(Live):
    model = 'encoder'

    def test_similarities(self):
        tab = self.tab(at='#off=0.1&versus=something+else')
        now, whole = ([one['samples'][0]['embedding'] for one in tab.run(f'sides.all.map((side) => side.{side})')]
                      for side in ('now', 'whole'))
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        cosine = lambda a, b: dot(a, b) / (dot(a, a) * dot(b, b)) ** 0.5
        change = expected.signed(cosine(*now) - cosine(*whole))
        words = tab.run("[...document.querySelectorAll('#outcome .total')].map((e) => e.textContent)")
        self.assertEqual(words, [*(f'Cosine distance {expected.number(1 - cosine(a, b))} from the whole model'
                                   for a, b in zip(now, whole)),
                                 f'Similarity of the two {cosine(*now):.3f} (cosine) ({change} against the whole model)'])
        for one, label in zip(now, tab.run("[...document.querySelectorAll('.strip')].map((e) => e.ariaLabel)"), strict=True):
            self.assertEqual(label, f'{len(one)} numbers, from {expected.number(min(one))} to {expected.number(max(one))}')
        self.assertEqual([line.split('"')[0] for line in said.lines(tab, '.strip')], ['image '] * 2)
        self.assertIn(f'The mean over all tokens: {len(now[0])} numbers, one hue below zero, the other above.', tab.text('#outcome'))
        tab.run("gates.step((values) => values.clear()); null")
        self.wait(tab)
        words = tab.run("[...document.querySelectorAll('#outcome .total')].map((e) => e.textContent)")
        self.assertEqual(words, [f'Similarity of the two {cosine(*whole):.3f} (cosine)'])


class OfAClassifier(Live):
    model = 'classifier'

    def test_classes_are_saved(self):
        tab = self.tab()
        tab.run("window.saved = {}; save.file = (name, type, content) => { saved[name] = content; }; null")
        tab.run("document.querySelectorAll('#outcome button[title^=Save]').forEach((button) => button.click())")
        likely = tab.run('currentSample().predictions[0]')
        self.assertEqual(json.loads(tab.run("saved['predictions.json']")),
                         [{'class': name, 'probability': share} for name, share in likely])


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
