"""The page a second time, in Python: what it must show of some data in some state."""
import decimal
import math
import pathlib
import re

ROLES = ['induction', 'first token', 'beta one']  # one that has a colour, one that is grey, one that is unknown
NONE = 'no clear role'
QUIET = ('first token', 'special token', 'separator', 'averaging')  # grey: there is little to see

# "induction": (on light paper, on dark paper), each [r, g, b], by the table in the page's style sheet.
STYLE = (pathlib.Path(__file__).parent.parent.parent / 'viewer/page.css').read_text()
COLOURS = {name: tuple([int(one[at:at + 2], 16) for at in (1, 3, 5)] for one in pair)
           for name, *pair in re.findall(r'--role-([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);', STYLE)}
DEFAULTS = {'model': '0', 'sample': '0', 'layer': '', 'role': '', 'least': '', 'order': 'layer', 'head': '', 'query': '',
            'colour': '', 'token': '', 'against': '', 'difference': ''}


def rounded(value):
    return math.floor(value + 0.5)


def digits(value, count):
    """As JavaScript says it: 0.5, not 0.50; 12, not 12.0; 0.00001, but 1e-7."""
    short = float(f'{value:.{count}g}')
    if short == int(short):
        return str(int(short))
    return f'{decimal.Decimal(repr(short)):f}' if abs(short) >= 1e-6 else repr(short).replace('e-0', 'e-')


def number(value):
    if value is None:
        return '–'
    if value == int(value) or abs(value) >= 1000:
        return f'{rounded(value):,}'.replace('-', '−')
    return digits(value, 3).replace('-', '−')


def signed(value, places=None):
    short = float(f'{value:.3g}' if places is None else f'{value:.{places}f}') + 0
    return ('+' if short > 0 else '') + number(short)


def key(head):
    return f"{head['layer']}.{head['head']}"


def role(head):
    return head.get('role') or NONE


def measured(head, name):
    if name in ('importance', 'damage'):
        return head.get(name)
    return head.get('statistics', {}).get(name, head.get('roles', {}).get(name))


def role_colour(name, theme='light'):
    name = 'none' if name == NONE else name.replace(' ', '-')
    return COLOURS.get(name, COLOURS['other'])[theme == 'dark']


def short(name):
    if name == NONE or name in QUIET:
        return ''
    words = name.replace('-', ' ').split()
    return words[0][0] + words[1][0] if len(words) > 1 else name[:2]


def weight_text(weight):
    return f'{weight:.2f}' if weight >= 0.1 else f'{weight:.3f}'


class Palette:
    """The theme's colours, read from the page, and shades between them."""

    def __init__(self, colours):
        self.colours = {name: [int(text[at:at + 2], 16) for at in (1, 3, 5)] for name, text in colours.items()}

    def towards(self, ink, byte):
        return [rounded(low + byte / 255 * (high - low)) for low, high in zip(self.colours['--map'], self.colours[ink])]

    def shade(self, value, least, most):
        if value is None:
            return self.towards('--shade', 0)
        share = value / least if value < 0 else value / most
        return self.towards('--cold' if value < 0 else '--shade', rounded(255 * max(0, min(1, share))))


def extent(values):
    known = [value for value in values if value is not None]
    most, least = max([1e-9, *known]), min([0, *known])
    return (min(least, -most), max(most, -least)) if least < 0 else (0, most)


