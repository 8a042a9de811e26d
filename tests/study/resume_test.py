"""resume_test.py POLYHEAD FOLDER: a quick study that meets a full disk, Ctrl-C and kill -9 goes on to the same numbers.

What it leaves in FOLDER is a finished study, for others to look at.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

POLYHEAD, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
MPIRUN = os.environ.get('POLYHEAD_MPIRUN')  # of a build that has ranks
os.environ |= {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_rmaps_base_oversubscribe': '1'}
TIMES = ('seconds', 'seconds_of_one', 'seconds_of_16', 'threads')


def ranks_of(folder):
    """The processes that work on this study, by rank."""
    found = {}
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            words = (entry / 'cmdline').read_bytes().split(b'\0')
            rank = re.search(rb'OMPI_COMM_WORLD_RANK=(\d+)', (entry / 'environ').read_bytes())
        except OSError:
            continue
        if rank and os.fsencode(POLYHEAD) == words[0] and os.fsencode(folder) in words:
            found[int(rank[1])] = int(entry.name)
    return found


def start(folder, *options, largest_file=None, ranks=1):
    def limit():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever started us may ignore it
        if largest_file is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    launcher = [MPIRUN, '-n', str(ranks)] if ranks > 1 else []
    return subprocess.Popen([*launcher, POLYHEAD, 'study', '--quick', *options, '--out', str(folder)], preexec_fn=limit,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def seconds_of_processors(process):
    fields = pathlib.Path(f'/proc/{process.pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def first_estimate(process):
    """What it says first of how long all will take, and all that it says, when it has ended.

    In seconds of processors: what others do on the machine meanwhile slows the clock down, and not that.
    """
    begin, estimate, errors = time.monotonic(), None, ''
    for line in process.stderr:
        errors += line
        said = re.search(r'(?:(\d+):)?(\d+):(\d+) to go', line)
        if said and estimate is None:
            hours, minutes, seconds = (int(part or 0) for part in said.groups())
            elapsed = time.monotonic() - begin
            all_of_it = elapsed + 3600 * hours + 60 * minutes + seconds
            estimate = all_of_it * seconds_of_processors(process) / elapsed
    return estimate, errors


def wait_for_courses(process, folder, count):
    while process.poll() is None and len(list(folder.glob('models/*/course.json'))) < count:
        time.sleep(0.01)


def numbers(value):
    """All of study.json but times, and how many threads there were."""
    if isinstance(value, dict):
        return {key: numbers(inner) for key, inner in value.items() if key not in TIMES}
    return [numbers(inner) for inner in value] if isinstance(value, list) else value


def study_of(folder):
    return json.loads((folder / 'study.json').read_text())


class Resume(unittest.TestCase):
    maxDiff = 2000

    def kill_a_rank(self, folder, ranks):
        """Once a model more is done. The others end, it is kept, and nobody is left."""
        before = len(list(folder.glob('models/*/course.json')))
        broken = start(folder, '--resume', ranks=ranks)
        wait_for_courses(broken, folder, before + 1)
        os.kill(ranks_of(folder)[1], signal.SIGKILL)
        _, errors = broken.communicate(timeout=30)
        self.assertNotEqual(broken.returncode, 0)
        self.assertRegex(errors, 'rank 1 .*signal 9')
        self.assertGreater(len(list(folder.glob('models/*/course.json'))), before)
        self.assertEqual(ranks_of(folder), {})

    def test_goes_on_to_the_same_numbers(self):
        shutil.rmtree(FOLDER, ignore_errors=True)
        full = start(FOLDER, largest_file=1000)
        self.assertEqual(full.wait(), 4)
        self.assertIn('File too large', full.stderr.read())
        refused = start(FOLDER)
        self.assertEqual(refused.wait(), 3)
        self.assertRegex(refused.stderr.read(), '--resume.*--force')

        stopped = start(FOLDER, '--resume')
        wait_for_courses(stopped, FOLDER, 2)
        stopped.send_signal(signal.SIGINT)
        _, errors = stopped.communicate()
        self.assertEqual(stopped.returncode, 130, errors)
        self.assertIn(f'To continue: polyhead study --resume --quick --out {FOLDER}', errors)
        self.assertFalse((FOLDER / 'study.json').exists())

        killed = start(FOLDER, '--resume')
        before = {path: path.stat().st_mtime_ns for path in FOLDER.glob('models/*/course.json')}
        wait_for_courses(killed, FOLDER, len(before) + 3)
        killed.kill()
        killed.communicate()
        for path, when in before.items():
            self.assertEqual(path.stat().st_mtime_ns, when, f'{path} was trained again')

        begin = time.monotonic()
        finished = start(FOLDER, '--resume')
        estimate, errors = first_estimate(finished)
        findings = finished.stdout.read()
        _, status, usage = os.wait4(finished.pid, 0)
        finished.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(finished.returncode, 0, errors)
        elapsed, processors = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
        self.assertIn('report.html shows it all', findings)
        self.assertTrue(0 < study_of(FOLDER)['seconds'] < elapsed, f"{study_of(FOLDER)['seconds']} of {elapsed} s")
        self.assertLessEqual(max(map(len, findings.splitlines())), 100)
        self.assertNotIn('-0.0 %', findings)
        if estimate is None:
            self.assertLess(processors, 10 * len(os.sched_getaffinity(0)), errors)
        else:
            self.assertLess(estimate, 1.5 * processors, errors)
            self.assertGreater(estimate, processors / 1.5, errors)

        # Some courses once more: their numbers, and all that rests on them, are the same. So they are on ranks.
        other = FOLDER.with_name(FOLDER.name + '-again')
        for ranks in (1, 3) if MPIRUN else (1,):
            shutil.rmtree(other, ignore_errors=True)
            shutil.copytree(FOLDER, other)
            copies = sorted(other.glob('models/copy-*/course.json'))
            for path in [copies[0], copies[-1], *other.glob('models/repeat-one-layer*/course.json')]:
                path.unlink()
            if ranks > 1:
                self.kill_a_rank(other, ranks)
            again = start(other, '--resume', ranks=ranks)
            findings, errors = again.communicate()
            self.assertEqual(again.returncode, 0, errors)
            self.assertEqual(numbers(study_of(other)), numbers(study_of(FOLDER)))
            self.assertEqual(findings.count('report.html shows it all'), 1)
        shutil.rmtree(other)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
