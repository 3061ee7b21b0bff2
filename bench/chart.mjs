// Plots as SVG, by hand: panels of grouped bars or of lines. Colours follow the reader's scheme, light
// or dark; what is compared is told apart by shape too, bars by their order and lines by their marks.

const kPalette = { // one for each series: on light, on dark
  light: ['#0b6bcb', '#c8501e', '#2c8a4b', '#8a4fbf', '#b3881a', '#5a6672'],
  dark: ['#6cb2ff', '#ff9a6b', '#72d394', '#c9a0f2', '#e6c35c', '#a9b4bf'],
};
const kMarks = [
  (x, y) => `<circle cx="${x}" cy="${y}" r="3.6"/>`,
  (x, y) => `<rect x="${n(x - 3.3)}" y="${n(y - 3.3)}" width="6.6" height="6.6"/>`,
  (x, y) => `<path d="M${x} ${n(y - 4.2)}l4.2 7.4h-8.4z"/>`,
];

const n = (value) => Math.round(value * 10) / 10;
const escaped = (text) => String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

export function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(2)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size >= 100) return `${Math.round(value)}`;
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

const text = (x, y, words, { anchor = 'start', kind = '' } = {}) =>
  `<text x="${n(x)}" y="${n(y)}" text-anchor="${anchor}"${kind && ` class="${kind}"`}>${escaped(words)}</text>`;

// A scale from [low, high] to [from, to], with the values at which to draw lines.
function linear(high, from, to) {
  const raw = (high || 1) / 5;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 2.5, 5, 10].find((factor) => factor * unit >= raw);
  const top = Math.ceil((high || 1) / step - 1e-9) * step;
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step);
  return { at: (value) => from + ((to - from) * value) / top, ticks };
}

function logarithmic(low, high, from, to) {
  const [first, last] = [Math.log10(low), Math.log10(high)];
  const ticks = [];
  for (let power = Math.floor(first); power <= Math.ceil(last); ++power) {
    for (const factor of last - first > 2.2 ? [1] : [1, 2, 5]) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return { at: (value) => from + ((to - from) * (Math.log10(value) - first)) / (last - first || 1), ticks };
}

function frame({ x, y, width, height, title }, scale) {
  const parts = [text(x, y - 10, title, { kind: 'name' })];
  for (const tick of scale.ticks) {
    const at = n(scale.at(tick));
    parts.push(`<path class="grid" d="M${x} ${at}h${width}"/>`);
    parts.push(text(x - 6, at + 4, brief(tick), { anchor: 'end', kind: 'small' }));
  }
  parts.push(`<path class="axis" d="M${x} ${y + height}h${width}"/>`);
  return parts;
}

function boundLine({ x, width, bound }, scale) {
  if (!bound) return [];
  const at = n(scale.at(bound.value));
  return [`<path class="bound" d="M${x} ${at}h${width}"/>`,
    text(x + width, at - 4, bound.name, { anchor: 'end', kind: 'small' })];
}

// groups: [{name, values: one of each series or null}].
export function bars(panel) {
  const { x, y, width, height, groups, labels = true } = panel;
  const most = Math.max(...groups.flatMap((group) => group.values.map((value) => value ?? 0)), panel.bound?.value ?? 0);
  const scale = linear(most * 1.08, y + height, y);
  const parts = frame(panel, scale);
  const share = width / groups.length;
  const bar = Math.min(34, (share * 0.8) / groups[0].values.length);
  groups.forEach((group, g) => {
    const left = x + share * g + (share - bar * group.values.length) / 2;
    group.values.forEach((value, s) => {
      if (value === null || value === undefined) return;
      const top = scale.at(value);
      parts.push(`<rect class="s${s}" stroke-width="0" x="${n(left + bar * s + 1)}" y="${n(top)}" ` +
        `width="${n(bar - 2)}" height="${n(y + height - top)}"/>`);
      if (labels) parts.push(text(left + bar * (s + 0.5), top - 4, brief(value), { anchor: 'middle', kind: 'small' }));
    });
    parts.push(text(x + share * (g + 0.5), y + height + 16, group.name, { anchor: 'middle', kind: 'small' }));
  });
  return [...parts, ...boundLine(panel, scale)].join('\n');
}

// lines: one of each series, [[x, y], ...]; both axes logarithmic, the lower one marked where points are.
export function lines(panel) {
  const { x, y, width, height } = panel;
  const points = panel.lines.flat().filter(([, value]) => value > 0);
  const values = points.map(([, value]) => value);
  if (panel.bound) values.push(panel.bound.value);
  let [low, high] = [Math.min(...values) / 1.15, Math.max(...values) * 1.15];
  if (high / low < 4) [low, high] = [low / 1.6, high * 1.6];
  if (panel.range) [low, high] = panel.range;
  const up = logarithmic(low, high, y + height, y);
  const places = [...new Set(points.map(([place]) => place))].sort((a, b) => a - b);
  const along = logarithmic(places[0], places.at(-1), x + 14, x + width - 14);
  const parts = frame(panel, up);
  for (const place of places) {
    parts.push(text(along.at(place), y + height + 16, brief(place), { anchor: 'middle', kind: 'small' }));
  }
  if (panel.below) parts.push(text(x + width / 2, y + height + 32, panel.below, { anchor: 'middle', kind: 'small' }));
  parts.push(...boundLine(panel, up));
  panel.lines.forEach((line, s) => {
    const drawn = line.filter(([, value]) => value > 0).map(([place, value]) => [n(along.at(place)), n(up.at(value))]);
    parts.push(`<path class="s${s} line" d="M${drawn.map((point) => point.join(' ')).join('L')}"/>`);
    parts.push(`<g class="s${s}">${drawn.map((point) => kMarks[s % kMarks.length](...point)).join('')}</g>`);
  });
  return parts.join('\n');
}

export function picture({ width, height, title, note, series, parts }) {
  const legend = [];
  let x = 24;
  series.forEach((name, s) => {
    legend.push(`<rect class="s${s}" stroke-width="0" x="${x}" y="46" width="11" height="11"/>`);
    legend.push(text(x + 16, 56, name));
    x += 34 + 7 * name.length;
  });
  return [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}" role="img">`, `<title>${escaped(title)}</title>`, style(),
  `<rect class="back" width="${width}" height="${height}" rx="6"/>`,
  text(24, 30, title, { kind: 'title' }), ...legend, ...parts,
  text(24, height - 12, note, { kind: 'small' }), '</svg>', ''].join('\n');
}
