"""study_page_test.py CHROMIUM FOLDER: reads the report that polyhead study wrote into FOLDER, as a reader would."""
import json
import pathlib
import sys
import unittest

from browser import Tab
from page import SIZES, THEMES, PageTest

FOLDER = pathlib.Path(sys.argv[2]).resolve()
PageTest.chromium, PageTest.address = sys.argv[1], (FOLDER / 'report.html').as_uri()
TASKS = ['copy', 'classify', 'grammar']
FIGURES = [f'{kind}-{task}' for kind in ('accuracy', 'entropy', 'survivors') for task in TASKS] + [
    'alone', 'damage', 'entropy-loss', 'entropy-steps', 'evolution', 'formation', 'heads-grammar', 'heads-repeat', 'pruning',
    'removal']


class Study(PageTest):
    def test_at_every_width_and_theme(self):
        for size in SIZES:
            for theme in THEMES:
                with self.subTest(size=size, theme=theme):
                    tab = self.tab(size, theme)
                    self.expect_fitting(tab)
                    self.expect_legible(tab)
                    self.expect_accessible(tab)
                    tab.screenshot(FOLDER / f'page-{size}-{theme}.png', whole=True)
                    self.expect_quiet(tab)

    def test_figures_are_drawn(self):
        drawn = self.tab().run("""[...document.querySelectorAll('figure')]
            .filter((e) => [...e.querySelectorAll('svg')].some((s) => s.checkVisibility() && s.clientHeight > 150))
            .map((e) => e.id)""")
        self.assertEqual(len(drawn), len(FIGURES), drawn)
        for name in FIGURES:
            self.assertIn('<svg', (FOLDER / 'figures' / f'{name}.svg').read_text()[:200])
            self.assertEqual((FOLDER / 'figures' / f'{name}.png').read_bytes()[:8], bytes.fromhex('89504e470d0a1a0a'))

    def test_a_question_after_the_other_each_task_by_an_example(self):
        tab = self.tab()
        sections = tab.run("[...document.querySelectorAll('main > section:not([hidden]) > h2')].map((e) => e.textContent)")
        self.assertEqual(sections, ['What stands out?', 'Do more heads help?',
                                    'Do many heads look more narrowly than few?', 'How do heads learn to copy?',
                                    'What does each head do?', 'Which heads can go?', 'What do the survivors see?', 'Heads',
                                    'Tables'])
        self.assertEqual(tab.run("[...document.querySelectorAll('nav a')].map((e) => e.textContent)"), sections)
        tasks = tab.run("""[...document.querySelectorAll('.example')].map((e) => [e.querySelector('b').textContent,
            e.querySelector('.case').textContent, [...e.querySelectorAll('mark')].map((m) => m.textContent)])""")
        self.assertEqual([task for task, *_ in tasks], ['repeat', 'grammar', 'copy', 'classify'])
        _, copied, again = tasks[2]
        self.assertEqual(copied.split(), ['BOS', *again, 'SEP', *again])
        self.assertRegex(tasks[3][1], r'→ class [0-7]$')
        # Above every figure there is an example.
        self.assertTrue(tab.run("""[...document.querySelectorAll('figure')].every((figure) =>
            document.querySelector('.example').compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_FOLLOWING)"""))

    def test_without_scripts_all_but_the_heads_is_there(self):
        tab = Tab(self.browser, *SIZES['wide'], 'light')
        tab.call('Emulation.setScriptExecutionDisabled', value=True)
        tab.load(self.address)
        data = json.loads(tab.run("document.getElementById('data').textContent"))
        for table in data['tables']:
            rows = tab.run(f"document.querySelectorAll('#table-{table['id']} tbody tr').length")
            self.assertEqual(rows, len(table['rows']))
            for cell in (cell for row in table['rows'] for cell in row if isinstance(cell, str)):
                self.assertIn(cell, tab.text(f"#table-{table['id']}"))
        text = tab.text('main')
        for finding in data['findings']:
            self.assertIn(finding['text'], text)
        self.assertEqual(tab.run("document.querySelectorAll('figure svg.wide').length"), len(FIGURES))
        self.assertIn('looking at heads does', tab.text('noscript'))

    def test_a_head_opens_on_click(self):
        tab = self.tab()
        tab.point('.card[data-head="1.0"]')
        self.assertTrue(tab.run("document.querySelector('dialog').open"))
        self.assertEqual(tab.text('#head-name'), 'Layer 1 · head 0')
        self.assertIn('entropy (nats)', tab.text('#numbers'))
        self.assertIn('induction', tab.text('#head-role'))
        self.expect_quiet(tab)

    def test_findings_say_what_the_numbers_say(self):
        text = self.tab().text('main')
        study = json.loads((FOLDER / 'study.json').read_text())
        two, one = study['formation']['two_layers'][0], study['formation']['one_layer'][0]
        self.assertGreater(two['steps'][-1]['accuracy'], one['steps'][-1]['accuracy'] + 0.5)
        self.assertIn(f"two layers reach {100 * two['steps'][-1]['accuracy']:.1f} %", text)
        grammar = study['tasks']['grammar']
        self.assertIn(f"{grammar['anatomies'][0]['relations']['predicts subject-verb']['accuracy'] * 100:.1f} %", text)
        eight, sixteen = grammar['contenders'][3:]
        gone = [one['seeds'][0]['removal']['ranked']['within_budget'] / one['heads'] for one in (eight, sixteen)]
        self.assertIn(f"On “grammar”, {100 * gone[0]:.1f} % of 8 heads and {100 * gone[1]:.1f} % of 16 heads can go", text)
        self.assertIn(f"{100 * sum(gone) / 2:.1f} % on grammar", text)
        fixed = study['formation']['fixed_length'][0]
        self.assertGreater(fixed['naive_induction_score'], 0.8)
        self.assertLess(fixed['induction_score'], 0.2)

    def test_models_are_there(self):
        for name in ('copy-16', 'classify-1', 'repeat', 'repeat-one-layer', 'repeat-fixed', 'grammar-8', 'grammar-8-pruned'):
            for file in ('config.json', 'model.safetensors', 'run.json'):
                self.assertTrue((FOLDER / 'models' / name / file).is_file(), f'{name}/{file}')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
