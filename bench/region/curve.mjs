// Draws commands per accept over accepts per key and second, both on logarithmic scales.

const width = 820;
const plot = { left: 84, top: 76, right: 780, bottom: 430 };

const style = `text{font-family:'DejaVu Sans',Verdana,sans-serif;fill:#1c2733}
.title{font-size:18px;font-weight:bold}.label{font-size:12px}.note{font-size:11px;fill:#5b6875}
.grid{stroke:#e3e8ec}.curve{fill:none;stroke:#1668b8;stroke-width:2}.dot{fill:#1668b8}
.bar{stroke:#7b8794;stroke-dasharray:4 3}`;

// A scale from values to pixels.
function logarithmic([least, most], [from, to]) {
  const span = Math.log(most / least);
  return (value) => from + (Math.log(value / least) / span) * (to - from);
}

// 1, 2 and 5 times powers of ten within a range.
function ticks([least, most]) {
  const all = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); ++power) {
    all.push(...[1, 2, 5].map((step) => Number(`${step}e${power}`)));
  }
  return all.filter((value) => value >= least && value <= most);
}

// From the tick below the least to the tick above the greatest.
function rangeOf(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const around = ticks([least / 10, most * 10]);
  return [around.findLast((value) => value <= least), around.find((value) => value >= most)];
}

// `points` are {accepts, commands}; `bar` is what `commands` should not exceed, from `from` on.
export function drawCurve(points, { bar, from, machine }) {
  const [accepts, commands] = ['accepts', 'commands'].map((what) => points.map((point) => point[what]));
  const ranges = { x: rangeOf(accepts), y: rangeOf([...commands, bar]) };
  const x = logarithmic(ranges.x, [plot.left, plot.right]);
  const y = logarithmic(ranges.y, [plot.bottom, plot.top]);
  const at = (value) => value.toFixed(1);
  const text = (kind, left, top, words, anchor = 'start') =>
    `<text x="${at(left)}" y="${at(top)}" class="${kind}" text-anchor="${anchor}">${words}</text>\n`;
  const line = (kind, x1, y1, x2, y2) =>
    `<line x1="${at(x1)}" y1="${at(y1)}" x2="${at(x2)}" y2="${at(y2)}" class="${kind}"/>\n`;

  let out = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} 500" width="${width}" height="500">\n`;
  out += `<style>${style}</style>\n<rect width="100%" height="100%" fill="#ffffff"/>\n`;
  out += text('title', 24, 32, 'Commands to Redis per accepted request (less is better)');
  const where = `${machine.processor}, ${machine.cores} cores, ${machine.date}`;
  out += text('note', 24, 52, `${where}. Both scales logarithmic.`);
  for (const value of ticks(ranges.x)) {
    out += line('grid', x(value), plot.top, x(value), plot.bottom);
    out += text('note', x(value), plot.bottom + 16, value, 'middle');
  }
  for (const value of ticks(ranges.y)) {
    out += line('grid', plot.left, y(value), plot.right, y(value));
    out += text('note', plot.left - 8, y(value) + 4, value, 'end');
  }
  out += line('bar', x(from), y(bar), plot.right, y(bar));
  out += text('note', plot.right, y(bar) - 6, `wanted: ≤ ${bar}`, 'end');
  const path = points.map((point) => `${at(x(point.accepts))},${at(y(point.commands))}`).join(' ');
  out += `<polyline points="${path}" class="curve"/>\n`;
  for (const point of points) {
    const [left, top] = [x(point.accepts), y(point.commands)];
    out += `<circle cx="${at(left)}" cy="${at(top)}" r="3.5" class="dot"/>\n`;
    out += text('label', left - 6, top + 18, point.commands.toPrecision(2), 'end');
  }
  out += text('label', (plot.left + plot.right) / 2, plot.bottom + 40, 'accepts per key and second', 'middle');
  return `${out}</svg>\n`;
}
