"""saving_test.py CHROMIUM FOLDER: every file that the page saves, taken where the browser would take it: its name, its
type and its content, which is compared with the data or with what is seen.
"""
import csv
import io
import json
import re
import sys
import unittest
import xml.etree.ElementTree

from drawing_test import DATA, Weights, shown
from page import PageTest

SVG = '{http://www.w3.org/2000/svg}'
# Instead of a file on the disk: {name: {type, text or picture}}.
TAKE = '''(() => {
    const blobs = new Map();
    window.files = {};
    window.freed = 0;
    URL.createObjectURL = (blob) => { const at = `blob:${blobs.size}`; blobs.set(at, blob); return at; };
    URL.revokeObjectURL = () => { ++freed; };
    HTMLAnchorElement.prototype.click = async function () {
        const blob = blobs.get(this.getAttribute('href')), file = {type: blob.type};
        if (blob.type === 'image/png') {
            const image = await createImageBitmap(blob), canvas = new OffscreenCanvas(image.width, image.height);
            const pen = canvas.getContext('2d');
            pen.drawImage(image, 0, 0);
            const at = (x, y) => [...pen.getImageData(x, y, 1, 1).data];
            Object.assign(file, {size: [image.width, image.height],
                corners: [at(0, 0), at(image.width - 1, 0), at(0, image.height - 1), at(image.width - 1, image.height - 1)]});
        } else file.text = await blob.text();
        files[this.download] = file;
    };
})()'''
TYPES = {'csv': 'text/csv', 'json': 'application/json', 'svg': 'image/svg+xml', 'png': 'image/png'}


