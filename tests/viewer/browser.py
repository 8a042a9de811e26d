"""A browser without a window, driven over a pair of pipes in the DevTools protocol: no driver to install."""
import base64
import fcntl
import json
import os
import subprocess
import tempfile


class Browser:
    """Chromium, with its protocol on file descriptors 3 (in) and 4 (out)."""

    def __init__(self, executable):
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command_out, self._commands = os.pipe()
        self._answers, answers_in = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (command_out, answers_in)]

        def connect():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        arguments = [executable, '--headless', '--remote-debugging-pipe', f'--user-data-dir={self._home.name}',
                     '--no-first-run', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
                     '--disable-background-networking', 'about:blank']
        if os.geteuid() == 0:
            arguments.insert(1, '--no-sandbox')
        self._process = subprocess.Popen(arguments, preexec_fn=connect, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (command_out, answers_in, *ends):
            os.close(end)
        self._unread = b''
        self._count = 0
        self.events = []

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._home.cleanup()

    def _receive(self):
        while b'\0' not in self._unread:
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise ConnectionError('the browser has gone')
            self._unread += part
        message, self._unread = self._unread.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self._count += 1
        message = {'id': self._count, 'method': method, 'params': parameters}
        if session:
            message['sessionId'] = session
        data = json.dumps(message).encode() + b'\0'
        while data:
            data = data[os.write(self._commands, data):]
        while True:
            answer = self._receive()
            if answer.get('id') == self._count:
                if 'error' in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer['result']
            self.events.append(answer)

    def wait_for(self, event):
        while not any(one.get('method') == event for one in self.events):
            self.events.append(self._receive())


class Tab:
    """One page of a given width and theme."""

    KEYS = {'Enter': 13, 'Escape': 27, 'ArrowLeft': 37, 'ArrowUp': 38, 'ArrowRight': 39, 'ArrowDown': 40, 'Tab': 9}

    def __init__(self, browser, width, height, theme):
        self._browser = browser
        target = browser.call('Target.createTarget', url='about:blank')['targetId']
        self._session = browser.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(f'{domain}.enable')
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.set_theme(theme)

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def set_theme(self, theme):
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': theme},
                                                          {'name': 'prefers-reduced-motion', 'value': 'reduce'}])

    def open(self, address):
        self.load(address)
        self.settle()

    def load(self, address):
        self._browser.events.clear()
        self.call('Page.navigate', url=address)
        self._browser.wait_for('Page.loadEventFired')

    def settle(self):
        """Two frames later everything that was asked for has been drawn."""
        self.run('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => null)')

    def run(self, script):
        result = self.call('Runtime.evaluate', expression=script, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in result:
            raise RuntimeError(result['exceptionDetails'].get('exception', {}).get('description', script))
        return result['result'].get('value')

    def processor_seconds(self, script):
        """What the page's thread computes while the script runs: a busy machine does not make it more."""
        def seconds():
            return next(one['value'] for one in self.call('Performance.getMetrics')['metrics'] if one['name'] == 'TaskDuration')
        self.call('Performance.enable', timeDomain='threadTicks')
        before = seconds()
        self.run(script)
        return seconds() - before

    def text(self, selector):
        return self.run(f'document.querySelector({json.dumps(selector)}).innerText')

    def press(self, key):
        code = {'key': key, 'code': key, 'windowsVirtualKeyCode': self.KEYS[key]}
        self.call('Input.dispatchKeyEvent', type='keyDown', **code, **({'text': '\r'} if key == 'Enter' else {}))
        self.call('Input.dispatchKeyEvent', type='keyUp', **code)
        self.settle()

    def take(self, key, modifiers=0):
        """Presses it with Alt (1), Control (2), Meta (4) or Shift (8); whether the page took it for itself."""
        self.run("""window.taken = null; addEventListener('keydown', (event) =>
            setTimeout(() => { taken = event.defaultPrevented; }), {capture: true, once: true}); null""")
        self.call('Input.dispatchKeyEvent', type='rawKeyDown', key=key, modifiers=modifiers)
        self.call('Input.dispatchKeyEvent', type='keyUp', key=key, modifiers=modifiers)
        self.settle()
        return self.run('taken')

    def point(self, selector, across=0.5, down=0.5, click=True):
        """Moves the pointer to a place within an element, by shares of its size, and clicks there."""
        x, y = self.run(f'''(() => {{
            const target = document.querySelector({json.dumps(selector)});
            target.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const box = target.getBoundingClientRect();
            return [box.x + {across} * box.width, box.y + {down} * box.height];
        }})()''')
        self.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)
        for kind in ('mousePressed', 'mouseReleased') if click else ():
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', clickCount=1)
        self.settle()

    def screenshot(self, path, whole=False):
        size = self.call('Page.getLayoutMetrics')['cssContentSize']
        clip = {'clip': {**size, 'height': min(size['height'], 5000), 'scale': 1}} if whole else {}
        data = self.call('Page.captureScreenshot', captureBeyondViewport=whole, **clip)['data']
        with open(path, 'wb') as file:
            file.write(base64.b64decode(data))

    def complaints(self):
        """Console errors and warnings, exceptions, violations of the policy."""
        self.run('null')
        found = []
        for event in self._browser.events:
            method, about = event.get('method'), event.get('params', {})
            if method == 'Runtime.exceptionThrown':
                found.append(about['exceptionDetails'].get('exception', {}).get('description', 'exception'))
            elif method == 'Runtime.consoleAPICalled' and about['type'] in ('error', 'warning', 'assert'):
                found.append(str(about['args']))
            elif method == 'Log.entryAdded':
                found.append(about['entry']['text'])
        return found

    def requests(self):
        self.run('null')
        return [event['params']['request']['url'] for event in self._browser.events
                if event.get('method') == 'Network.requestWillBeSent']
