//! The page's style: light and dark by the reader's preference, white on paper. `data-theme` on `html`
//! overrules the preference.

const LIGHT: &str = "--bg:#f6f5f2;--panel:#fff;--ink:#1b1e22;--soft:#565d66;--line:#dbd8d1;--faint:#eeece7;\
--rated:#6a4c93;--effective:#00666f;--measured:#0b57c4;--unknown:#62676e;--cut:#b3201a;--cutbg:#fdecea;--good:#1a6a3a;\
--warn:#8a5300;--warnbg:#fbf0dc;--used:#3f6fb5;\
--user:#2f6fd0;--nice:#8db7ee;--system:#d9822b;--irq:#8e5bb5;--softirq:#c0397e;--steal:#1b1e22;--iowait:#a9b0b8;--idle:#e9e7e2;";

const DARK: &str = "--bg:#121518;--panel:#1a1e22;--ink:#e8eaec;--soft:#a7afb8;--line:#353b42;--faint:#252a2f;\
--rated:#c3aef0;--effective:#63cdd5;--measured:#8cb8fa;--unknown:#a7afb8;--cut:#ff8f85;--cutbg:#3a1d1b;--good:#83d7a0;\
--warn:#f1bb58;--warnbg:#36290f;--used:#7fa9e6;\
--user:#5c98f0;--nice:#a9cbf7;--system:#eb9c4c;--irq:#b58ad8;--softirq:#e46aa6;--steal:#f5f5f5;--iowait:#6b747d;--idle:#2a3036;";

const SHEET: &str = r#"
*{box-sizing:border-box}
html{background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:1200px;padding:36px 24px 64px;overflow-wrap:anywhere}
h1{font-size:clamp(1.45rem,1rem + 1.7vw,2.1rem);line-height:1.25;font-weight:650;letter-spacing:-.015em;margin:.35em 0 1em;max-width:44ch;text-wrap:balance}
h1.long{font-size:clamp(1.25rem,.95rem + 1.1vw,1.65rem);max-width:64ch}
h2{font-size:1.2rem;font-weight:650;letter-spacing:-.01em;margin:0 0 10px}
h3{font-size:.95rem;font-weight:650;margin:20px 0 6px}
p{margin:0 0 10px}
.lead{font-size:1.12rem;line-height:1.45;max-width:72ch;margin:-.4em 0 1.2em;text-wrap:pretty}
.kicker{color:var(--soft);font-size:.85rem;margin:0}
.kicker span+span::before{content:"·";margin:0 .55em}
.num,.big,.bits,td.r,svg text{font-variant-numeric:tabular-nums}
.num{white-space:nowrap}
.none{color:var(--soft)}
.small{font-size:.8rem}
.tiles{display:flex;flex-wrap:wrap;gap:12px}
.tile{flex:1 1 210px;min-width:0;background:var(--panel);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.tile.achieved{border-color:var(--ink);border-width:2px;padding:13px 15px}
.tile.tcp,.tile.udp{flex-basis:100%}
.tile p{margin:0}
.tile .name{font-size:.85rem;font-weight:600;display:flex;justify-content:space-between;gap:8px;align-items:center;flex-wrap:wrap}
.big{white-space:nowrap;font-size:1.75rem;font-weight:650;letter-spacing:-.02em;line-height:1.3}
.big.none{font-weight:500}
.bits{color:var(--soft);margin-left:.6em;font-size:.9rem;font-weight:400;white-space:nowrap}
.note{color:var(--soft);font-size:.82rem}
.tag{display:inline-block;font-size:.68rem;line-height:1.35;font-weight:650;padding:0 .42em;border-radius:4px;border:1px solid currentColor;text-decoration:none;white-space:nowrap;vertical-align:.08em;cursor:default}
.tag.rated{color:var(--rated)}.tag.effective{color:var(--effective)}.tag.measured{color:var(--measured)}.tag.unknown{color:var(--unknown);border-style:dashed}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:14px 0 0;padding:0;color:var(--soft);font-size:.8rem}
section{background:var(--panel);border:1px solid var(--line);border-radius:14px;padding:20px 22px;margin-top:20px;min-width:0}
.intro,.caption{color:var(--soft);font-size:.84rem;max-width:88ch}
.caption{margin:10px 0 0}
.lead{font-size:.95rem}
.errors{border:2px solid var(--cut);background:var(--cutbg)}
.errors h2{color:var(--cut)}
.errors ul{margin:0;padding-left:1.2em}
.errors li+li{margin-top:6px}
.scroll{overflow-x:auto;max-width:100%}
.cutmark{display:inline-block;background:var(--cut);color:var(--panel);font-size:.66rem;font-weight:700;letter-spacing:.04em;border-radius:4px;padding:0 .45em;line-height:1.5;vertical-align:.1em;white-space:nowrap}
.chip{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 .6em;font-size:.75rem;line-height:1.55;white-space:nowrap;color:var(--ink);background:var(--faint)}
.cutmark.predicted{background:var(--warn)}
.chip.warn{color:var(--warn);border-color:var(--warn);background:var(--warnbg)}
.chip.bad{color:var(--cut);border-color:var(--cut);background:var(--cutbg)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.88em}
code{background:var(--faint);border-radius:4px;padding:.05em .3em}
pre.command{background:var(--faint);border-radius:8px;padding:12px 14px;white-space:pre-wrap;margin:0 0 12px}

