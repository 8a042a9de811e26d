"""live_walk_test.py CHROMIUM POLYHEAD FOLDER: a random walk through the live page. After every step all that it shows is
compared with what the server says, which is asked beside the page, and with gates and texts that are kept here a second
time; the address, opened anew, must come to the same.
"""
import json
import random
import re
import unittest
import urllib.parse
import urllib.request

import live_page_test
from live_page_test import FOLDER, Live  # who knows where the viewer's tests are
import expected
import walk_test

STEPS, SEEDS = 45, (3, 8)
TEXTS = ['the road', 'one two three', "it's a <b>road</b>", 'it was the best of times, it was the worst', 'a']
COLOURS = ['role', 'changed', 'entropy (nats)', 'mean distance', 'induction']

OUTCOME = '''(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)], text = (one) => one.textContent;
  const body = byId('outcome-body'), divs = all(':scope > div', body);
  return {name: text(byId('outcome-name')), sides: (divs.length ? divs : [body]).map((one) => ({
    title: all('h4', one).map(text).join(), columns: all('.predictions thead tr > *', one).map(text),
    rows: all('.predictions tbody tr', one).map((row) => [...[...row.cells].map(text),
      parseFloat(row.querySelector('.chance span').style.width).toFixed(2),
      row.querySelector('.chance i') ? parseFloat(row.querySelector('.chance i').style.left).toFixed(2) : null]),
    gone: all('.hint', one).map(text).filter((words) => words.startsWith('No longer')).join(),
    total: all('.total', one).map(text).join()}))};
})()'''
SWITCHES = '''({off: gates.text(), switched: byId('switched').textContent, command: byId('command').textContent,
  disabled: ['undo', 'redo', 'all-on', 'change'].map((id) => byId(id).disabled), gate: byId('gate').value,
  shown: byId('gate').nextElementSibling.textContent, toggle: byId('toggle').textContent,
  text: byId('text').value, versus: byId('versus').value, checked: byId('change').checked, status: byId('status').textContent})'''


class Gates:
    """Those that are not 1, by head, and what was done to them."""

    def __init__(self, values=()):
        self.values, self.past, self.future = dict(values), [], []

    def step(self, *changes):
        """All of them are one step to undo."""
        self.past.append(self.values)
        for change in changes:
            values = {**self.values, **change}
            self.values = {key: value for key, value in values.items() if value != 1}
        self.future = []

    def toggle(self, keys):
        off = all(self.values.get(key, 1) == 0 for key in keys)
        self.step({key: 1 if off else 0 for key in keys})

    def go(self, back):
        source, target = (self.past, self.future) if back else (self.future, self.past)
        if source:
            target.append(self.values)
            self.values = source.pop()

    def mark(self, key):
        value = self.values.get(key, 1)
        return '×' if value == 0 else '' if value == 1 else f'{value:g}'

    def text(self):
        return ','.join(key if value == 0 else f'{key}:{value:g}' for key, value in self.values.items())

    def list(self):
        return [[*map(int, key.split('.')), value] for key, value in self.values.items()]


