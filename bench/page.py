#!/usr/bin/env python3
"""page.py POLYHEAD MINILM SMOLLM2: what the live page and the offline page take in Chromium.

The least of several rounds each: what the page takes, not what else the machine is doing. Prints a table for docs/page.md.
"""
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tests/viewer'))
from browser import Browser, Tab  # noqa: E402

POLYHEAD, MINILM, SMOLLM2 = sys.argv[1:]
SENTENCE = 'The animal did not cross the road because it was too tired. '
ROUNDS = 9


class Server:
    def __init__(self, model):
        self.process = subprocess.Popen([POLYHEAD, 'serve', model], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().strip()

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process.stdout.close()


def until(tab, condition, seconds=60):
    end = time.monotonic() + seconds
    while not tab.run(condition):
        if time.monotonic() > end:
            raise TimeoutError(f"{condition}: {tab.text('#status')}")
        time.sleep(0.01)


def text_of(tab, address, tokens):
    """Of about so many tokens, by asking the page how many a sentence has."""
    def count(text):
        tab.open('about:blank')
        tab.load(address + '#text=' + urllib.parse.quote(text))
        until(tab, '!live.reading && sides.whole !== null')
        return tab.run('currentSample().tokens.length')

    once, twice = count(SENTENCE), count(2 * SENTENCE)
    return SENTENCE * (1 + (tokens - once) // (twice - once))


def knock_out(tab, address, tokens):
    """Milliseconds from the click that switches a head off to the frame with the new predictions."""
    text = text_of(tab, address, tokens)
    tab.open('about:blank')
    tab.load(address + '#text=' + urllib.parse.quote(text))
    until(tab, '!live.reading && sides.whole !== null')
    times = []
    for head in range(ROUNDS):
        times.append(tab.run(f'''new Promise((done) => {{
            const began = performance.now(), cell = grid.cells()[{head}];
            new MutationObserver((_, observer) => {{
                observer.disconnect();
                requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
            }}).observe(byId('outcome-body'), {{childList: true}});
            cell.dispatchEvent(new MouseEvent('click', {{bubbles: true, shiftKey: true}}));
        }})'''))
        until(tab, '!live.reading')
    return min(times)


def pointing(tab, address, tokens):
    """Milliseconds from pointing at a head to the frame with its map: in the layer that is looked at, in another one."""
    text = text_of(tab, address, tokens)
    tab.open('about:blank')
    tab.load(address + '#text=' + urllib.parse.quote(text))
    until(tab, '!live.reading && look.matrix !== null')

    def took(key):
        return tab.run(f'''new Promise((done) => {{
            const began = performance.now(), cell = document.querySelector('.cell[data-head="{key}"]');
            const shown = () => look.drawn === '{key}' ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)))
                : setTimeout(shown, 1);
            cell.dispatchEvent(new PointerEvent('pointerover', {{bubbles: true}}));
            shown();
        }})''')

    took('0.0')
    same = min(took(f'0.{head}') for head in range(1, 1 + min(ROUNDS, 8)))
    return same, min(took(f'{layer}.0') for layer in range(1, 1 + ROUNDS))


def first_view(tab, address, text):
    """Seconds from opening the address to the page with the text."""
    times = []
    for _ in range(3):
        tab.open('about:blank')
        began = time.monotonic()
        tab.load(address + '#text=' + urllib.parse.quote(text))
        until(tab, '!live.reading && look.matrix !== null')
        tab.settle()
        times.append(time.monotonic() - began)
    return min(times)


def panning(tab, address, text):
    """Milliseconds that a frame's drawing takes while the map is panned, and frames a second."""
    tab.open('about:blank')
    tab.load(address + '#head=0.0')
    until(tab, '!live.reading && sides.whole !== null')
    tab.run(f"byId('text').value = {text!r}; live.onText()")
    until(tab, '!live.reading && map.matrix?.queries > 1500', 120)
    tab.run('map.zoomBy(4)')
    found = [tab.run('''new Promise((done) => {
        let frames = 0, drawing = 0;
        const began = performance.now(), step = () => {
            const before = performance.now();
            map.pan(frames % 100 < 50 ? -7 : 7, -3);
            map.draw();
            drawing += performance.now() - before;
            if (++frames < 120) requestAnimationFrame(step);
            else done([drawing / frames, 1000 * frames / (performance.now() - began)]);
        };
        requestAnimationFrame(step);
    })''') for _ in range(3)]
    return min(one[0] for one in found), max(one[1] for one in found), tab.run('map.matrix.queries')


def offline(tab, text, folder):
    """Megabytes, heads, and seconds until a head of the file can be looked at."""
    (folder / 'text.txt').write_text(text)
    file = folder / 'page.html'
    subprocess.run([POLYHEAD, 'view', SMOLLM2, '--text', folder / 'text.txt', '--out', file], check=True, capture_output=True)
    times = []
    for _ in range(3):
        tab.open('about:blank')
        began = time.monotonic()
        tab.load(file.as_uri() + '#head=10.3')
        until(tab, 'map.matrix !== null')
        tab.settle()
        times.append(time.monotonic() - began)
    return file.stat().st_size / 1e6, tab.run('currentModel().heads.length'), min(times)


def main():
    rows, browser = [], Browser('chromium')
    with tempfile.TemporaryDirectory() as folder:
        tab = Tab(browser, 1280, 860, 'light')
        for name, model, bar in (('MiniLM', MINILM, 100), ('SmolLM2-135M', SMOLLM2, 400)):
            server = Server(model)
            print(name, file=sys.stderr)
            rows.append((f'a head switched off, {name}, 64 tokens', f'{knock_out(tab, server.address, 64):.0f} ms', f'{bar} ms'))
            if model == SMOLLM2:
                same, other = pointing(tab, server.address, 64)
                rows.append(('another head of the same layer pointed at, 64 tokens', f'{same:.0f} ms', '100 ms'))
                rows.append(('a head of another layer pointed at, 64 tokens', f'{other:.0f} ms', '400 ms'))
                rows.append(('first view of 64 tokens, with a map', f"{first_view(tab, server.address, text_of(tab, server.address, 64)):.2f} s", '3 s'))
                text = text_of(tab, server.address, 512)
                rows.append(('first view of 512 tokens, SmolLM2-135M', f'{first_view(tab, server.address, text):.2f} s', '3 s'))
                milliseconds, frames, tokens = panning(tab, server.address, 4 * text[:-60])
                rows.append((f'panning a map of {tokens:,} tokens', f'{frames:.0f} frames a second, {milliseconds:.1f} ms each', '60'))
            server.close()
        size, heads, seconds = offline(tab, text, pathlib.Path(folder))
        rows.append((f'offline file, {heads} heads × 512 tokens', f'{size:.1f} MB, open in {seconds:.2f} s', '30 MB for 144 heads, 2 s'))
    browser.close()
    print(f'{time.strftime("%Y-%m-%d")}, {platform.processor() or platform.machine()}, '
          f'{subprocess.run(["nproc"], capture_output=True, text=True).stdout.strip()} cores, '
          f'{subprocess.run(["chromium", "--version"], capture_output=True, text=True).stdout.strip()}, '
          f'{subprocess.run([POLYHEAD, "--version"], capture_output=True, text=True).stdout.strip()}\n')
    print('| what | measured | bar |\n|---|---|---|')
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')


if __name__ == '__main__':
    main()