.map{display:block}

.wrow{display:grid;grid-template-columns:230px minmax(0,1fr) 250px;gap:4px 16px;align-items:center;padding:7px 0}
.wrow+.wrow{border-top:1px solid var(--faint)}
.wname .note{display:block}
.wbar{display:block;width:100%;height:22px;background:var(--faint);border-radius:4px}
.wbar .rated{fill:var(--rated)}.wbar .effective{fill:var(--effective)}.wbar .measured{fill:var(--measured)}.wbar .achieved{fill:var(--good)}
.wbar .lost{fill:var(--cut);opacity:.28}
.wbar .used{fill:var(--used)}
.shade{display:block;border-radius:4px;padding:0 .4em;background:color-mix(in srgb,var(--hue) var(--part),transparent);print-color-adjust:exact}
.more{--hue:var(--used)}.longer{--hue:var(--warn)}
.h0{--part:2%}.h1{--part:10%}.h2{--part:18%}.h3{--part:26%}.h4{--part:34%}.h5{--part:42%}
.narrow{display:none}
.part{display:grid;grid-template-columns:minmax(0,1fr) auto;gap:2px 12px;padding:7px 0;border-bottom:1px solid var(--faint)}
.part .wbar{height:10px;align-self:center}
.part.limit b{color:var(--cut)}.part.limit .wbar .used{fill:var(--cut)}
.wvalue{font-weight:600;white-space:normal}
.change{color:var(--soft);font-weight:400;font-size:.85rem;margin-left:.7em;white-space:nowrap}

table{border-collapse:collapse;width:100%;font-size:.84rem}
th,td{text-align:left;padding:5px 12px 5px 0;vertical-align:baseline;border-bottom:1px solid var(--faint)}
thead th{color:var(--soft);font-weight:600;white-space:nowrap;border-bottom:1px solid var(--line)}
tbody th{font-weight:500}
.r{text-align:right}
td.r{white-space:nowrap}
td b{font-weight:650}
table.stages{min-width:1010px}
table.plain{min-width:640px}
tr.cut>*{background:var(--cutbg)}
.how{color:var(--soft);font-size:.8rem}
.slow{color:var(--cut);font-weight:650}
.strip{display:block;vertical-align:middle}
.strip .axis{stroke:var(--line);stroke-width:1}
.strip .effective{stroke:var(--effective);stroke-width:1.5}
.strip .median{stroke:var(--ink);stroke-width:1.5}
.strip circle{fill:var(--measured);fill-opacity:.6}
details{margin-top:12px}
summary{cursor:pointer;font-weight:600;font-size:.9rem;padding:4px 0}
summary:focus-visible{outline:2px solid var(--measured);outline-offset:2px}

.coregrid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(500px,100%),1fr));gap:22px 32px;margin-top:14px}
.cores{margin:0;min-width:0;display:flex;flex-wrap:wrap;gap:4px 28px;align-content:flex-start}
.cores figcaption{flex:1 0 100%}
.core{flex:1 1 200px;min-width:0;max-width:100%}
figcaption{font-weight:650;font-size:.9rem;text-transform:none;margin-bottom:4px}
.core{margin-bottom:8px}
.who{margin:0 0 2px;font-size:.8rem;color:var(--soft)}
.core .note{margin:2px 0 0}
.corechart{display:block}
.corechart text{fill:var(--soft);font-size:9.5px}
.swatch{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px;border:1px solid var(--line);vertical-align:-1px}
.c-user{fill:var(--user);background:var(--user)}.c-nice{fill:var(--nice);background:var(--nice)}.c-system{fill:var(--system);background:var(--system)}
.c-irq{fill:var(--irq);background:var(--irq)}.c-softirq{fill:var(--softirq);background:var(--softirq)}.c-steal{fill:var(--steal);background:var(--steal)}
.c-iowait{fill:var(--iowait);background:var(--iowait)}.c-idle{fill:var(--idle);background:var(--idle)}
.time{vertical-align:middle;border-radius:2px}
.t-source{fill:var(--rated)}.t-work{fill:var(--idle)}.t-sink{fill:var(--system)}