class LivePage(expected.Page):
    """A live page compares its two sides unless told otherwise, and its gates are marked."""

    def __init__(self, walk):
        super().__init__(walk.models(), walk.state, walk.palette)
        self.walk, self.gates = walk, walk.gates

    def other(self):
        at = self.state['against']
        if len(self.models) < 2 or at == 'none':
            return None
        return self.models[1 - int(self.state['model'])]

    def before(self):
        """Of the whole model, for colouring by the change; None where the numbers themselves are shown."""
        if not self.state['change'] or not self.gates.values or self.colour in ('role', 'changed', 'map', 'importance', 'damage'):
            return None
        return {expected.key(head): head for head in self.model['whole']['heads']}

    def value(self, head):
        if self.other() or not self.before():
            return super().value(head)
        colour = self.colour
        return expected.measured(head, colour) - expected.measured(self.before()[expected.key(head)], colour)

    def say(self, head):
        said, mark = super().say(head), self.gates.mark(expected.key(head))
        if self.before() and not self.other():
            said = said.replace(f', {self.colour} ', f', {self.colour}, change ')
        return said + ('' if mark == '' else ', off' if mark == '×' else f', gate {mark}')

    def cells(self):
        return [{**cell, 'mark': self.gates.mark(cell['head']) or cell['mark'],
                 'pruned': self.gates.mark(cell['head']) != ''} for cell in super().cells()]

    def legend(self):
        count = len(self.roles()) if self.colour in ('role', 'changed') else 0
        return [words + ('off / on' if at < count else '') for at, words in enumerate(super().legend())]

    def shades(self, sample):
        shades = super().shades(sample)
        if not sample['before'] or 'losses' not in sample:
            return shades
        losses, before = sample['losses'], sample['before']['losses']
        return shades[:1] + [self.palette.shade(2 * (now - then), -8, 8) for now, then in zip(losses, before)]

    def token_note(self):
        note, at, before = super().token_note(), self.chosen_token(), self.sample['before']
        if not before or at == 0:  # nothing is known of the first token
            return note
        change = self.sample['losses'][at - 1] - before['losses'][at - 1]
        return note.split('. The')[0] + f', {expected.signed(change)} against the whole model. The shade is the change of the loss.'

    def weights(self, sample, head):
        tokens, bytes_ = len(sample['tokens']), self.walk.head(sample, head)
        return [list(bytes_[at:at + tokens]) for at in range(0, len(bytes_), tokens)]

    # --- what comes next

    def outcome(self):
        at, other = self.chosen_token(), self.other_sample()
        if not other:
            return {'name': self.title(self.sample, at), 'sides': [self.side(self.sample, at, '')]}
        back = len(self.sample['tokens']) - 1 - at
        same = len(self.sample['tokens']) == len(other['tokens'])
        place = at if same else max(0, len(other['tokens']) - 1 - back)
        pairs = ((self.sample, self.model['name'], at), (other, self.other()['name'], place))
        return {'name': 'Side by side',
                'sides': [self.side(one, index, f'{name}: {self.title(one, index)}') for one, name, index in pairs]}

    def title(self, sample, at):
        return f"Next, after {sample['tokens'][at]} ({at})"

    def side(self, sample, at, title):
        before = sample['before']
        was = dict(map(tuple, before['predictions'][at])) if before else {}
        rows = []
        for token, share in sample['predictions'][at]:
            change = [expected.signed(100 * (share - was[token]), 1) if token in was else 'new'] if before else []
            rows.append([token, '', f'{100 * share:.{2 if share < 0.0995 else 1}f} %', *change, f'{100 * share:.2f}',
                         f'{100 * was[token]:.2f}' if token in was else None])
        now = [token for token, _ in sample['predictions'][at]]
        gone = [token for token in was if token not in now]
        mean = lambda one: sum(one['losses']) / len(one['losses'])
        total = ''
        if 'losses' in sample:
            change = f' ({expected.signed(mean(sample) - mean(before))} against the whole model)' if before else ''
            total = f'Mean loss of the text {mean(sample):.3f} nats{change}'
        return {'title': title, 'rows': rows, 'gone': 'No longer among the likeliest: ' + ' '.join(gone) if gone else '',
                'columns': ['token', '', 'probability', *(['change, points'] if before else [])], 'total': total}


