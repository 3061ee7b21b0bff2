// Charts as SVG files: panels of grouped bars or of lines. Colours follow the viewer's light or dark
// scheme. Series also differ by shape: bars by their order, lines by their point markers.

const kPalette = { // one colour per series
  light: ['#0b6bcb', '#c8501e', '#2c8a4b', '#8a4fbf', '#b3881a', '#5a6672'],
  dark: ['#6cb2ff', '#ff9a6b', '#72d394', '#c9a0f2', '#e6c35c', '#a9b4bf'],
};
const kMarkers = [
  (x, y) => `<circle cx="${x}" cy="${y}" r="3.6"/>`,
  (x, y) => `<rect x="${rounded(x - 3.3)}" y="${rounded(y - 3.3)}" width="6.6" height="6.6"/>`,
  (x, y) => `<path d="M${x} ${rounded(y - 4.2)}l4.2 7.4h-8.4z"/>`,
];

const rounded = (value) => Math.round(value * 10) / 10;
const escaped = (text) => String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

// "1.2M", "12.3k", "123", "1.23".
export function shortNumber(value) {
  const magnitude = Math.abs(value);
  if (magnitude >= 1e6) return `${+(value / 1e6).toPrecision(2)}M`;
  if (magnitude >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  if (magnitude >= 100) return `${Math.round(value)}`;
  return `${+value.toPrecision(3)}`;
}

function style() {
  const series = (colours) => colours.map((colour, i) => `.s${i}{fill:${colour};stroke:${colour}}`).join('');
  return `<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#24292f;stroke:none}
.back{fill:#fff}.title{font-size:15px;font-weight:600}.name{font-weight:600}.small{font-size:10.5px}
.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#6e7781;stroke-width:1}
.bound{stroke:#6e7781;stroke-width:1.2;stroke-dasharray:5 4}.line{fill:none;stroke-width:2}
${series(kPalette.light)}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.grid{stroke:#30363d}
.axis,.bound{stroke:#8b949e}
${series(kPalette.dark)}}
.line{fill:none}
</style>`;
}

const textAt = (x, y, text, { anchor = 'start', kind = '' } = {}) =>
  `<text x="${rounded(x)}" y="${rounded(y)}" text-anchor="${anchor}"${kind && ` class="${kind}"`}>${escaped(text)}</text>`;

// A scale maps a value to a pixel with at(), and has ticks.
function linearScale(max, from, to) {
  const raw = (max || 1) / 5;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 2.5, 5, 10].find((factor) => factor * unit >= raw);
  const top = Math.ceil((max || 1) / step - 1e-9) * step;
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step);
  return { at: (value) => from + ((to - from) * value) / top, ticks };
}

function logScale(min, max, from, to) {
  const [first, last] = [Math.log10(min), Math.log10(max)];
  const ticks = [];
  for (let power = Math.floor(first); power <= Math.ceil(last); ++power) {
    for (const factor of last - first > 2.2 ? [1] : [1, 2, 5]) {
      const tick = factor * 10 ** power;
      if (tick >= min * 0.999 && tick <= max * 1.001) ticks.push(tick);
    }
  }
  return { at: (value) => from + ((to - from) * (Math.log10(value) - first)) / (last - first || 1), ticks };
}

function frame({ x, y, width, height, title }, scale) {
  const parts = [textAt(x, y - 10, title, { kind: 'name' })];
  for (const tick of scale.ticks) {
    const at = rounded(scale.at(tick));
    parts.push(`<path class="grid" d="M${x} ${at}h${width}"/>`);
    parts.push(textAt(x - 6, at + 4, shortNumber(tick), { anchor: 'end', kind: 'small' }));
  }
  parts.push(`<path class="axis" d="M${x} ${y + height}h${width}"/>`);
  return parts;
}

// From pixel `from` to the right edge of the panel.
function boundLine({ x, width, bound }, scale, from = x) {
  if (!bound) return [];
  const at = rounded(scale.at(bound.value));
  return [`<path class="bound" d="M${rounded(from)} ${at}H${x + width}"/>`,
    textAt(x + width, at - 4, bound.name, { anchor: 'end', kind: 'small' })];
}