class Saving(PageTest):
    def saved(self, tab, where):
        """What the buttons there save, by name."""
        buttons = f"[...document.querySelectorAll('{where} button[title^=\"Save as\"]')]"
        tab.run(f"{TAKE}; {buttons}.forEach((button) => button.click()); null")
        names = tab.run(f"{buttons}.map((button) => [button.textContent, button.title])")
        self.assertTrue(names)
        for name, title in names:
            self.assertEqual(title, f'Save as {name}')
        for _ in range(200):
            if tab.run('Object.keys(files).length') == len(names):
                break
            tab.settle()
        files = tab.run('files')
        self.assertEqual(sorted(name.rsplit('.', 1)[1].upper() for name in files), sorted(name for name, _ in names))
        for name, file in files.items():
            self.assertEqual(file['type'], TYPES[name.rsplit('.', 1)[1]], name)
        for name in [name for name in files if name.endswith('.png')]:
            drawn = xml.etree.ElementTree.fromstring(files[name[:-3] + 'svg']['text'])
            width, height = float(drawn.get('width')), float(drawn.get('height'))
            self.assertEqual(files[name]['size'], [2 * width, 2 * height], 'for paper')
            self.assertEqual([corner[3] for corner in files[name]['corners']], [255] * 4, 'opaque to every corner')
        return files

    def expect_table(self, files, name, columns, rows):
        """The same in both kinds of file."""
        found = list(csv.reader(io.StringIO(files[f'{name}.csv']['text'])))
        self.assertEqual(found[0], columns)
        self.assertEqual(found[1:], [['' if cell is None else cell if isinstance(cell, str) else repr_of(cell) for cell in row]
                                     for row in rows])
        self.assertEqual(json.loads(files[f'{name}.json']['text']), [dict(zip(columns, row)) for row in rows])

    def paper(self, drawn, colour):
        first = next(drawn.iter(SVG + 'rect'))
        self.assertEqual([first.get(name) for name in ('width', 'height', 'fill')], [drawn.get('width'), drawn.get('height'), colour])
        self.assertEqual(drawn.get('viewBox'), f"0 0 {drawn.get('width')} {drawn.get('height')}")

    def test_links(self):
        for at, weights, query in (('#sample=1&head=2.4&query=3', Weights(0, 1, 2, 4), 3),
                                   ('#model=1&sample=1&head=0.0&query=2', Weights(1, 1, 0, 0), 2)):
            tab = self.at(at)
            name = f"head-{at.split('head=')[1][:3]}-links"
            drawn = xml.etree.ElementTree.fromstring(self.saved(tab, '#save-links')[name + '.svg']['text'])
            page, ink, line = tab.run("""[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                getComputedStyle(document.querySelector('.bar span') || document.body).backgroundColor]""")
            self.paper(drawn, page)
            keys = weights.strongest(query, 8)
            self.assertEqual([drawn.get('width'), drawn.get('height')], ['420', str(24 * (len(keys) + 1))])
            texts, paths = list(drawn.iter(SVG + 'text')), list(drawn.iter(SVG + 'path'))
            self.assertEqual([one.text for one in texts], [f'{weights.queries[query]} ({query})', *(
                f'{weights.keys[key]} ({key}) {shown(weights.weight(query, key))}' for key in keys)])
            self.assertEqual([one.get('text-anchor') for one in texts], ['end'] + [None] * len(keys))
            self.assertEqual({one.get('fill') for one in texts}, {ink})
            own = texts[0]
            self.assertAlmostEqual(float(own.get('y')) - 4, float(drawn.get('height')) / 2)
            for text, path, key in zip(texts[1:], paths, keys):
                start_x, start_y, *_, end_x, end_y = (float(one) for one in re.findall(r'-?[\d.]+', path.get('d')))
                self.assertTrue(0 < start_x - float(own.get('x')) < 20 and 0 < float(text.get('x')) - end_x < 20)
                self.assertEqual([start_y, end_y], [float(own.get('y')) - 4, float(text.get('y')) - 4])
                weight = weights.weight(query, key)
                self.assertAlmostEqual(float(path.get('stroke-width')), 1 + 7 * weight, places=6)
                self.assertAlmostEqual(float(path.get('stroke-opacity')), 0.25 + 0.75 * weight ** 0.5, places=6)
                self.assertEqual([path.get('fill'), path.get('stroke').replace(',', ', ')], ['none', line])
            tops = [float(one.get('y')) for one in texts[1:]]
            self.assertEqual([after - before for before, after in zip(tops, tops[1:])], [24] * (len(tops) - 1))

    def test_maps(self):
        for at, weights in (('#sample=0&head=2.4', Weights(0, 0, 2, 4)), ('#model=1&sample=1&head=0.0', Weights(1, 1, 0, 0))):
            tab = self.at(at)
            name = f"head-{at.split('head=')[1]}"
            files = self.saved(tab, '#save-map')
            drawn = xml.etree.ElementTree.fromstring(files[name + '.svg']['text'])
            page, ink = tab.run("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
            self.paper(drawn, page)
            self.assertEqual([drawn.get('font-family'), drawn.get('font-size')], ['sans-serif', '11'])
            frame = drawn.find(SVG + 'svg')
            left, top, width, height = (float(frame.get(side)) for side in ('x', 'y', 'width', 'height'))
            down, across = len(weights.queries), len(weights.keys)
            self.assertAlmostEqual(width / across, height / down, places=6, msg='cells are squares')
            self.assertTrue(0 <= float(drawn.get('width')) - left - width < 1 and 0 <= float(drawn.get('height')) - top - height < 1)
            image = frame.find(SVG + 'image')
            self.assertEqual([image.get('preserveAspectRatio'), image.get('image-rendering'), image.get('x'), image.get('y')],
                             ['none', 'pixelated', None, None])
            pixels = tab.run("""new Promise((done) => {
                const image = new Image(), canvas = document.createElement('canvas'), pen = canvas.getContext('2d');
                image.onload = () => {
                    Object.assign(canvas, {width: image.width, height: image.height});
                    pen.drawImage(image, 0, 0);
                    done([image.width, image.height, [...pen.getImageData(0, 0, image.width, image.height).data]]);
                };
                image.src = '%s'; })""" % image.get('href'))
            self.assertEqual(pixels[:2], [across, down])
            paper, shade = (tab.run(f"getComputedStyle(document.documentElement).getPropertyValue('{one}').trim()")
                            for one in ('--map', '--shade'))
            for query in range(0, down, max(1, down // 9)):
                for key in range(0, across, max(1, across // 9)):
                    for channel in range(3):
                        low, high = (int(text[1 + 2 * channel:3 + 2 * channel], 16) for text in (paper, shade))
                        self.assertAlmostEqual(pixels[2][4 * (query * across + key) + channel],
                                               low + weights.byte(query, key) / 255 * (high - low), delta=1.5)
            texts, cell = list(drawn.iter(SVG + 'text')), width / across
            every = -int(-13 // cell)
            for tokens, found in ((weights.queries, [one for one in texts if one.get('y')]),
                                  (weights.keys, [one for one in texts if one.get('transform')])):
                self.assertEqual([one.text for one in found], tokens[::every])
            for i, one in zip(range(0, down, every), [one for one in texts if one.get('y')]):
                self.assertAlmostEqual(float(one.get('y')), top + (i + 0.5) * cell + 4, places=3)
                self.assertEqual([float(one.get('x')), one.get('text-anchor'), one.get('fill')], [left - 5, 'end', ink])
            for i, one in zip(range(0, across, every), [one for one in texts if one.get('transform')]):
                x, y, turn = (float(part) for part in re.findall(r'-?[\d.]+', one.get('transform')))
                self.assertAlmostEqual(x, left + (i + 0.5) * cell + 4, places=3)
                self.assertEqual([y, turn, one.get('fill')], [top - 5, -90, ink])
            whole = json.loads(files[name + '.json']['text'])
            self.assertEqual([whole['queries'], whole['keys']], [weights.queries, weights.keys])
            rows = list(csv.reader(io.StringIO(files[name + '.csv']['text'])))
            self.assertEqual(rows[0], ['query', *weights.keys])
            for query, row in enumerate(rows[1:]):
                self.assertEqual([row[0], *map(float, row[1:])], [weights.queries[query], *whole['weights'][query]])
                self.assertEqual(whole['weights'][query], [float(f'{weights.weight(query, key):.3g}') for key in range(across)])

    def test_the_grid(self):
        tab = self.at('#model=1&colour=damage')
        files = self.saved(tab, '#save-grid')
        self.assertEqual(set(files), {'heads.svg', 'heads.png', 'heads.csv', 'heads.json'})
        drawn = xml.etree.ElementTree.fromstring(files['heads.svg']['text'])
        cells, page, ink = tab.run("""[[...document.querySelectorAll('.cell')].map((e) => [e.style.backgroundColor, e.style.color,
            e.dataset.mark, e.closest('tr').rowIndex - 1, e.closest('td').cellIndex - 1]),
            getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]""")
        self.paper(drawn, page)
        rows, columns = 1 + max(cell[3] for cell in cells), 1 + max(cell[4] for cell in cells)
        self.assertEqual([drawn.get('width'), drawn.get('height')], [str(30 + 28 * columns), str(24 + 28 * rows)])
        rects, texts = list(drawn.iter(SVG + 'rect'))[1:], list(drawn.iter(SVG + 'text'))
        marks = [one for one in texts if float(one.get('x')) > 30 and float(one.get('y')) > 24]
        for (colour, on, mark, row, column), rect, text in zip(cells, rects, marks, strict=True):
            self.assertEqual([float(rect.get(name)) for name in ('x', 'y', 'width', 'height')],
                             [31 + 28 * column, 25 + 28 * row, 26, 26])
            self.assertEqual([rect.get('fill'), text.text or '', text.get('fill'), text.get('text-anchor')],
                             [colour, mark, on, 'middle'])
            self.assertEqual(float(text.get('x')), 30 + 28 * (column + 0.5))
            self.assertTrue(3 < float(text.get('y')) - 24 - 28 * (row + 0.5) < 5, 'letters stand on their line')
        top = [one for one in texts if float(one.get('y')) < 24]
        self.assertEqual([(one.text, float(one.get('x')), one.get('text-anchor'), one.get('fill')) for one in top],
                         [(str(i), 30 + 28 * (i + 0.5), 'middle', ink) for i in range(columns)])
        beside = [one for one in texts if float(one.get('x')) < 30]
        self.assertEqual([(one.text, one.get('text-anchor'), one.get('fill')) for one in beside],
                         [(str(i), 'end', ink) for i in range(rows)])

    def test_tables(self):
        tab = self.at('#sample=1&head=2.4&query=3')
        tab.run("byId('strongest').open = true; null")
        tab.settle()
        read = """(selector) => [...document.querySelectorAll(selector)].map((table) =>
            [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent)))"""
        strongest = tab.run(f"({read})('#strongest table')")[0]
        self.expect_table(self.saved(tab, '#strongest'), 'head-2.4-strongest', strongest[0], strongest[1:])
        files = self.saved(tab, '#numbers')
        head = next(one for one in DATA['models'][0]['heads'] if [one['layer'], one['head']] == [2, 4])
        self.assertEqual(set(files), {f'head-2.4-{kind}.{end}' for kind in ('number', 'score in the role') for end in ('csv', 'json')})
        rows = json.loads(files['head-2.4-number.json']['text'])
        self.assertEqual([row['number'] for row in rows[1:]], ['importance', *head['statistics']])
        self.assertEqual([row['head 2.4'] for row in rows], [head['damage'], head['importance'], *head['statistics'].values()])
        for table in DATA['tables']:
            self.expect_table(self.saved(self.at(''), f"#table-{table['id']}"), table['id'], table['columns'], table['rows'])
        tab = self.at('#colour=damage')
        tab.run("byId('sorted').open = true; null")
        tab.settle()
        heads = sorted(DATA['models'][0]['heads'], key=lambda one: -one['damage'])
        self.expect_table(self.saved(tab, '#sorted'), 'sorted-heads', ['head', 'role', 'damage'],
                          [[f"{one['layer']}.{one['head']}", one.get('role') or 'no clear role', one['damage']] for one in heads])

    def test_what_a_table_may_hold(self):
        tab = self.tab()  # of its own, since its clock is another
        tab.run("window.setTimeout = (act, wait) => { window.waited = wait; act(); }; null")
        tab.run(f"""{TAKE}; const rows = [['a "b", c', 1.5, null], ['two\\nlines', 0, undefined]];
            save.csv('one', ['x', 'y "z"', 'w'], rows); save.json('one', ['x', 'y', 'w'], rows)""")
        tab.settle()
        self.assertEqual(tab.run('[freed, waited > 1000]'), [2, True], 'their memory is given back, but not at once')
        files = tab.run('files')
        self.assertEqual(files['one.csv']['text'], '"x","y ""z""","w"\n"a ""b"", c",1.5,\n"two\nlines",0,\n')
        self.assertEqual(json.loads(files['one.json']['text']),
                         [{'x': 'a "b", c', 'y': 1.5, 'w': None}, {'x': 'two\nlines', 'y': 0, 'w': None}])

    def test_figures(self):
        tab = self.at('')
        tab.set_theme('dark')
        for figure in DATA['figures'][:2]:
            files = self.saved(tab, f"#figure-{figure['id']}")
            self.assertEqual(set(files), {f"{figure['id']}.svg", f"{figure['id']}.png"})
            drawn = xml.etree.ElementTree.fromstring(files[f"{figure['id']}.svg"]['text'])
            self.assertIsNone(drawn.get('class'))
            self.assertEqual([drawn[0].tag, drawn[0].get('width'), drawn[0].get('height'), drawn[0].get('fill')],
                             [SVG + 'rect', '100%', '100%', '#fff'])
            self.assertEqual(files[f"{figure['id']}.png"]['corners'], [[255] * 4] * 4, 'light paper in the dark, too')
        tab.set_theme('light')


def repr_of(value):
    return str(int(value)) if value == int(value) else repr(value)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
