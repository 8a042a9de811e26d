// Every visible text whose contrast with what lies beneath is too low: 4.5, or 3 for large letters (WCAG AA).
(() => {
  const parse = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const over = (top, below) =>
    Object.fromEntries(['r', 'g', 'b'].map((c) => [c, top.a * top[c] + (1 - top.a) * below[c]]));
  const light = ({r, g, b}) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const beneath = (element) => {
    if (!element) return {r: 255, g: 255, b: 255};
    const colour = parse(getComputedStyle(element).backgroundColor);
    return colour.a === 1 ? colour : over(colour, beneath(element.parentElement));
  };
  const centre = (box) => [box.x + box.width / 2, box.y + box.height / 2];
  // Numbers of a figure may stand on a shaded cell.
  const cells = [...document.querySelectorAll('.plot g.heat rect, .plot g.cold rect')].map((rect) =>
    ({rect, box: rect.getBoundingClientRect()}));
  const cellUnder = (element) => {
    const [x, y] = centre(element.getBoundingClientRect());
    return cells.find(({box}) => x > box.left && x < box.right && y > box.top && y < box.bottom)?.rect;
  };
  const ground = (element, drawn) => {
    const paper = beneath(drawn ? element.closest('.plot') : element), cell = drawn && cellUnder(element);
    if (!cell) return paper;
    return over({...parse(getComputedStyle(cell).fill), a: Number(cell.getAttribute('fill-opacity'))}, paper);
  };
  const scope = document.querySelector('dialog[open]') || document.body;
  const walker = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT), found = [];
  let checked = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element), drawn = element.namespaceURI.endsWith('svg');
    if (!node.data.trim() || element.closest('script,style,noscript,title,desc,option')) continue;
    if (!element.checkVisibility()) continue;
    const paper = ground(element, drawn), ink = over(parse(drawn ? style.fill : style.color), paper);
    const [low, high] = [light(ink), light(paper)].sort((a, b) => a - b), ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    ++checked;
    const name = element.className.baseVal ?? element.className;
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${name}: ${node.data.trim()}`);
  }
  return {checked, found};
})()