// groups: [{name, values: one per series, or null}]; bound: {value, name}, a horizontal line.
export function barPanel(panel) {
  const { x, y, width, height, groups, labels = true } = panel;
  const max = Math.max(...groups.flatMap((group) => group.values.map((value) => value ?? 0)), panel.bound?.value ?? 0);
  const scale = linearScale(max * 1.08, y + height, y);
  const parts = frame(panel, scale);
  const share = width / groups.length;
  const bar = Math.min(34, (share * 0.8) / groups[0].values.length);
  groups.forEach((group, g) => {
    const left = x + share * g + (share - bar * group.values.length) / 2;
    group.values.forEach((value, s) => {
      if (value === null || value === undefined) return;
      const top = scale.at(value);
      parts.push(`<rect class="s${s}" stroke-width="0" x="${rounded(left + bar * s + 1)}" y="${rounded(top)}" ` +
        `width="${rounded(bar - 2)}" height="${rounded(y + height - top)}"/>`);
      if (labels) parts.push(textAt(left + bar * (s + 0.5), top - 4, shortNumber(value), { anchor: 'middle', kind: 'small' }));
    });
    parts.push(textAt(x + share * (g + 0.5), y + height + 16, group.name, { anchor: 'middle', kind: 'small' }));
  });
  return [...parts, ...boundLine(panel, scale)].join('\n');
}

// lines: one per series, [[x, y], ...]. Both axes are logarithmic; the x axis has a label at each x.
// bound: {value, name, from}, a horizontal line from x = `from`. labels: print y at each point.
export function linePanel(panel) {
  const { x, y, width, height, labels = false } = panel;
  const points = panel.lines.flat().filter(([, value]) => value > 0);
  const values = points.map(([, value]) => value);
  if (panel.bound) values.push(panel.bound.value);
  let [min, max] = [Math.min(...values) / (labels ? 1.8 : 1.15), Math.max(...values) * 1.15];
  if (max / min < 4) [min, max] = [min / 1.6, max * 1.6];
  if (panel.range) [min, max] = panel.range;
  const yScale = logScale(min, max, y + height, y);
  const positions = [...new Set(points.map(([position]) => position))].sort((a, b) => a - b);
  const xScale = logScale(positions[0], positions.at(-1), x + 14, x + width - 14);
  const parts = frame(panel, yScale);
  for (const position of positions) {
    parts.push(textAt(xScale.at(position), y + height + 16, shortNumber(position), { anchor: 'middle', kind: 'small' }));
  }
  if (panel.below) parts.push(textAt(x + width / 2, y + height + 32, panel.below, { anchor: 'middle', kind: 'small' }));
  parts.push(...boundLine(panel, yScale, panel.bound?.from && xScale.at(panel.bound.from)));
  panel.lines.forEach((line, s) => {
    const shown = line.filter(([, value]) => value > 0);
    const drawn = shown.map(([position, value]) => [rounded(xScale.at(position)), rounded(yScale.at(value))]);
    parts.push(`<path class="s${s} line" d="M${drawn.map((point) => point.join(' ')).join('L')}"/>`);
    parts.push(`<g class="s${s}">${drawn.map((point) => kMarkers[s % kMarkers.length](...point)).join('')}</g>`);
    if (!labels) return;
    shown.forEach(([, value], i) => {
      parts.push(textAt(drawn[i][0] - 6, drawn[i][1] + 18, shortNumber(+value.toPrecision(2)), { anchor: 'end', kind: 'small' }));
    });
  });
  return parts.join('\n');
}

// The file: title, legend, panels and a note below them.
export function chart({ width, height, title, note, series, panels }) {
  const legend = [];
  let x = 24;
  series.forEach((name, s) => {
    legend.push(`<rect class="s${s}" stroke-width="0" x="${x}" y="46" width="11" height="11"/>`);
    legend.push(textAt(x + 16, 56, name));
    x += 34 + 7 * name.length;
  });
  return [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}" role="img">`, `<title>${escaped(title)}</title>`, style(),
  `<rect class="back" width="${width}" height="${height}" rx="6"/>`,
  textAt(24, 30, title, { kind: 'title' }), ...legend, ...panels,
  textAt(24, height - 12, note, { kind: 'small' }), '</svg>', ''].join('\n');
}