.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(430px,100%),1fr));gap:14px}
.finding{border:1px solid var(--line);border-left:5px solid var(--soft);border-radius:10px;padding:14px 16px;min-width:0}
.finding.bad{border-left-color:var(--cut)}.finding.warn{border-left-color:var(--warn)}
.finding header{display:flex;gap:10px;align-items:center;flex-wrap:wrap;margin-bottom:6px}
.finding h3{margin:0;font-size:1rem}
.finding h3{min-width:0}
.gain{margin-left:auto;color:var(--good);font-weight:650;font-size:.88rem;white-space:nowrap}
.remedy b{color:var(--good);margin-right:.35em}
.evidence,.facts{display:grid;gap:3px 22px;margin:0;font-size:.82rem}
.evidence{grid-template-columns:repeat(auto-fit,minmax(min(170px,100%),1fr));border-top:1px solid var(--faint);padding-top:8px}
.evidence .num{white-space:normal}
.facts{grid-template-columns:repeat(auto-fit,minmax(min(300px,100%),1fr));font-size:.86rem}
.facts.long{grid-template-columns:minmax(0,1fr)}.facts.long dd{text-align:left;flex:1}.facts.long dt{min-width:9em}
.evidence div,.facts div{display:flex;justify-content:space-between;gap:12px;border-bottom:1px solid var(--faint);padding:2px 0}
dt{color:var(--soft);min-width:min(40%,8.5em)}
dd{margin:0;text-align:right;min-width:0}

@media (min-width:640px) and (max-width:930px){.tiles:has(>:nth-child(4)) .tile{flex-basis:40%}.tiles:has(>*) .tile:is(.tcp,.udp){flex-basis:100%}}
@media (max-width:760px){
body{padding:20px 14px 40px}
section{padding:16px 14px}
.wrow{grid-template-columns:minmax(0,1fr)}
.wide{display:none}
.narrow{display:block}
.num,.gain,.change,.bits,td.r{white-space:normal}
table,table.stages,table.plain{min-width:0;display:block}
thead{display:none}
tbody{display:block}
tr{display:flex;flex-wrap:wrap;gap:0 14px;align-items:baseline;padding:6px 0;border-bottom:1px solid var(--faint)}
th,td{border:0;padding:1px 0}
tbody th{flex:1 1 100%;font-weight:600}
td{order:2}
td:empty{display:none}
td[data-head]::before,.shade::before{content:attr(data-head) " ";color:var(--soft);font-size:.78rem}
td[data-head=measured]{order:1}
td.how{order:3;flex:1 1 100%}
td.how::before,td[data-head=samples]::before{display:none}
tr.cut{background:var(--cutbg)}
}
@media print{
@page{margin:12mm}
html{font-size:11.5px;line-height:1.4;background:#fff}
.big{font-size:1.45rem}
body{max-width:none;padding:0}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
section,.tile{border-color:#ccc;background:#fff}
section{padding:10px 0;margin-top:10px;border-width:1px 0 0;border-radius:0}
.errors{border-width:2px;padding:10px}
.scroll{overflow:visible}
.map{max-width:100%;height:auto}
table,table.stages,table.plain{min-width:0;font-size:.82rem}
th,td{padding:2px 7px 2px 0;line-height:1.3}
.strip{height:12px}
thead{display:table-header-group}
tr,.finding,.tile,.wrow,.core,#map,#waterfall,.evidence div,.facts div{break-inside:avoid}
h2,h3,figcaption,summary{break-after:avoid}
.strip{width:84px}
.chip{white-space:normal;border-radius:5px}
.corechart{max-width:100%;height:auto}
.tile{flex-basis:20%}
.wrow{grid-template-columns:170px minmax(0,1fr) 190px}
.cards,.coregrid{grid-template-columns:1fr 1fr}
.core{flex:1 1 40%}
details::details-content{content-visibility:visible;display:block;block-size:auto}
}
"#;

/// The whole style sheet.
pub(super) fn sheet() -> String {
    format!(
        ":root{{color-scheme:light dark;{LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}\n\
         :root[data-theme=light]{{color-scheme:light;{LIGHT}}}\n:root[data-theme=dark]{{color-scheme:dark;{DARK}}}\n\
         @media print{{:root,:root[data-theme]{{color-scheme:light;{LIGHT}--bg:#fff}}}}\n{SHEET}{}",
        crate::map::SHEET
    )
}