class Page:
    """What a state of the data must look like."""

    def __init__(self, data, state, palette):
        self.models, self.state, self.palette = data, state, palette
        self.model = data[int(state['model'])]
        self.sample = self.model['samples'][int(state['sample'])]
        self.heads = self.model['heads']

    def others(self):
        names = [key(head) for head in self.heads]
        return [(i, one) for i, one in enumerate(self.models)
                if one is not self.model and [key(head) for head in one['heads']] == names]

    def other(self):
        return next((one for i, one in self.others() if str(i) == self.state['against']), None)

    def other_sample(self):
        other = self.other()
        return other and other['samples'][min(int(self.state['sample']), len(other['samples']) - 1)]

    def partner(self, head):
        return next(one for one in self.other()['heads'] if key(one) == key(head))

    def shown(self):
        state, highest = self.state, max([0] + [head.get('importance', 0) for head in self.heads])
        heads = [head for head in self.heads
                 if state['layer'] in ('', str(head['layer'])) and state['role'] in ('', role(head)) and
                 (not state['least'] or head.get('importance', 0) >= float(state['least']) * highest)]
        place = lambda head: (head['layer'], head['head'])
        orders = {'layer': place, 'role': lambda head: (role(head), -head.get('score', 0), *place(head)),
                  'importance': lambda head: (-head.get('importance', -math.inf), *place(head)),
                  'damage': lambda head: (-head.get('damage', -math.inf), *place(head))}
        return sorted(heads, key=orders[state['order']])

    # --- what changed

    def base(self):
        """The sample that this one is compared with, if there is one and neither has too many weights."""
        other = self.other_sample() or self.sample.get('before')
        size = lambda one: len(one['tokens']) * len(one.get('key_tokens') or one['tokens']) * len(self.heads)
        if not other or any('key_tokens' in one or size(one) > 16 << 20 for one in (self.sample, other)):
            return None
        return other

    @property
    def colour(self):
        return self.state['colour'] or ('changed' if self.base() else 'role')

    def colour_name(self):
        return 'attention changed' if self.colour == 'changed' else self.colour

    def change(self, head):
        """Of the queries that both have, how much of the weight lies elsewhere."""
        one, other = self.sample['tokens'], self.base()['tokens']
        rows, then = self.weights(self.sample, head), self.weights(self.base(), head)
        if rows is None or then is None:
            return None
        pairs = [(i, i) for i in range(len(one))]
        if len(one) != len(other):
            least = min(len(one), len(other))
            first = next((i for i in range(least) if one[i] != other[i]), least)
            last = next((i for i in range(least - first) if one[-1 - i] != other[-1 - i]), least - first)
            pairs = [(i, i) for i in range(first)] + [(len(one) - i, len(other) - i) for i in range(last, 0, -1)]
        if not pairs:
            return None
        weight, total = lambda byte: (byte / 255) ** 2, 0
        for query, place in pairs:
            apart = [weight(rows[query][key]) - weight(then[place][at]) for key, at in pairs]
            total += sum(map(abs, apart))
            if len(pairs) < len(one) or len(pairs) < len(other):
                total += abs(sum(apart))
        return min(1, total / 2 / len(pairs))

    def changed_most(self):
        changes = [(head, self.change(head)) for head in self.heads]
        return sorted((one for one in changes if (one[1] or 0) > 0.0005), key=lambda one: -one[1])[:10]

    def base_name(self):
        return self.other()['name'] if self.other() else 'the whole model'

    # --- the controls

    def measures(self):
        names = lambda field: list(dict.fromkeys(name for head in self.heads for name in head.get(field, {})))
        known = [name for name in ('importance', 'damage') if any(name in head for head in self.heads)]
        maps = len(self.heads) * len(self.sample['tokens']) ** 2 <= 64 << 20
        return [('role', 'role'), *([('changed', 'attention changed')] if self.base() else []), *([('map', 'small maps')] if maps else []), *((name, name) for name in names('statistics')),
                *((name, f'role score: {name}') for name in names('roles')), *((name, name) for name in known)]

    def choices(self):
        """Of every control: its values and texts, and whether it is offered."""
        known = lambda name: any(name in head for head in self.heads)
        layers, roles = sorted({head['layer'] for head in self.heads}), sorted({role(head) for head in self.heads})
        offered = {
            'model': [(str(i), one['name']) for i, one in enumerate(self.models)],
            'sample': [(str(i), one.get('name') or f'text {i + 1}') for i, one in enumerate(self.model['samples'])],
            'against': [('', 'nothing'), *((str(i), one['name']) for i, one in self.others())],
            'layer': [('', 'all'), *((str(layer), str(layer)) for layer in layers)],
            'role': [('', 'all'), *((name, name) for name in roles)],
            'least': [('', 'any'), *([('0.1', '10 % of the highest'), ('0.25', '25 % of the highest'),
                                      ('0.5', '50 % of the highest')] if known('importance') else [])],
            'order': [(name, f'by {name}') for name in ('layer', 'importance', 'damage', 'role')
                      if name == 'layer' or known(name)]}
        return {name: [[list(pair) for pair in pairs], self.state[name], len(pairs) < 2] for name, pairs in offered.items()}

    # --- the grid

    def value(self, head):
        if self.colour == 'changed':
            return self.change(head)
        now = measured(head, self.colour)
        if not self.other():
            return now
        then = measured(self.partner(head), self.colour)
        return None if now is None or then is None else now - then

    def roles(self):
        counts = {}
        for head in self.heads:
            counts[role(head)] = counts.get(role(head), 0) + 1
        return sorted(counts.items(), key=lambda one: (one[0] == NONE, one[0] in QUIET, -one[1]))

    def differs(self, head):
        return bool(self.other()) and role(self.partner(head)) != role(head)

    def say(self, head):
        value = ''
        if self.colour not in ('role', 'map'):
            apart = ', difference' if self.other() and self.colour != 'changed' else ''
            value = f", {self.colour_name()}{apart} {number(self.value(head))}"
        elif self.colour == 'role' and self.differs(head):
            value = f", {role(self.partner(head))} in “{self.other()['name']}”"
        return f"Layer {head['layer']} · head {head['head']}: {role(head)}{value}{'' if head['kept'] else ', pruned'}"

    def cells(self):
        by_role, shown = self.colour == 'role', [key(head) for head in self.shown()]
        least, most = (0, 1) if by_role else extent([self.value(head) for head in self.heads])
        cells = []
        for head in sorted(self.heads, key=lambda head: (head['layer'], head['head'])):
            colour = role_colour(role(head)) if by_role else self.palette.shade(self.value(head), least, most)
            mark = '' if head['kept'] else '–'
            cells.append({'head': key(head), 'colour': colour, 'says': self.say(head), 'pruned': not head['kept'],
                          'mark': mark or (short(role(head)) if by_role or self.colour == 'changed' else ''),
                          'dimmed': key(head) not in shown, 'differs': by_role and self.differs(head)})
        return cells

    def legend(self):
        words = [f'{short(name)}{name} ({count})' for name, count in self.roles()] if self.colour in ('role', 'changed') else []
        if self.colour == 'map':
            words = ['Rows are queries, columns are keys.']
        elif self.colour != 'role':
            least, most = extent([self.value(head) for head in self.heads])
            words += [number(float(f'{end:.2g}')) for end in ([least, 0, most] if least < 0 else [0, most / 2, most])]
        if self.colour == 'changed':
            most = self.changed_most()
            words.append(f'Attention that lies elsewhere than in “{self.base_name()}”, from 0 to 1' + ('. Most in' if most else ': none.'))
            words += [f'{key(head)} {role(head)} {change:.3f}' for head, change in most]
        if not all(head['kept'] for head in self.heads):
            words.append('– pruned')
        if self.other() and self.colour not in ('map', 'changed'):
            name = self.other()['name']
            words.append(f'Underlined: another role in “{name}”.' if self.colour == 'role' else
                         f'The colour is the difference to “{name}”.')
        return words

    def listed(self):
        """The heads in the order of their colour."""
        if self.colour in ('role', 'map'):
            return [[key(head), role(head), number(head.get('score'))]
                    for head in sorted(self.shown(), key=role)]
        size = lambda head: -math.inf if self.value(head) is None else self.value(head)
        return [[key(head), role(head), number(self.value(head))]
                for head in sorted(self.shown(), key=size, reverse=True)]

    # --- the cards

    def cards(self):
        order, highest = self.state['order'], max([0] + [head.get('importance', 0) for head in self.heads]) or 1
        groups = {}
        for head in self.shown():
            group = f"Layer {head['layer']}" if order == 'layer' else role(head) if order == 'role' else ''
            inside = [head['layer'], head['head']] in self.sample['heads']
            lines = ['' if inside else 'not in this text' if head['kept'] else 'pruned', f'Head {key(head)}',
                     f"{head['score']:.2f}" if 'score' in head else '', role(head)]
            if 'importance' in head:
                lines.append(f"importance {number(float(digits(head['importance'], 2)))}")
            share = round(100 * head['importance'] / highest, 2) if 'importance' in head else None
            groups.setdefault(group, []).append([lines, share, not head['kept']])
        return [[group, cards] for group, cards in groups.items()]

    def count(self):
        shown, all_heads = self.shown(), len(self.heads)
        text = f'{all_heads} heads' if len(shown) == all_heads else f'{len(shown)} of {all_heads} heads'
        return text + ('' if all(head['kept'] for head in shown) else '; struck through: pruned')

    # --- the text

    def chosen_token(self):
        last = len(self.sample['tokens']) - 1
        if self.state['token'] != '':
            return min(int(self.state['token']), last)
        return last if 'predictions' in self.sample else -1

    def loss(self, sample, index):
        return sample['losses'][index - 1] if index > 0 and 'losses' in sample else None

    def shades(self, sample):
        losses = [self.loss(sample, index) for index in range(len(sample['tokens']))]
        return [loss if loss is None else self.palette.shade(min(loss, 8) / 2, -8, 8) for loss in losses]

    def tokens(self):
        at = self.chosen_token()
        return [[token, shade, index == at, 0 if index == max(at, 0) else -1]
                for index, (token, shade) in enumerate(zip(self.sample['tokens'], self.shades(self.sample)))]

    def other_tokens(self):
        other = self.other_sample()
        return other and [list(pair) for pair in zip(other['tokens'], self.shades(other))]

    def token_note(self):
        at = self.chosen_token()
        if at < 0:
            return 'Choose a token to open heads at it.'
        words = f"Token {at}, of 0 to {len(self.sample['tokens']) - 1}"
        words += '' if self.state['token'] == '' else ', at which heads open'
        if self.loss(self.sample, at) is not None:
            words += f', its loss {number(self.loss(self.sample, at))}'
        says = 'The stronger the shade, the less the model expected the token.' if 'losses' in self.sample else ''
        return words + '. ' + says

    # --- a head

    def open_head(self):
        return next((head for head in self.heads if key(head) == self.state['head']), None)

    def weights(self, sample, head):
        """[query][key] in bytes; None where the text has none of this head."""
        if [head['layer'], head['head']] not in sample['heads']:
            return None
        return sample['rows'][sample['heads'].index([head['layer'], head['head']])]

    def query(self, rows):
        chosen = self.state['query'] or self.state['token']
        if chosen != '':
            return min(int(chosen), len(rows) - 1)
        best = [max(row[1:], default=-1) for row in rows]
        return best.index(max(best))

    def strongest(self, row, most):
        order = sorted((k for k, byte in enumerate(row) if (byte / 255) ** 2 >= 0.0005), key=lambda k: -row[k])
        return [(k, (row[k] / 255) ** 2) for k in order[:most]]

    def numbers(self, head):
        layer = [one for one in self.heads if one['layer'] == head['layer']]
        at = layer.index(head)
        columns = [layer[i] for i in (at - 1, at + 1) if 0 <= i < len(layer)]
        other = self.other()

        def row(name, of):
            known = lambda one: number(of(one))
            every = [of(one) for one in layer]
            mean = '–' if None in every else number(sum(every) / len(layer))
            return [name, known(head), *map(known, columns), mean, *([known(self.partner(head))] if other else [])]

        heads = [f'head {key(one)}' for one in (head, *columns)] + [f"layer {head['layer']}, mean"] + \
            ([other['name']] if other else [])
        own = []
        if 'damage' in head:
            interval = f" ({number(head['damage_low'])} to {number(head['damage_high'])})" if 'damage_low' in head else ''
            own.append(row(f'damage without it{interval}', lambda one: one.get('damage')))
        if 'importance' in head:
            own.append(row('importance', lambda one: one.get('importance')))
        for name in head.get('statistics', {}):
            own.append(row(name, lambda one, name=name: one.get('statistics', {}).get(name)))
        scores = head.get('roles', {})
        roles = [row(name, lambda one, name=name: one.get('roles', {}).get(name))
                 for name in sorted(scores, key=lambda name: -scores[name])]
        return [[[title, *heads], *rows] for title, rows in (('number', own), ('score in the role', roles)) if rows]

    def dialog(self):
        head = self.open_head()
        if not head:
            return None
        score = f" {number(head['score'])}" if 'score' in head else ''
        found = {'name': f"Layer {head['layer']} · head {head['head']}",
                 'role': role(head) + score + ('' if head['kept'] else ' · pruned'), 'numbers': self.numbers(head)}
        rows = self.weights(self.sample, head)
        other = self.other() and self.weights(self.other_sample(), head)
        found['other'] = [self.other()['name'], [list(map(self.ramp, row)) for row in other]] if other else None
        return {**found, 'links': rows and self.links(rows), 'table': rows and self.table(rows)}

    def ramp(self, byte):
        return self.palette.towards('--shade', byte)

    def keys(self):
        return self.sample.get('key_tokens') or self.sample['tokens']

    def links(self, rows):
        query, keys, many = self.query(rows), self.keys(), len(rows[0]) > 24
        found = self.strongest(rows[query], 8)
        weights = dict(found)
        listed = sorted(weights) if many else list(range(len(keys)))
        first = max(0, min(query - len(listed) // 2, len(rows) - len(listed))) if many else 0
        row = 24
        named = ', '.join(f'{keys[k]} {weight_text(weight)}' for k, weight in found[:5]) or 'nothing'
        return {'side': 'strongest keys' if many else 'keys', 'queries': self.sample['tokens'], 'query': query,
                'summary': f"Query {self.sample['tokens'][query]} ({query}) → {named}", 'padding': first * row,
                'keys': [[keys[k], str(k), weight_text(weights[k]) if k in weights else '', k in weights] for k in listed],
                'arcs': [[(query + 0.5) * row, (first + listed.index(k) + 0.5) * row, round(1 + 7 * weight, 4),
                          round(0.25 + 0.75 * math.sqrt(weight), 4)] for k, weight in found]}

    def table(self, rows):
        keys = self.keys()
        lines = []
        for query, (token, row) in enumerate(zip(self.sample['tokens'], rows)):
            cells = [f'{keys[k]} ({k}) {weight_text(weight)}' for k, weight in self.strongest(row, 5)]
            lines.append([f'{token} ({query})', *cells, *[''] * (5 - len(cells))])
        return lines

    # --- the address

    def address(self):
        return {name: value for name, value in self.state.items() if value != DEFAULTS[name]}
