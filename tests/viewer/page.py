"""What every test of a page does: opens it in a tab, listens for complaints, looks whether it fits and can be read."""
import pathlib
import time
import unittest

from browser import Browser, Tab

HERE = pathlib.Path(__file__).parent
SIZES = {'wide': (1280, 860), 'narrow': (390, 844)}
THEMES = ('light', 'dark')
AXE = HERE.parent.parent / '.axe/axe_playwright_python/axe.min.js'  # tools/install-packages axe

# Elements that stick out of the page and are not in a box of their own that scrolls.
STICKING_OUT = '''(() => {
    const scope = document.querySelector('dialog[open]') || document.body;
    const contained = (e) => e.closest('.plot, .scroll, #tokens, svg') && !e.matches('.plot, .scroll, #tokens');
    return [...scope.querySelectorAll('*')].filter((e) => !contained(e) && e.checkVisibility())
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
        .map((e) => e.tagName + '.' + e.className);
})()'''


class PageTest(unittest.TestCase):
    chromium, address = None, None  # set by the test's own file
    shared = None

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(cls.chromium)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.shared = None

    def tab(self, size='wide', theme='light', at=''):
        tab = Tab(self.browser, *SIZES[size], theme)
        tab.open(self.address + at)
        return tab

    def at(self, address):
        """The one tab that tests of a class share, quicker than one of their own, with nothing open from the test before."""
        if not self.shared:
            type(self).shared = self.tab()
        tab = self.shared
        tab.call('Page.bringToFront')  # only the one in front draws
        tab.run('if (dialog.open) dialog.close(); null')
        tab.settle()
        tab.run(f"location.hash = '{address}'; document.querySelectorAll('details').forEach((one) => {{ one.open = false; }}); null")
        tab.settle()
        return tab

    def until_found(self, tab):
        """For the changes of all heads' attention, where they are shown."""
        for _ in range(400):
            if tab.run("!changes.other() || colouring() !== 'changed' || changes.finding === null"):
                return
            time.sleep(0.02)
        self.fail('the changes of attention are not found')

    def expect_quiet(self, tab):
        self.assertEqual(tab.complaints(), [])
        outside = [url for url in tab.requests() if not url.startswith((self.address, 'data:'))]
        self.assertEqual(outside, [])

    def expect_legible(self, tab):
        result = tab.run((HERE / 'contrast.js').read_text())
        self.assertGreater(result['checked'], 20)
        self.assertEqual(result['found'], [])

    def expect_fitting(self, tab):
        self.assertLessEqual(tab.run('document.documentElement.scrollWidth'), tab.run('innerWidth'))
        self.assertEqual(tab.run(STICKING_OUT), [])

    def expect_accessible(self, tab):
        """axe-core, with all of its rules, finds nothing on what is open now."""
        if not tab.run("typeof axe === 'object'"):
            tab.run(AXE.read_text() + ';null')
        result = tab.run("""axe.run(document, {resultTypes: ['violations']}).then(({passes, violations}) => ({
            passed: passes.length, found: violations.map(({id, help, nodes}) =>
                `${id}: ${help}: ` + nodes.slice(0, 3).map(({html}) => html.slice(0, 200)).join(' | '))}))""")
        self.assertGreater(result['passed'], 10)
        self.assertEqual(result['found'], [])
