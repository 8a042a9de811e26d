// Pictures that follow each other, as a GIF that repeats.

const paletteSize = 256, numberBits = 8;  // of a number in it

// Colours with 5 bits each are counted; the commonest are kept, the others become the nearest of them.
function paletteOf(frames) {
  const counts = new Uint32Array(1 << 15), sums = new Float64Array(3 << 15);
  const binAt = (data, i) => data[i] >> 3 << 10 | data[i + 1] >> 3 << 5 | data[i + 2] >> 3;
  for (const {data} of frames) {
    for (let i = 0; i < data.length; i += 4) {
      const bin = binAt(data, i);
      ++counts[bin];
      for (let c = 0; c < 3; ++c) sums[3 * bin + c] += data[i + c];
    }
  }
  const bins = [...counts.keys()].filter((bin) => counts[bin]).sort((a, b) => counts[b] - counts[a]);
  const palette = bins.slice(0, paletteSize).map((bin) => [0, 1, 2].map((c) => Math.round(sums[3 * bin + c] / counts[bin])));
  const nearest = new Uint8Array(1 << 15);
  for (const bin of bins) {
    const colour = [bin >> 10 << 3, (bin >> 5 & 31) << 3, (bin & 31) << 3].map((value) => value + 4);
    let best = Infinity;
    palette.forEach((one, at) => {
      const distance = one.reduce((sum, value, c) => sum + (value - colour[c]) ** 2, 0);
      if (distance < best) [best, nearest[bin]] = [distance, at];
    });
  }
  return {palette, numbers: ({data}) => Uint8Array.from({length: data.length / 4}, (_, i) => nearest[binAt(data, 4 * i)])};
}

// LZW as GIF has it: codes of 9 to 12 bits, begun anew when all are used.
function compressed(numbers) {
  const clear = 1 << numberBits, end = clear + 1, out = [], known = new Map();
  let size = numberBits + 1, next = end + 1, held = 0, bits = 0, prefix = numbers[0];
  const put = (code) => {
    held |= code << bits;
    for (bits += size; bits >= 8; bits -= 8, held >>>= 8) out.push(held & 255);
    if (next === 1 << size && size < 12) ++size;
  };
  put(clear);
  for (let i = 1; i < numbers.length; ++i) {
    const string = prefix << 8 | numbers[i], code = known.get(string);
    if (code !== undefined) {
      prefix = code;
      continue;
    }
    put(prefix);
    prefix = numbers[i];
    if (next < 1 << 12) known.set(string, next++);
    else {
      put(clear);
      known.clear();
      [size, next] = [numberBits + 1, end + 1];
    }
  }
  put(prefix);
  put(end);
  if (bits) out.push(held & 255);
  return out;
}

// frames: ImageData of one size; seconds each.
export function gifOf(frames, seconds) {
  const [{width, height}] = frames, {palette, numbers} = paletteOf(frames), bytes = [];
  const short = (value) => [value & 255, value >> 8], letters = (words) => [...words].map((letter) => letter.charCodeAt(0));
  const put = (...parts) => parts.forEach((part) => bytes.push(...[part].flat()));
  put(letters('GIF89a'), short(width), short(height), 0xf7, 0, 0);
  for (let at = 0; at < paletteSize; ++at) put(palette[at] ?? [0, 0, 0]);
  put(0x21, 0xff, 11, letters('NETSCAPE2.0'), 3, 1, 0, 0, 0);
  for (const frame of frames) {
    put(0x21, 0xf9, 4, 4, short(Math.round(100 * seconds)), 0, 0, 0x2c, 0, 0, 0, 0, short(width), short(height), 0, numberBits);
    const data = compressed(numbers(frame));
    for (let at = 0; at < data.length; at += 255) put(Math.min(255, data.length - at), data.slice(at, at + 255));
    put(0);
  }
  put(0x3b);
  return Uint8Array.from(bytes);
}
