"""crowd_test.py POLYHEAD MODEL: 32 clients at once and slow ones between them; the server's memory stays where it was."""
import collections
import concurrent.futures
import http.client
import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import unittest
import urllib.parse

POLYHEAD, MODEL = sys.argv[1:3]
CLIENTS, QUESTIONS = 32, 32  # per client and round
WARM, ROUNDS = 2, 4
BOUND = 4 << 20  # bytes that the rounds may add to the server's memory: 4,096 questions, so 1 KiB each is a leak


class Crowd(unittest.TestCase):
    def setUp(self):
        self.start()

    def tearDown(self):
        self.stop()

    def start(self, *options):
        self.server = subprocess.Popen([POLYHEAD, 'serve', MODEL, '--threads', '1', *options], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        self.address = urllib.parse.urlsplit(self.server.stdout.readline().strip())

    def stop(self):
        self.server.send_signal(signal.SIGINT)
        self.assertEqual(self.server.wait(timeout=20), 0)
        self.server.stdout.close()

    def memory(self):
        """Resident bytes of the server."""
        pages = pathlib.Path(f'/proc/{self.server.pid}/statm').read_text().split()[1]
        return int(pages) * 4096

    def connect(self):
        return http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=60)

    def ask(self, connection, what, question):
        connection.request('POST', self.address.path + what, json.dumps(question), {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def client(self, seed):
        """One visitor: all questions on one connection, texts and gates that nobody asked about before."""
        draw, statuses, connection = random.Random(seed), collections.Counter(), self.connect()
        for _ in range(QUESTIONS):
            question = {'text': ' '.join(draw.choices('the a road it was to'.split(), k=draw.randint(1, 60)))}
            what = draw.choice(('read', 'head', 'layer', 'rank'))
            if what != 'rank':
                question['gates'] = [[draw.randrange(3), draw.randrange(4), draw.random()]]
            if what == 'head':
                question['head'] = [draw.randrange(3), draw.randrange(4)]
            if what == 'layer':
                question['layer'] = draw.randrange(3)
            statuses[self.ask(connection, what, question)[0]] += 1
        connection.request('GET', self.address.path)
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        return statuses

    def slow_clients(self):
        """Who begin a question and say nothing more."""
        slow = [socket.create_connection((self.address.hostname, self.address.port)) for _ in range(16)]
        for one in slow:
            one.sendall(f'POST {self.address.path}read HTTP/1.1\r\nHost: {self.address.netloc}\r\n'
                        'Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n{"text": "'.encode() + 50000 * b'a')
        return slow

    def round(self, number):
        slow = self.slow_clients()
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as crowd:
            statuses = sum(crowd.map(self.client, range(number * CLIENTS, (number + 1) * CLIENTS)), collections.Counter())
        for one in slow:
            one.close()
        return statuses

    def test_memory_stays(self):
        for number in range(WARM):
            self.round(number)
        before, statuses = self.memory(), collections.Counter()
        for number in range(WARM, WARM + ROUNDS):
            statuses += self.round(number)
        grown = self.memory() - before
        print(f'{sum(statuses.values())} questions, {dict(statuses)}; {before >> 20} MiB and {grown / 2**20:+.1f} MiB')
        self.assertEqual(sum(statuses.values()), ROUNDS * CLIENTS * QUESTIONS)
        self.assertEqual(set(statuses) - {200, 503}, set(), 'answered, or told that it is busy')
        self.assertGreater(statuses[200], ROUNDS * CLIENTS * QUESTIONS / 2)
        self.assertLess(grown, BOUND)

    def test_too_many_at_once_hear_that_it_is_busy(self):
        crowd = [self.connect() for _ in range(40)]
        for n, one in enumerate(crowd):  # the first takes long; 32 may wait
            question = {'text': 'a ' * (1900 if n == 0 else 1)}
            one.request('POST', self.address.path + 'read', json.dumps(question), {'Content-Type': 'application/json'})
        answers = [one.getresponse() for one in crowd]
        statuses = collections.Counter(answer.status for answer in answers)
        self.assertEqual(set(statuses), {200, 503}, statuses)
        for answer, connection in zip(answers, crowd):
            body = json.loads(answer.read())
            if answer.status == 503:
                self.assertEqual((body, answer.headers['Retry-After']), ({'error': 'busy'}, '1'))
            connection.close()
        late = self.connect()
        self.assertEqual(self.ask(late, 'read', {'text': 'a road'})[0], 200, 'and it goes on')
        late.close()

    def test_it_listens_where_it_is_told(self):
        usual = self.address.hostname
        self.stop()
        self.start('--host', '127.0.0.2')
        self.assertEqual(self.address.hostname, '127.0.0.2')
        there = self.connect()
        self.assertEqual(self.ask(there, 'read', {'text': 'a road'})[0], 200)
        there.close()
        with self.assertRaises(ConnectionRefusedError, msg='and nowhere else'):
            http.client.HTTPConnection(usual, self.address.port, timeout=60).connect()


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
