//! The picture's style: rules for a page that has the report's colours, and a sheet with the colours for a file of its own, light
//! or dark as the reader prefers, light where nobody can ask.

/// The rules; the colours are the page's.
pub(crate) const SHEET: &str = "
.map text{fill:var(--ink);font-size:11px}
.map .bg{fill:var(--bg)}
.map .host{font-size:20px;font-weight:650}.map .about{font-size:12.5px;fill:var(--soft)}
.map .title{font-size:13px;font-weight:650}.map .sub{font-size:10.5px;fill:var(--soft)}
.map .part{font-size:12px;font-weight:600}.map .use{font-size:10.5px;font-weight:600}
.map .node{fill:var(--faint);stroke:var(--line);stroke-width:1.2}
.map .box,.map .sheet{fill:var(--panel);stroke:var(--soft);stroke-width:1.1}
.map .cpu{fill:var(--panel);stroke:var(--ink);stroke-width:1.6}
.map .memory{fill:var(--panel);stroke:var(--rated);stroke-width:1.6}
.map .root,.map .switch{fill:var(--panel);stroke:var(--soft);stroke-width:1.2}
.map .bar{fill:var(--panel);stroke:var(--ink);stroke-width:1.2}
.map .leaf{fill:var(--bg);stroke:var(--line);stroke-width:1}.map .leaf.down{stroke-dasharray:3 2}
.map .chip{fill:var(--panel);stroke:var(--line);stroke-width:1}
.map .edge{fill:none;stroke:var(--used)}.map .edge.below{stroke:var(--cut);stroke-dasharray:9 4}
.map .edge.idle{stroke:var(--warn);stroke-dasharray:9 4}
.map .edge.formality,.map .edge.unknown{stroke:var(--unknown);stroke-dasharray:2 3}
.map .edge.inner,.map .edge.port{stroke:var(--soft)}.map .edge.tomemory{stroke:var(--rated)}
.map .edge.inuse{stroke:var(--ink)}
.map .rate{font-size:10.5px;font-weight:600}.map .pay{font-size:10px;fill:var(--soft)}
.map .pay.below{fill:var(--cut);font-weight:600}.map .pay.idle{fill:var(--warn);font-weight:600}
.map .track{fill:var(--line)}.map .fill{fill:var(--used)}
.map .bottleneck .fill,.map .flag{fill:var(--cut)}
.map .bottleneck .leaf,.map .bottleneck .chip,.map .bottleneck .cpu,.map .bottleneck .memory{stroke:var(--cut);stroke-width:2.4;fill:var(--cutbg)}
.map .bottleneck .edge{stroke:var(--cut)}
.map .predicted .fill,.map .predicted .flag{fill:var(--warn)}
.map .predicted .leaf,.map .predicted .chip,.map .predicted .cpu,.map .predicted .memory{stroke:var(--warn);stroke-width:2;stroke-dasharray:6 3}
.map .predicted .edge{stroke:var(--warn)}
.map .flagtext{fill:var(--panel);font-size:9.5px;font-weight:700;letter-spacing:.04em}
";

/// The sheet of a file of its own.
pub(super) fn file() -> String {
    format!("{COLOURS}{SHEET}")
}

const COLOURS: &str = "
.map{--bg:#f6f5f2;--panel:#fff;--ink:#1b1e22;--soft:#565d66;--line:#dbd8d1;--faint:#eeece7;--used:#3f6fb5;--cut:#b3201a;
--cutbg:#fdecea;--warn:#8a5300;--unknown:#9aa0a8;--rated:#6a4c93;background:var(--bg);
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;font-variant-numeric:tabular-nums}
@media (prefers-color-scheme:dark){.map{--bg:#121518;--panel:#1a1e22;--ink:#e8eaec;--soft:#a7afb8;--line:#353b42;--faint:#22272c;
--used:#7fa9e6;--cut:#ff8f85;--cutbg:#3a1d1b;--warn:#f1bb58;--unknown:#717a84;--rated:#c3aef0}}";
