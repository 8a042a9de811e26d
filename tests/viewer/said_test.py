"""said_test.py CHROMIUM FOLDER: all that a screen reader says of the page and of a head, line by line, is in said.txt.

What was found lies beside the sample page, in FOLDER/said.txt: if a change of the words was meant, it belongs here.
"""
import pathlib
import sys
import unittest

import said
from page import HERE, PageTest

FOLDER = pathlib.Path(sys.argv[2]).resolve()
PageTest.chromium, PageTest.address = sys.argv[1], (FOLDER / 'page.html').as_uri()


class Said(PageTest):
    def test_every_word_and_state(self):
        page = self.tab(at='#model=1&sample=1')
        page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        head = self.tab(at='#model=1&sample=1&head=0.0&query=1')
        head.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        long = self.tab(at='#sample=0&head=0.0')
        key = self.tab(at='#model=1&colour=damage')
        said.expect(self, HERE / 'said.txt', FOLDER / 'said.txt', {
            'the page': said.lines(page, 'header, #heads'), 'a head': said.lines(head, 'dialog'),
            'a head over a long text': said.lines(long, '.map'), 'the key to the numbers': said.lines(key, '#legend > *')})


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
