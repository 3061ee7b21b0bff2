// The style sheet and the script of a page, and the colours of an image that stands alone.
//
// Both use one palette: regions or series are --c0 to --c7, compared variants --v0 to --v4.

#pragma once

#include <string_view>

namespace weir::plot {

inline constexpr std::string_view kPageStyle = R"css(
:root{color-scheme:light dark;--page:#f4f6f8;--surface:#fff;--ink:#1c2733;--muted:#5b6875;
--grid:#e3e8ec;--edge:#d5dce2;--accent:#1668b8;--good:#0b7a4b;--good-tint:#e2f4eb;--bad:#b3261e;
--bad-tint:#fbe7e5;--fault:#f0b429;--fault-ink:#7a5200;
--c0:#1668b8;--c1:#1baf7a;--c2:#eda100;--c3:#0a7d0a;--c4:#5a48b8;--c5:#e34948;--c6:#e87ba4;
--c7:#eb6834;--others:#8a94a0;--denied:#c9d0d7;
--v0:#1668b8;--v1:#e0631f;--v2:#0b8f5e;--v3:#7a5cd0;--v4:#8a94a0}
@media (prefers-color-scheme:dark){:root{--page:#0e141a;--surface:#161f28;--ink:#e6edf3;
--muted:#9aa8b5;--grid:#25313c;--edge:#2c3a47;--accent:#5aa5ee;--good:#4cc38a;--good-tint:#12301f;
--bad:#ff8a80;--bad-tint:#3a1a18;--fault:#d99a1c;--fault-ink:#f2c566;
--c0:#3987e5;--c1:#199e70;--c2:#c98500;--c3:#3fa34d;--c4:#9085e9;--c5:#e66767;--c6:#d55181;
--c7:#d95926;--others:#76828e;--denied:#3d4a57;
--v0:#4b96ec;--v1:#ef8443;--v2:#2fb883;--v3:#a393f0;--v4:#76828e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1180px;margin:0 auto;padding:36px 24px 64px}
.eyebrow{margin:0;color:var(--accent);font-size:12px;font-weight:650;letter-spacing:.09em;
text-transform:uppercase}
h1{margin:2px 0 8px;font-size:32px;line-height:1.15;letter-spacing:-.015em;overflow-wrap:anywhere}
h2{margin:44px 0 14px;font-size:20px;letter-spacing:-.01em}
h3{margin:0;font-size:15px;font-weight:650;overflow-wrap:anywhere}
.about{max-width:72ch;margin:0 0 14px;font-size:17px;white-space:pre-line}
.facts{margin:0 0 22px;color:var(--muted);font-variant-numeric:tabular-nums}
.verdict{display:flex;gap:12px;align-items:baseline;margin:0 0 22px;padding:12px 16px;
border-radius:10px;font-weight:600;overflow-wrap:anywhere}
.verdict+.verdict{margin-top:-12px}
.verdict.good{background:var(--good-tint);color:var(--good)}
.verdict.bad{background:var(--bad-tint);color:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(200px,1fr));gap:12px}
.card{display:flex;flex-direction:column;padding:14px 16px;background:var(--surface);border:1px solid var(--edge);border-radius:10px;
font-variant-numeric:tabular-nums}
.card p{flex:1;margin:0;color:var(--muted);font-size:13px;line-height:1.35}
.card strong{display:block;margin:4px 0 2px;font-size:26px;line-height:1.2;font-weight:650;
letter-spacing:-.02em}
.card .other{display:flex;gap:7px;align-items:baseline;padding-top:5px;font-size:13px}
.card .other b{font-weight:600}
.dot{flex:none;width:9px;height:9px;border-radius:50%;background:var(--swatch)}
.better{color:var(--good)}.worse{color:var(--bad)}.better,.worse{font-weight:600;white-space:nowrap}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:14px}
figure{min-width:0;margin:0 0 14px;padding:16px 18px 8px;background:var(--surface);
border:1px solid var(--edge);border-radius:10px;position:relative}
.pair figure{margin:0}.pair{margin-bottom:14px}
figcaption p{margin:1px 0 0;color:var(--muted);font-size:13px}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:8px 0 2px;font-size:13px;color:var(--ink)}
.legend span{display:inline-flex;align-items:center;gap:6px}
.legend i{width:12px;height:12px;border-radius:3px;background:var(--swatch)}
.legend .stroke,.legend .faint{height:3px;width:16px;border-radius:2px}
.legend .faint{opacity:.6}
.frame{overflow-x:auto;margin-top:6px}
svg{display:block;width:100%;min-width:440px;height:auto;font-variant-numeric:tabular-nums}
svg text{font-size:11px;fill:var(--muted)}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--grid)}.axis{stroke:var(--muted);stroke-opacity:.55}
.area{stroke:var(--surface);stroke-width:.6;stroke-linejoin:round}
.curve{fill:none;stroke-width:1.8;stroke-linejoin:round}
.curve.faint{stroke-width:1.3;stroke-opacity:.6}
.level{stroke:var(--ink);stroke-width:1.4;stroke-dasharray:6 4}
svg .level-label{fill:var(--ink);font-weight:600;paint-order:stroke;stroke:var(--surface);
stroke-width:4px;stroke-linejoin:round}
.span{fill:var(--fault);fill-opacity:.17}.instant{stroke:var(--fault);stroke-width:2}
.many .instant{stroke-width:1;stroke-opacity:.55}
.leader{stroke:var(--fault);stroke-width:1.2}
svg .span-label{fill:var(--fault-ink);font-weight:550}
.cursor{stroke:var(--ink);stroke-opacity:.5;visibility:hidden}
.tip{position:fixed;z-index:9;pointer-events:none;visibility:hidden;max-width:320px;
padding:8px 11px;border-radius:8px;background:var(--surface);border:1px solid var(--edge);
box-shadow:0 6px 24px rgba(0,0,0,.18);font-size:12.5px;line-height:1.45;
font-variant-numeric:tabular-nums}
.tip b{display:block;margin-bottom:2px}
.tip div{display:flex;gap:7px;align-items:center}.tip div span:last-child{margin-left:auto;padding-left:14px}
.sheet{overflow-x:auto;background:var(--surface);border:1px solid var(--edge);border-radius:10px}
table{width:100%;border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:7px 16px;text-align:right;border-top:1px solid var(--grid);vertical-align:baseline}
thead th{border-top:0;color:var(--muted);font-weight:600;font-size:13px;overflow-wrap:anywhere}
tbody th{font-weight:400}
th:first-child,td:first-child{text-align:left}
tr.group th{padding-top:15px;color:var(--muted);font-size:12px;font-weight:650;
letter-spacing:.06em;text-transform:uppercase}
td .better,td .worse{margin-left:8px;font-size:12.5px}
pre{margin:0;padding:14px 16px;overflow-x:auto;background:var(--surface);
border:1px solid var(--edge);border-radius:10px;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,
Consolas,monospace}
footer{margin-top:44px;color:var(--muted);font-size:13px}
footer pre{margin:8px 0 14px;color:var(--ink)}
@media print{:root{--page:#fff}body{font-size:12px}main{max-width:none;padding:0}
figure,.card,.sheet,tr{break-inside:avoid}h2{break-after:avoid}
.frame,.sheet{overflow:visible}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
/* A chart keeps its labels readable and scrolls; --w is its own width. */
@media (max-width:560px){main{padding:20px 14px 40px}h1{font-size:26px}
svg{min-width:calc(.9*var(--w,440px))}}
)css";

// Shows the value of each series that is nearest to the pointer.
inline constexpr std::string_view kPageScript = R"js(
(()=>{const tip=document.createElement('div');tip.className='tip';document.body.append(tip);
const number=v=>{if(v===null)return'?';const a=Math.abs(v),r=a>=100?Math.round(v):a>=10?Math.round(v*10)/10:Math.round(v*1000)/1000;
return r.toLocaleString('en-US',{maximumFractionDigits:3}).replace(/,/g,'\u202f')};
const time=(s,long)=>long<180?number(Math.round(s*10)/10)+' s':Math.floor(s/60)+':'+String(Math.floor(s%60)).padStart(2,'0');
const nearest=(x,at)=>{let a=0,b=x.length-1;while(b-a>1){const m=(a+b)>>1;if(x[m]<=at)a=m;else b=m}
return Math.abs(x[a]-at)<=Math.abs(x[b]-at)?a:b};
for(const figure of document.querySelectorAll('figure')){const script=figure.querySelector('script');
if(!script)continue;const d=JSON.parse(script.textContent),svg=figure.querySelector('svg'),
cursor=svg.querySelector('.cursor'),left=+svg.dataset.left,right=+svg.dataset.right;
const hide=()=>{tip.style.visibility=cursor.style.visibility='hidden'};
svg.addEventListener('pointerleave',hide);
svg.addEventListener('pointermove',e=>{const box=svg.getBoundingClientRect(),
px=(e.clientX-box.left)*svg.viewBox.baseVal.width/box.width;
if(px<left||px>right)return hide();
const share=(px-left)/(right-left),at=d.log?d.from*Math.pow(d.to/d.from,share):d.from+share*(d.to-d.from);
tip.replaceChildren();const head=document.createElement('b');
head.textContent=d.kind==='s'?time(at,d.to):number(at);tip.append(head);
const row=(name,colour,value)=>{const line=document.createElement('div'),dot=document.createElement('i'),
label=document.createElement('span'),text=document.createElement('span');dot.className='dot';
dot.style.setProperty('--swatch',colour);label.textContent=name;text.textContent=number(value)+d.unit;
line.append(dot,label,text);tip.append(line)};
for(const g of d.g){if(!g.x.length)continue;const i=nearest(g.x,at);let all=0;
for(const s of g.s){row(s.n,s.c,s.y[i]);all+=s.y[i]||0}
if(g.s.length>1)row('total','transparent',all)}
for(const[k,v]of[['x1',px],['x2',px],['y1',svg.dataset.top],['y2',svg.dataset.bottom]])cursor.setAttribute(k,v);
tip.style.visibility=cursor.style.visibility='visible';
const w=tip.offsetWidth,h=tip.offsetHeight;
tip.style.left=(e.clientX+18+w>innerWidth?e.clientX-18-w:e.clientX+18)+'px';
tip.style.top=Math.max(8,Math.min(e.clientY-h/2,innerHeight-h-8))+'px'})}})();
)js";

