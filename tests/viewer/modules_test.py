"""modules_test.py TSC CMAKE: the page's sources are modules, each of which imports what it uses, and become one script.

In that script all of them share a scope, so nothing there would miss an import; TypeScript's compiler does.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TSC, CMAKE = sys.argv[1:3]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ENTRIES = ('main.js', 'live.js')
# What it says of names: those nobody declares or exports, and those nobody uses. The code has no types to be checked.
OF_NAMES = re.compile(r'error TS(2304|2305|2307|2552|2613|2614|2724|6133|6192|6196|6198)\b')
# What the browser has and the compiler does not know yet.
BROWSER = 'declare const DecompressionStream: any;'


def complaints(folder):
    with tempfile.TemporaryDirectory() as place:
        declared = pathlib.Path(place, 'browser.d.ts')
        declared.write_text(BROWSER)
        result = subprocess.run([TSC, '--noEmit', '--allowJs', '--checkJs', '--skipLibCheck', '--noUnusedLocals', '--noUnusedParameters', '--target', 'esnext',
                                 '--lib', 'esnext,dom,dom.iterable', '--pretty', 'false', str(declared), *(str(folder / name) for name in ENTRIES)],
                                capture_output=True, text=True)
    assert result.returncode in (0, 1, 2) and not result.stderr, result.stderr
    return [line for line in result.stdout.splitlines() if OF_NAMES.search(line)]


def bundle(folder):
    """The script of main.js and all that it imports, or what is wrong with them."""
    with tempfile.TemporaryDirectory() as place:
        result = subprocess.run([CMAKE, '-D', f'VIEWER={folder}', '-D', f'FOLDER={place}', '-P', str(ROOT / 'src/report/embed.cmake')],
                                capture_output=True, text=True)
        return pathlib.Path(place, 'page.js').read_text() if result.returncode == 0 else ' '.join(result.stderr.split())


class Modules(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def write(self, **modules):
        for name in ('page.html', 'page.css'):
            (self.folder / name).write_text('')
        for name, text in modules.items():
            (self.folder / f'{name}.js').write_text(text)

    def test_every_module_imports_what_it_uses(self):
        self.assertEqual(complaints(ROOT / 'viewer'), [])

    def test_an_import_that_is_missing_or_not_needed_is_found(self):
        self.write(main="import {used, idle} from './other.js';\n\nused();\nmissing();\n", other='export const used = () => {}, idle = 1;\n',
                   live="import {nobody} from './other.js';\n\nnobody();\n")
        found = complaints(self.folder)
        self.assertEqual(len(found), 3, found)
        for words in ("'idle' is declared but", "Cannot find name 'missing'", "no exported member 'nobody'"):
            self.assertTrue(any(words in line for line in found), (words, found))

    def test_every_file_is_reached_and_every_export_imported(self):
        texts = {path.name: path.read_text() for path in (ROOT / 'viewer').glob('*.js')}
        imports = [found for text in texts.values() for found in re.findall(r"^import (?:\{(.*?)\} from )?'\./(.*?)';", text, re.MULTILINE)]
        self.assertEqual({name for _, name in imports} | set(ENTRIES), set(texts))
        for name, text in texts.items():
            exported = set(re.findall(r'^export (?:async function|function|const|let) (\w+)', text, re.MULTILINE))
            wanted = {one for names, origin in imports if origin == name for one in names.split(', ')}
            self.assertLessEqual(exported, wanted, name)

    def test_a_module_comes_once_and_after_what_it_imports(self):
        self.write(main="import {b} from './b.js';\nimport {c} from './c.js';\nimport './d.js';\nb(c);\n", b="import {c} from './c.js';\nexport const b = c;\n",
                   c='export async function c() {}\nexport let e = [1];  // ;\n', d="const text = 'a;b\\n[';\n")
        self.assertEqual(bundle(self.folder),
                         "'use strict';\n\nasync function c() {}\nlet e = [1];  // ;\n\nconst b = c;\n\nconst text = 'a;b\\n[';\n\nb(c);\n")

    def test_what_cannot_become_one_script_is_refused(self):
        for words, modules in (
                ('a circle: main.js, which imports b.js, which imports main.js', {'b': "import {a} from './main.js';\n"}),
                ('viewer/main.js: another module declares twice too', {'main': "import './b.js';\nfunction twice() {}\n", 'b': 'const twice = 1;\n'}),
                ('viewer/main.js: expected import {a, b}', {'main': "import a from 'elsewhere';\n"}),
                ('found export default 1', {'main': 'export default 1;\n'}),
                ('b.js', {})):
            with self.subTest(words):
                for old in self.folder.glob('*.js'):
                    old.unlink()
                self.write(**{'main': "import {b} from './b.js';\n", **modules})
                self.assertIn(words, bundle(self.folder))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
