"""Processes that take turns: one measures while all others are asleep."""
import json
import math
import os
import pathlib
import statistics
import subprocess
import time

TURN = 40e6  # nanoseconds that a turn should last, where one call is not longer than that
MOST_CALLS = 1000
DISTURBED = 0.02  # share of a turn's time that threads may wait for a processor
PATIENCE = 5  # turns before one is taken as it comes


class PeerError(RuntimeError):
    pass


class Server:
    """A process that answers one line of JSON per line asked; see attention_bench.cpp and peers.py."""

    def __init__(self, name, command, **environment):
        self.name = name
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **environment},
                                        start_new_session=True)  # Ctrl-C is for us; they end with their input

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.answer(words)

    def answer(self, words):
        line = self.process.stdout.readline()
        if not line:
            raise PeerError(f"{self.name}: ended with status {self.process.wait()} on '{' '.join(map(str, words))}'")
        reply = json.loads(line)
        if "error_text" in reply:
            raise PeerError(f"{self.name}: {reply['error_text']}")
        return reply

    def threads(self, file):
        """A file of /proc for every thread."""
        texts = []
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                texts.append((task / file).read_text())
            except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                pass
        return texts

    def stay_on(self, processors):
        """Keeps its threads on these processors, and with them those that they start."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                os.sched_setaffinity(int(task.name), processors)
            except ProcessLookupError:
                pass

    def asleep(self):
        """No thread of the process runs or wants to."""
        return all(text.rpartition(")")[2].split()[0] == "S" for text in self.threads("stat"))

    def waited(self):
        """Nanoseconds that its threads, ready to run, had to wait for a processor."""
        return sum(int(text.split()[1]) for text in self.threads("schedstat"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Turns:
    """Gives the machine to one server at a time. A turn in which it had to share the processors with something else is
    taken again."""

    def __init__(self):
        self.servers = {}
        self.taken, self.disturbed, self.spoiled = 0, 0, 0

    def add(self, name, command, **environment):
        self.servers[name] = Server(name, command, **environment)
        return name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.close()

    def ask(self, name, *words):
        deadline = time.monotonic() + 10
        while not all(server.asleep() for server in self.servers.values()):
            if time.monotonic() > deadline:
                raise PeerError("a server does not go to sleep: " + ", ".join(
                    server.name for server in self.servers.values() if not server.asleep()))
            time.sleep(0.0005)
        return self.servers[name].ask(*words)

    def measure(self, name, *words):
        for _ in range(PATIENCE):
            before, start = self.servers[name].waited(), time.monotonic_ns()
            reply = self.ask(name, *words)
            self.taken += 1
            if self.servers[name].waited() - before <= DISTURBED * (time.monotonic_ns() - start):
                return reply
            self.disturbed += 1
        self.spoiled += 1
        return reply

    def quietness(self):
        """How undisturbed the turns since the last time were, in words."""
        text = f"{self.taken} turns, {self.disturbed - self.spoiled} repeated because other processes disturbed them"
        text += f"; {self.spoiled} results stand although disturbed" if self.spoiled else ""
        self.taken, self.disturbed, self.spoiled = 0, 0, 0
        return text + "."

    def release(self, *names):
        for name in names:
            self.ask(name, "release")


def plan(nanoseconds):
    """Unmeasured and measured calls for a turn, from the time of one."""
    calls = max(1, min(MOST_CALLS, round(TURN / nanoseconds)))
    return (math.ceil(calls / 10) if nanoseconds < 100e6 else 0), calls


def rounds(turns, entries, count, skip=None):
    """Times of `count` rounds in which all entries take their turn, the first one rotating. entries: {key: (server,
    *request)}, where a request of "time" or "gemm" gets its numbers of calls here. skip(first times) names entries for which three
    rounds are enough. Gives {key: [nanoseconds]} and the last replies."""
    times, replies, plans = {key: [] for key in entries}, {}, {}
    for key, (server, *request) in entries.items():
        warms = request[0] in ("time", "gemm")
        turns.ask(server, *request, *((0, 1) if warms else (1,)))  # prepares the case
        first = turns.ask(server, *request, *((0, 1) if warms else (1,)))["ns"]
        plans[key] = plan(first) if warms else (plan(first)[1],)
    keys = list(entries)
    for number in range(count):
        if number == 3 and skip:
            keys = [key for key in keys if key not in skip(times)]
        start = number % len(keys)
        for key in keys[start:] + keys[:start]:
            server, *request = entries[key]
            replies[key] = turns.measure(server, *request, *plans[key])
            times[key].append(replies[key]["ns"])
    return times, replies


def lower_bound(values):
    """Lower 95 % bound of the median, free of any assumption on the distribution: the k-th smallest value with the
    largest k such that fewer than k of n fair coins fall heads with probability of at most 5 % (the 4th of 15). The
    least value where there are too few."""
    ordered, n = sorted(values), len(values)
    k, below = 0, 0.0
    while below + math.comb(n, k) / 2**n <= 0.05:
        below += math.comb(n, k) / 2**n
        k += 1
    return ordered[max(k - 1, 0)]


def ratios(above, below):
    """Paired by round."""
    return [a / b for a, b in zip(above, below)]


def geomean(values):
    return statistics.geometric_mean(values)
