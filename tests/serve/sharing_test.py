"""sharing_test.py CHROMIUM POLYHEAD FOLDER: a view is shared as an address, a page, a drawing, a picture and an animation."""
import base64
import struct
import xml.etree.ElementTree

import live_page_test
from live_page_test import FOLDER, Live
from browser import Tab

VIEW = '#text=the+road+the+road&off=0.1,1.2:0.5&pin=2.1&token=3'
KEEP = """window.saved = {}; save.file = async (name, type, content) => {
    const bytes = new Uint8Array(await new Blob([content]).arrayBuffer());
    saved[name] = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}; null"""


class Sharing(Live):
    model = 'gpt'

    def opened(self, at=VIEW):
        tab = self.tab(at=at)
        self.wait(tab, 'look.matrix !== null')
        self.until_found(tab)
        tab.run(KEEP)
        tab.run("byId('share').open = true; null")
        return tab

    def saved(self, tab, which):
        """(its name, its bytes)"""
        tab.run(f"saved = {{}}; byId('share-{which}').click(); null")
        self.wait(tab, "Object.keys(saved).length === 1 && !live.reading && !byId('share-page').disabled")
        (name, data), = tab.run('saved').items()
        return name, base64.b64decode(data)

    def test_the_address_says_all(self):
        tab = self.opened()
        tab.run("navigator.clipboard.writeText = async (words) => { window.copied = words; }; byId('share-address').click(); null")
        self.wait(tab, "byId('shared').textContent !== ''")
        self.assertEqual(tab.run('copied'), tab.run('location.href'))
        shown = "[currentSample().tokens, gates.text(), look.shown, state.token, byId('colour').value]"
        self.assertEqual(tab.run(shown), self.opened(tab.run('new URL(copied).hash')).run(shown))

    def test_a_page_opens_without_the_server_as_it_is_seen(self):
        tab = self.opened(VIEW + '&versus=the+road+a+road&colour=entropy+(nats)')
        shown = """[currentSample().tokens, look.shown, state.token, byId('colour').value, document.title, grid.cells().map((one) => one.ariaLabel.split(', off')[0]
            .split(', gate')[0]), comparison.sample().tokens, [...look.matrix.bytes], byId('outcome-name').textContent]"""
        name, content = self.saved(tab, 'page')
        self.assertEqual(name, 'gpt.html')
        file = FOLDER / 'shared.html'
        file.write_bytes(content)
        alone = Tab(self.browser, 1440, 900, 'light')
        alone.open(file.as_uri())
        self.wait(alone, "typeof look === 'object' && look.matrix !== null")
        self.assertEqual(alone.run(shown), tab.run(shown))
        self.assertIn('0.1 off', alone.text('#about'))
        self.assertEqual(alone.complaints(), [])
        self.assertTrue(all(url.startswith(('file:', 'data:')) for url in alone.requests()))

    def test_a_drawing_and_a_picture(self):
        tab = self.opened()
        name, content = self.saved(tab, 'svg')
        self.assertEqual(name, 'gpt.svg')
        drawn = xml.etree.ElementTree.fromstring(content)
        words = [one.text for one in drawn.iter('{http://www.w3.org/2000/svg}text')]
        for token in tab.run('currentSample().tokens'):
            self.assertGreaterEqual(words.count(token), 2, 'a row and a column')
        for token, share in tab.run('currentSample().predictions[3]'):
            self.assertIn(token, words)
            self.assertIn(f'{100 * share:.1f} %', words)
        self.assertIn('Gates turned: 0.1, 1.2:0.5', words)
        self.assertIn('Head 2.1: no clear role', words)
        name, content = self.saved(tab, 'png')
        self.assertEqual((name, content[:8]), ('gpt.png', b'\x89PNG\r\n\x1a\n'))
        self.assertEqual(struct.unpack('>II', content[16:24]), tuple(2 * int(drawn.get(side)) for side in ('width', 'height')))

    def frames(self, tab, gif):
        """As Chromium decodes it: [width, height, how long, number of colours, sum of all numbers] of each."""
        return tab.run(f"""(async () => {{
            const decoder = new ImageDecoder({{type: 'image/gif', data: Uint8Array.from(atob('{base64.b64encode(gif).decode()}'), (one) => one.charCodeAt(0))}});
            await decoder.tracks.ready;
            await decoder.completed;
            const found = [];
            for (let frameIndex = 0; frameIndex < decoder.tracks.selectedTrack.frameCount; ++frameIndex) {{
                const {{image}} = await decoder.decode({{frameIndex}}), canvas = new OffscreenCanvas(image.displayWidth, image.displayHeight);
                const pen = canvas.getContext('2d', {{willReadFrequently: true}});
                pen.drawImage(image, 0, 0);
                found.push({{wide: canvas.width, high: canvas.height, lasts: image.duration,
                    pixels: [...new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer)]}});
            }}
            return found;
        }})()""")

    def test_an_animation_of_a_knock_out(self):
        for at, off in ((VIEW, '0.1,1.2:0.5'), ('#text=the+road+the+road&pin=2.1', '')):
            tab = self.opened(at)
            tab.run('writeAddress(false)')
            address = tab.run('location.hash')
            name, content = self.saved(tab, 'gif')
            self.assertEqual((name, content[:6]), ('gpt.gif', b'GIF89a'))
            one, other = self.frames(tab, content)
            self.assertEqual([(one[side], other[side]) for side in ('wide', 'high', 'lasts')],
                             [(one['wide'],) * 2, (one['high'],) * 2, (1600000,) * 2])
            self.assertNotEqual(one['pixels'], other['pixels'], 'something changes')
            self.assertEqual(tab.run("[gates.text(), location.hash, gates.past.length]"), [off, address, 0], 'all is as it was')
            # The last picture is what is seen, in at most 256 colours.
            if off:
                seen = tab.run("sharing.pixels().then(({data}) => [...data])")
                self.assertEqual(len(seen), 4 * len(other['pixels']))
                apart = [abs((pixel >> 8 * c & 255) - seen[4 * i + c]) for i, pixel in enumerate(other['pixels']) for c in range(3)]
                self.assertLess(sum(apart) / len(apart), 3)
                self.assertLessEqual(len(set(other['pixels'])), 256)

    def test_what_goes_wrong_is_said(self):
        tab = self.opened()
        tab.run("window.fetch = async () => new Response(JSON.stringify({error: 'no room'}), {status: 422}); byId('share-page').click(); null")
        self.wait(tab, "byId('shared').textContent === 'no room'")
        self.assertFalse(tab.run("byId('share-page').disabled"))

    def test_it_can_be_read_by_all(self):
        for size in ('wide', 'narrow'):
            for theme in ('light', 'dark'):
                tab = self.tab(size, theme)
                tab.run("document.querySelector('#share summary').click(); null")
                tab.settle()
                self.expect_fitting(tab)
                self.expect_legible(tab)
                self.expect_accessible(tab)


if __name__ == '__main__':
    live_page_test.unittest.main(argv=live_page_test.sys.argv[:1] + live_page_test.sys.argv[4:], verbosity=2)