// For an SVG file, which viewers without support for CSS variables must show as well.
inline constexpr std::string_view kImageStyle = R"css(
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
fill:#1c2733}
.surface{fill:#fff}.title{font-size:18px;font-weight:650}.group{font-size:13px;font-weight:650}
.note{font-size:11px;fill:#5b6875}.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:#e3e8ec}.primary{fill:#1668b8}.other{fill:#a9b4bf}
.baseline{fill:none;stroke:#8a94a0;stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.surface{fill:#161f28}.note{fill:#9aa8b5}
.grid{stroke:#25313c}.primary{fill:#4b96ec}.other{fill:#4d5b69}.baseline{stroke:#76828e}}
)css";

// In addition, for an SVG file with line plots.
inline constexpr std::string_view kLineImageStyle = R"css(
.tick{font-size:11px;fill:#5b6875}.axis{stroke:#8a94a0}.area{stroke:none;fill-opacity:.75}
.curve{fill:none;stroke-width:1.8;stroke-linejoin:round}.curve.faint{stroke-opacity:.6}
.level{stroke:#1c2733;stroke-width:1.4;stroke-dasharray:6 4}
.level-label{font-size:11px;font-weight:600}.cursor{visibility:hidden}
.span{fill:#f0b429;fill-opacity:.17}.instant,.leader{stroke:#f0b429}.span-label{font-size:11px}
@media (prefers-color-scheme:dark){.tick{fill:#9aa8b5}.level{stroke:#e6edf3}.area{fill-opacity:.35}}
)css";

}  // namespace weir::plot
