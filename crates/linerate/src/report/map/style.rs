//! The picture's colours, those of the report: light or dark as the reader prefers, light where nobody can ask.

/// The whole style sheet.
pub(super) const SHEET: &str = "\
svg{--bg:#f6f5f2;--panel:#fff;--ink:#1b1e22;--soft:#565d66;--line:#dbd8d1;--faint:#eeece7;--pipe:#3f6fb5;--cut:#b3201a;--warn:#8a5300;\
--grey:#9aa0a8;--memory:#6a4c93;--live:#1a6a3a;background:var(--bg);\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;font-variant-numeric:tabular-nums}\
@media (prefers-color-scheme:dark){svg{--bg:#121518;--panel:#1a1e22;--ink:#e8eaec;--soft:#a7afb8;--line:#353b42;--faint:#22272c;\
--pipe:#7fa9e6;--cut:#ff8f85;--warn:#f1bb58;--grey:#717a84;--memory:#c3aef0;--live:#83d7a0}}\
text{fill:var(--ink);font-size:11px}\
.bg{fill:var(--bg)}\
.host{font-size:20px;font-weight:650}.about{font-size:12.5px;fill:var(--soft)}\
.title{font-size:13px;font-weight:650}.sub{font-size:10.5px;fill:var(--soft)}.part{font-size:12px;font-weight:600}\
.node{fill:var(--faint);stroke:var(--line);stroke-width:1.2}\
.box,.sheet{fill:var(--panel);stroke:var(--soft);stroke-width:1.1}\
.cpu{fill:var(--panel);stroke:var(--ink);stroke-width:1.6}.memory{fill:var(--panel);stroke:var(--memory);stroke-width:1.6}\
.root,.switch{fill:var(--panel);stroke:var(--soft);stroke-width:1.2}\
.bar{fill:var(--panel);stroke:var(--ink);stroke-width:1.2}\
.leaf{fill:var(--bg);stroke:var(--line);stroke-width:1}.leaf.down{stroke-dasharray:3 2}\
.chip{fill:var(--panel);stroke:var(--line);stroke-width:1}\
.edge{fill:none;stroke:var(--pipe)}.edge.below{stroke:var(--cut);stroke-dasharray:9 4}.edge.idle{stroke:var(--warn);stroke-dasharray:9 4}\
.edge.formality,.edge.unknown{stroke:var(--grey);stroke-dasharray:2 3}.edge.inner{stroke:var(--soft)}.edge.tomemory{stroke:var(--memory)}\
.edge.port{stroke:var(--soft)}\
.rate{font-size:10.5px;font-weight:600}.pay{font-size:10px;fill:var(--soft)}\
.pay.below{fill:var(--cut);font-weight:600}.pay.idle{fill:var(--warn);font-weight:600}\
.count{font-size:11px;font-weight:700}";