class Walk(Live):
    model, maxDiff = 'gpt', 2000

    def ask(self, what, **question):
        """What the server says, asked once."""
        name = what + json.dumps(question)
        if name not in self.asked:
            request = urllib.request.Request(urllib.parse.urljoin(self.address, what), json.dumps(question).encode(),
                                             {'Content-Type': 'application/json'})
            with urllib.request.urlopen(request) as answer:
                body = answer.read()
            self.asked[name] = body if what == 'head' else json.loads(body)
        return self.asked[name]

    def begin(self, seed):
        self.rng, self.asked, self.gates = random.Random(seed), {}, Gates()
        self.open_tab = self.tab()
        self.example = self.open_tab.run('data.live.examples[0].text')
        self.text, self.versus = self.example, ''
        self.state = {**expected.DEFAULTS, 'change': ''}
        self.ranked = {}  # by text
        names = ['--map', '--shade', '--cold']
        self.palette = expected.Palette(self.open_tab.run(f'''Object.fromEntries({json.dumps(names)}.map((name) => [name,
            getComputedStyle(document.documentElement).getPropertyValue(name).trim()]))'''))

    def models(self):
        """Roles are those of the whole model, numbers those of now."""
        texts, made = [self.text, *([self.versus] if self.versus else [])], []
        for at, text in enumerate(texts):
            whole = self.ask('read', text=text, model=0)
            now = self.ask('read', text=text, model=0, gates=self.gates.list()) if self.gates.values else whole
            heads = []
            for i, (one, all_on) in enumerate(zip(now['heads'], whole['heads'])):
                head = {name: value for name, value in one.items() if name not in ('role', 'score')}
                head.update({name: all_on[name] for name in ('role', 'score') if name in all_on})
                if self.ranked.get(at):
                    head.update({name: self.ranked[at][field][i] for name, field in (('importance', 'gradient'), ('damage', 'damage'))})
                heads.append(head)
            gates = self.gates.list()
            before = {**whole['samples'][0], 'text': text, 'gates': []} if gates else None
            sample = {**now['samples'][0], 'before': before, 'text': text, 'gates': gates}
            name = ('first text', 'second text')[at] if self.versus else now['name']
            made.append({'name': name, 'heads': heads, 'samples': [sample], 'whole': whole})
        return made

    def head(self, sample, head):
        return self.ask('head', text=sample['text'], model=0, gates=sample['gates'], head=[head['layer'], head['head']])

    def page(self):
        return LivePage(self)

    # --- steps

    def keys(self):
        return [expected.key(head) for head in self.page().heads]

    def press(self, script):
        self.open_tab.run(script + '; null')
        self.wait(self.open_tab)

    def cell(self):
        key = self.rng.choice(self.keys())
        self.press(f'''document.querySelector('.cell[data-head="{key}"]').dispatchEvent(
            new MouseEvent('click', {{bubbles: true, shiftKey: true}}))''')
        self.gates.toggle([key])

    def line(self):
        """A whole layer, or a column."""
        part, at = self.rng.choice([(0, 'tbody tr:nth-child({}) .line'), (1, 'thead th:nth-child({}) .line')])
        number = self.rng.randrange(3 + part)
        self.press(f"document.querySelector('#grid {at.format(number + 1 + part)}').click()")
        self.gates.toggle([key for key in self.keys() if int(key.split('.')[part]) == number])

    def role(self):
        if self.page().colour not in ('role', 'changed'):
            return
        page, at = self.page(), self.rng.randrange(len(self.page().roles()))
        self.press(f"document.querySelectorAll('.role-key button')[{at}].click()")
        self.gates.toggle([expected.key(head) for head in page.heads if expected.role(head) == page.roles()[at][0]])

    def undo(self):
        back = self.rng.random() < 0.6
        self.press(f"byId('{'undo' if back else 'redo'}').click()")
        self.gates.go(back)

    def all_on(self):
        if self.gates.values:
            self.press("byId('all-on').click()")
            self.gates.step({key: 1 for key in self.gates.values})

    def write(self):
        self.token()  # which another text does not have
        self.text = self.rng.choice([one for one in [*TEXTS, self.example] if one != self.text])
        self.type(self.open_tab, self.text)
        self.state['token'] = ''
        self.ranked.pop(0, None)
        self.settle_state()

    def write_versus(self):
        self.versus = self.rng.choice([one for one in [*TEXTS, '', ''] if one != self.versus])
        self.type(self.open_tab, self.versus, 'versus')
        self.ranked.pop(1, None)
        if not self.versus:
            self.state.update(model='0', against='')
        self.settle_state()

    def rank(self):
        at = int(self.state['model'])
        self.press("byId('rank').click()")
        self.wait(self.open_tab, "byId('ranking').textContent.startsWith('Ranked')")
        text = self.versus if at else self.text
        self.asked.pop('rank' + json.dumps({'text': text, 'model': 0}), None)
        self.ranked[at] = self.ask('rank', text=text, model=0)
        self.state['colour'] = 'damage'

    def settle_state(self):
        if self.state['colour'] and self.state['colour'] not in [name for name, _ in self.page().measures()]:
            self.state['colour'] = ''

    def choose(self):
        """The side that is looked at, or what it is compared with."""
        name = self.rng.choice(['model', 'against'])
        values = {'model': ['0', '1'], 'against': ['', 'none']}[name] if self.versus else ['0' if name == 'model' else '']
        value = self.rng.choice(values)
        self.press(f'''controls.elements.{name}.value = '{value}';
            controls.elements.{name}.dispatchEvent(new Event('change', {{bubbles: true}}))''')
        self.state[name] = value
        if name == 'model':
            self.state.update(token='', against='')
        self.settle_state()

    def colour(self):
        known = [name for name, _ in self.page().measures()]
        value = self.rng.choice([name for name in [*COLOURS, 'damage', 'importance'] if name in known])
        self.press(f'''byId('colour').value = {json.dumps(value)};
            byId('colour').dispatchEvent(new Event('change', {{bubbles: true}}))''')
        self.state['colour'] = '' if value == ('changed' if self.page().base() else 'role') else value

    def change(self):
        if self.gates.values:
            self.state['change'] = '' if self.state['change'] else '1'
            self.press("byId('change').click()")

    def token(self):
        page = self.page()
        index = self.rng.randrange(len(page.sample['tokens']))
        self.press(f"document.querySelectorAll('#tokens button')[{index}].click()")
        self.state['token'] = '' if index == len(page.sample['tokens']) - 1 else str(index)

    def open_head(self):
        """And turns its gate, or switches it, there."""
        key = self.rng.choice(self.keys())
        self.press(f'''document.querySelector('.cell[data-head="{key}"]').click()''')
        self.state['head'] = key
        self.expect_all(f'with {key} open')
        if self.rng.random() < 0.5:
            self.press("byId('toggle').click()")
            self.gates.toggle([key])
        else:
            values = [self.rng.randrange(41) / 20 for _ in range(3)]
            self.press(f'''for (const value of {values}) Object.assign(byId('gate'), {{value}}).dispatchEvent(new Event('input'));
                byId('gate').dispatchEvent(new Event('change'))''')
            self.gates.step(*({key: value} for value in values))
        self.expect_all(f'with {key} open, {self.gates.text()}')
        self.press("byId('close').click()")
        self.state.update(head='', query='')

    def reopen(self):
        self.press('writeAddress(false)')
        address = self.open_tab.run('location.hash')
        self.open_tab.open('about:blank')
        self.open_tab.open(self.address + address)
        self.wait(self.open_tab)
        self.gates, self.ranked = Gates(self.gates.values), {}
        self.settle_state()

    # --- what is seen

    def switches(self):
        values, all_heads = self.gates.values, len(self.keys())
        off = sum(value == 0 for value in values.values())
        turned = f', {len(values) - off} turned' if len(values) > off else ''
        quoted = lambda text: text if re.fullmatch(r'[\w./-]+', text, re.ASCII) else "'" + text.replace("'", "'\\''") + "'"
        command = f'polyhead view {quoted(str(FOLDER / self.model))} --prompt {quoted(self.text)}' + \
            (f' --versus {quoted(self.versus)}' if self.versus not in ('', self.text) else '') + \
            (f' --off {self.gates.text()}' if values else '')
        gate = values.get(self.state['head'], 1)
        return {'off': self.gates.text(), 'command': command, 'text': self.text, 'versus': self.versus,
                'switched': f'{off} of {all_heads} heads off{turned}.' if values else f'All {all_heads} heads are on.',
                'disabled': [not self.gates.past, not self.gates.future, not values, not values],
                'checked': bool(self.state['change']),
                **({'gate': f'{gate:g}', 'shown': f'{gate:.2f}', 'toggle': 'Switch off' if gate else 'Switch on'}
                   if self.state['head'] else {})}

    def expect_all(self, where):
        tab, page = self.open_tab, self.page()
        if self.state['head']:
            self.wait(tab, f"map.sample === currentSample() && map.matrix !== null && state.head === '{self.state['head']}'")
            if page.other():
                self.wait(tab, f"byId('other-name').textContent === {json.dumps(page.other()['name'])}")
        self.until_found(tab)
        tab.settle()
        found, switches = tab.run(walk_test.READ), tab.run(SWITCHES)
        self.assertRegex(switches.pop('status'), rf"^{len(self.models()[0]['samples'][0]['tokens'])} tokens?, read in \d+ ms$")
        by_role = page.colour == 'role'
        least, most = (0, 1) if by_role else expected.extent([page.value(head) for head in page.heads])
        wanted = {
            'measures': [[list(pair) for pair in page.measures()], page.colour], 'cells': page.cells(),
            'legend': page.legend(), 'listed': page.listed(), 'tokens': page.tokens(), 'tokenNote': page.token_note(),
            'otherTokens': page.other_tokens(), 'dialog': page.dialog(),
            'swatches': [expected.role_colour(name) for name, _ in page.roles()] if page.colour in ('role', 'changed') else [],
            'scale': [] if by_role or page.colour == 'map' else [[[self.palette.shade(least + (most - least) * x / 255, least, most) for x in range(256)]]]}
        for name, value in wanted.items():
            self.assertEqual(found[name], json.loads(json.dumps(value)), f'{name}, {where}')
        self.assertEqual(tab.run(OUTCOME), json.loads(json.dumps(page.outcome())), f'outcome, {where}')
        wanted = self.switches()
        self.assertEqual({name: switches[name] for name in wanted}, wanted, f'switches, {where}')
        address = dict(urllib.parse.parse_qsl(found['address'][1:]))
        told = {'off': self.gates.text(), 'versus': self.versus, 'text': '' if self.text == self.example else self.text,
                **{name: self.state[name] for name in ('token', 'change', 'head')}}
        self.assertEqual({name: address.get(name, '') for name in told}, told, f'address, {where}')

    def test_every_step_shows_what_the_server_says(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.begin(seed)
                self.walk()

    def walk(self):
        self.expect_all('at first')
        steps = [self.cell, self.cell, self.line, self.role, self.undo, self.undo, self.undo, self.all_on, self.write,
                 self.write_versus, self.rank, self.choose, self.choose, self.choose, self.colour, self.colour,
                 self.change, self.change, self.token, self.open_head, self.open_head, self.reopen]
        for number in range(STEPS):
            step = self.rng.choice(steps)
            step()
            self.expect_all(f'step {number}: {step.__name__}, {self.state}, {self.gates.text()}')
        own = 'willReadFrequently'  # Chromium's word on how often pixels are read here
        self.assertEqual([one for one in self.open_tab.complaints() if own not in one], [])


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
