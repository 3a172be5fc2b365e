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

const SHEET: &str = include_str!("page.css");

/// The whole style sheet.
pub(super) fn sheet() -> String {
    format!(
        ":root{{color-scheme:light dark;{LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}\n\
         :root[data-theme=light]{{color-scheme:light;{LIGHT}}}\n:root[data-theme=dark]{{color-scheme:dark;{DARK}}}\n\
         @media print{{:root,:root[data-theme]{{color-scheme:light;{LIGHT}--bg:#fff}}}}\n{SHEET}{}",
        crate::map::SHEET
    )
}
