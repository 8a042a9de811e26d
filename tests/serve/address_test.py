"""address_test.py POLYHEAD FOLDER: the address of the live page. With --port it stays the same; --open opens it."""
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

POLYHEAD, MODEL = sys.argv[1], pathlib.Path(sys.argv[2], 'classifier')


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


class Address(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)
        (self.home / 'bin').mkdir()
        self.key = self.home / 'cache/serve-key'

    def serve(self, *options, until=lambda: True):
        """The address, and what it says besides."""
        server = subprocess.Popen([POLYHEAD, 'serve', MODEL, '--threads', '1', *options], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env={**os.environ, 'POLYHEAD_CACHE': str(self.home / 'cache'),
                                                               'PATH': str(self.home / 'bin'), 'HOME': str(self.home)})
        address = server.stdout.readline().strip()
        for _ in range(300):
            if until():
                break
            time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=60)
        return address, said, server.returncode

    def opener(self, lines):
        (self.home / 'bin/xdg-open').write_text(f'#!/bin/sh\n{lines}\n')
        (self.home / 'bin/xdg-open').chmod(0o755)

    def test_with_a_port_it_stays(self):
        port = str(free_port())
        first, again = self.serve('--port', port)[0], self.serve('--port', port)[0]
        self.assertRegex(first, rf'^http://127\.0\.0\.1:{port}/[0-9a-f]{{32}}/$')
        self.assertEqual(first, again)
        self.assertEqual(stat.S_IMODE(self.key.stat().st_mode), 0o600)
        self.assertNotIn(self.key.read_text(), self.serve()[0], 'without one it is another every time')

    def test_a_key_that_others_know_is_refused(self):
        port = str(free_port())
        self.serve('--port', port)
        for spoil in (lambda: self.key.chmod(0o644), lambda: self.key.write_text('x' * 32), lambda: self.key.write_text('0' * 33),
                      lambda: (self.key.unlink(), self.key.symlink_to('/dev/null'))):
            self.key.unlink()
            self.serve('--port', port)
            spoil()
            address, said, code = self.serve('--port', port)
            self.assertEqual([address, code != 0], ['', True])
            self.assertIn('serve-key', said)

    def test_a_browser_opens_it(self):
        opened = self.home / 'opened'
        self.opener(f'echo "$1" > {opened}')
        address, said, code = self.serve('--open', until=lambda: opened.exists() and opened.read_text().endswith('\n'))
        self.assertEqual([opened.read_text().strip(), code], [address, 0])
        self.assertNotIn('No browser', said)

    def test_without_a_browser_it_goes_on_and_says_so(self):
        began = time.monotonic()
        wait = lambda: time.monotonic() - began > 3
        address, said, code = self.serve('--open', until=wait)
        self.assertEqual([address.startswith('http'), code], [True, 0])
        self.assertIn('there is no program xdg-open', said)
        self.opener('exit 3')
        began = time.monotonic()
        self.assertIn('xdg-open does not know one', self.serve('--open', until=wait)[1])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
