//! What the charts add to the page's style sheet. Colours are told apart at 3:1 and more on the panel, light
//! and dark.

/// Appended to the page's sheet; the variables follow its themes.
pub(crate) const SHEET: &str = r#"
.charts{--s0:#0b57c4;--s1:#b8400c;--s2:#1a6a3a;--s3:#7b3fa0;--s4:#806000;--s5:#00757f;--s6:#b5176f;--s7:#4b5563}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .charts{--s0:#8cb8fa;--s1:#ff9d6c;--s2:#83d7a0;--s3:#c9a5f0;--s4:#f1cb58;--s5:#63cdd5;--s6:#f58cc0;--s7:#c3c9d0}}
:root[data-theme=dark] .charts{--s0:#8cb8fa;--s1:#ff9d6c;--s2:#83d7a0;--s3:#c9a5f0;--s4:#f1cb58;--s5:#63cdd5;--s6:#f58cc0;--s7:#c3c9d0}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(440px,100%),1fr));gap:26px 30px}
.chart{margin:0;min-width:0}
.chart svg.plot{display:block;width:100%;height:auto;overflow:visible}
.chart text{fill:var(--soft);font-size:12px}
.chart .grid{stroke:var(--line);stroke-width:1}
.chart .axis{stroke:var(--soft);stroke-width:1.2}
.chart .line{fill:none;stroke:currentColor;stroke-width:2.2;stroke-linejoin:round}
.chart .range{stroke:currentColor;stroke-width:1.4;opacity:.75}
.chart .dot{fill:currentColor;stroke:var(--panel);stroke-width:1}
.chart .open{fill:var(--panel);stroke:currentColor;stroke-width:2}
.chart .bar{fill:none;stroke:currentColor;stroke-width:2.4}
.chart .ideal{fill:none;stroke:var(--soft);stroke-width:1.4;stroke-dasharray:2 4}
.chart .mark{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:4 3;fill:none}
.chart .ring{stroke:var(--ink);stroke-width:1.6;fill:none}
.chart text.said{fill:var(--ink);font-weight:600;stroke:var(--panel);stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.chart .key{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:4px 0 0;padding:0;font-size:.8rem}
.chart .key li{display:flex;align-items:center;gap:6px}
.chart .key svg{flex:none}
.chart .s0{color:var(--s0)}.chart .s1{color:var(--s1)}.chart .s2{color:var(--s2)}.chart .s3{color:var(--s3)}
.chart .s4{color:var(--s4)}.chart .s5{color:var(--s5)}.chart .s6{color:var(--s6)}.chart .s7{color:var(--s7)}
@media print{.chart{break-inside:avoid}.charts{grid-template-columns:1fr 1fr;--s0:#0b57c4;--s1:#b8400c;--s2:#1a6a3a;--s3:#7b3fa0;--s4:#806000;--s5:#00757f;--s6:#b5176f;--s7:#4b5563}}
"#;
