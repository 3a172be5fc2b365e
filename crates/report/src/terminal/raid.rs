//! An array on a screen: what follows from the question, the chunks to choose from, the command lines; or
//! what is to be said of arrays that are there.

use crate::grid::{Column, lines, number, text};
use crate::style::Style;
use linerate_facts::printable::{columns, hanging, printable, wrapped};
use linerate_model::plan::raid::{
    Checked, ChunkChoice, Pattern, RaidCommand, RaidLayout, RaidLevel, System, exact_size, quoted,
};

/// Names of the lines stand in a column of this width.
const LABEL: usize = 14;

const CHOICES: [Column; 5] = [
    text("", 0),
    number("chunk", 0),
    number("stripe", 0),
    number("disks touched", 0),
    number("moved a byte", 0),
];

/// The array and its command lines; no line wider than `width` but for a word that is.
pub(super) fn layout(layout: &RaidLayout, width: usize, style: Style) -> String {
    let may_fail = match layout.may_fail {
        0 => "none may fail".to_string(),
        1 => "1 may fail".to_string(),
        more => format!("{more} may fail"),
    };
    let (name, disks, data) = (layout.level.name(), layout.disks, layout.data_disks);
    let mut lines = vec![style.bold(&format!("{name} of {disks} disks, {data} of them data: {may_fail}"))];
    for (label, text) in facts(layout) {
        lines.extend(labelled(label, &text, width));
    }
    if layout.choices.len() > 1 {
        lines.push(String::new());
        lines.extend(choices(layout, width, style));
    }
    for note in &layout.notes {
        lines.extend(bulleted("note: ", note, width));
    }
    let mut way = "";
    for line in &layout.lines {
        if line.way != way {
            way = line.way;
            lines.push(String::new());
            lines.push(style.dim(&format!("{way}:")));
        }
        lines.extend(typed(line, width));
    }
    lines.join("\n") + "\n"
}

/// What was asked and what follows, by name.
fn facts(layout: &RaidLayout) -> Vec<(&'static str, String)> {
    let block = exact_size(layout.file_system_block_bytes);
    let mut facts = vec![(
        "requests",
        format!(
            "{}, {}; physical blocks of {}, file system blocks of {block}",
            exact_size(layout.request_bytes),
            order(layout.pattern),
            exact_size(layout.block_bytes),
        ),
    )];
    match (layout.chunk_bytes, layout.record_bytes) {
        (Some(chunk), _) => facts.push(("chunk", format!("{}: {}", exact_size(chunk), layout.why))),
        (None, Some(record)) if layout.choices.is_empty() && layout.level.zfs_word() != Some("mirror") => {
            facts.push(("record", format!("{}: {}", exact_size(record), layout.why)));
        }
        _ => facts.push(("chunk", format!("none: {}", layout.why))),
    }
    if let (Some(chunk), Some(stripe), Some(stride), Some(wide)) =
        (layout.chunk_bytes, layout.stripe_bytes, layout.stride_blocks, layout.stripe_width_blocks)
    {
        let data = layout.data_disks;
        facts.push(("stripe", format!("{} = {data} × {}", exact_size(stripe), exact_size(chunk))));
        if layout.level.system() == System::Md {
            facts.push((
                "stride",
                format!(
                    "{stride} blocks of {block}, stripe width {wide}; XFS: su={}k, sw={data}",
                    chunk / 1024
                ),
            ));
        }
    }
    let seen = &layout.traffic;
    let mut disks =
        format!("a request touches {:.1} of {} data disks", seen.disks_per_request, layout.data_disks);
    if layout.pattern.is_write() {
        disks += &format!(
            "; for each byte {:.2} are read and {:.2} written on the disks",
            seen.read_per_byte, seen.written_per_byte
        );
        if layout.level.parity() > 0 && layout.chunk_bytes.is_some() {
            disks += &format!(", {:.0} % of them in whole stripes", seen.whole_stripes * 100.0);
        }
    }
    facts.push(("disks", disks));
    let small = seen.operations_of_small_write;
    if small > 1 {
        facts.push(("small write", format!("one block costs {small} reads and writes of disks")));
    }
    facts
}

fn order(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::SequentialRead => "sequential reads",
        Pattern::SequentialWrite => "sequential writes",
        Pattern::RandomRead => "random reads",
        Pattern::RandomWrite => "random writes",
    }
}

/// The chunks that the rules allow, the chosen one marked.
fn choices(layout: &RaidLayout, width: usize, style: Style) -> Vec<String> {
    let row = |choice: &ChunkChoice| {
        let chosen = Some(choice.chunk_bytes) == layout.chunk_bytes;
        let cost = layout.pattern.is_write().then(|| format!("{:.2}", choice.disk_bytes_per_byte));
        vec![
            if chosen { "  →".into() } else { "   ".into() },
            exact_size(choice.chunk_bytes),
            exact_size(choice.stripe_bytes),
            format!("{:.1}", choice.disks_per_request),
            cost.unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = layout.choices.iter().map(row).collect();
    let chosen = |row: usize| Some(layout.choices[row].chunk_bytes) == layout.chunk_bytes;
    let line = |(index, line): (usize, String)| match index {
        0 => style.dim(&line),
        row if chosen(row - 1) => style.bold(&line),
        _ => line,
    };
    lines(&CHOICES, &rows, width).into_iter().enumerate().map(line).collect()
}

/// `  label   text`, the text wrapped in its column.
fn labelled(label: &str, text: &str, width: usize) -> Vec<String> {
    hanging(&format!("  {label:LABEL$}"), text, width)
}

/// A sentence behind its mark, wrapped.
fn bulleted(mark: &str, text: &str, width: usize) -> Vec<String> {
    hanging(&format!("  {mark}"), text, width)
}

/// A command line as it can be pasted: broken between words, with a backslash.
fn typed(line: &RaidCommand, width: usize) -> Vec<String> {
    let room = width.saturating_sub(6).max(20);
    let mut lines = vec![String::new()];
    for word in &line.words {
        let word = printable(&quoted(word));
        let last = lines.last_mut().map_or(0, |last| columns(last));
        if last > 0 && last + 1 + columns(&word) > room {
            lines.push(String::new());
        }
        if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(&word);
        }
    }
    let count = lines.len();
    let shown = lines.into_iter().enumerate().map(|(index, line)| {
        let (before, after) =
            (if index == 0 { "  " } else { "    " }, if index + 1 < count { " \\" } else { "" });
        format!("{before}{line}{after}")
    });
    shown.collect()
}

/// Arrays, each with what is right and what is not.
pub(super) fn checked(arrays: &[Checked], width: usize, style: Style) -> String {
    let mut lines = Vec::new();
    for array in arrays {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let known = |fact: &linerate_facts::fact::Fact<u32>| fact.known().map_or("?".into(), u32::to_string);
        let title = format!(
            "{}: {} of {} disks, {} of them data",
            printable(&array.name),
            printable(&array.level),
            known(&array.disks),
            known(&array.data_disks)
        );
        lines.extend(wrapped(&title, width).iter().map(|line| style.bold(line)));
        let size = |fact: &linerate_facts::fact::Fact<u64>| match fact {
            linerate_facts::fact::Fact::Known(bytes) => exact_size(*bytes),
            linerate_facts::fact::Fact::Unknown { why } => format!("unknown ({})", printable(why)),
        };
        if RaidLevel::of_array(&array.level).is_none_or(RaidLevel::is_striped) {
            lines.extend(labelled("chunk", &size(&array.chunk_bytes), width));
            lines.extend(labelled("stripe", &size(&array.stripe_bytes), width));
        } else {
            lines.extend(labelled("chunk", "none: a request is on one disk", width));
        }
        if !array.file_systems.is_empty() {
            lines.extend(labelled("holds", &printable(&array.file_systems.join(", ")), width));
        }
        for remark in &array.remarks {
            let mark = if remark.good { "ok: " } else { "change: " };
            lines.extend(bulleted(mark, &printable(&remark.text), width));
            if let Some(remedy) = &remark.remedy {
                lines.extend(bulleted("        ", &printable(remedy), width));
            }
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::plan::raid::{RaidRemark, RaidSpec, raid};

    fn screen(level: RaidLevel, disks: u32, pattern: Pattern, width: usize) -> String {
        let ask = RaidSpec {
            level,
            disks,
            block_bytes: 4096,
            file_system_block_bytes: 4096,
            request_bytes: 16 << 20,
            pattern,
            chunk_bytes: None,
            devices: Vec::new(),
        };
        layout(&raid(&ask).expect("a layout"), width, Style::of(100, false))
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in [60, 80, 120] {
            for (level, disks) in [
                (RaidLevel::Raid0, 8),
                (RaidLevel::Raid5, 50),
                (RaidLevel::Raidz2, 12),
                (RaidLevel::Raid1, 2),
            ] {
                for line in screen(level, disks, Pattern::SequentialWrite, width).lines() {
                    assert!(columns(line) <= width, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_broken_command_line_is_whole_again_when_it_is_pasted() {
        let text = screen(RaidLevel::Raid0, 50, Pattern::SequentialRead, 80);
        let joined = text.replace(" \\\n    ", " ");
        let line = joined.lines().find(|line| line.contains("mdadm --create")).expect("a line");
        assert_eq!(line.split_whitespace().filter(|word| word.starts_with("DISK")).count(), 50, "{line}");
    }

    #[test]
    fn a_name_from_outside_does_not_act_on_the_terminal() {
        let array = Checked {
            name: "md\u{1b}[2J".into(),
            level: "raid5".into(),
            disks: linerate_facts::fact::Fact::Known(3),
            data_disks: linerate_facts::fact::Fact::Known(2),
            chunk_bytes: linerate_facts::fact::Fact::Known(512 << 10),
            stripe_bytes: linerate_facts::fact::Fact::unknown("da\u{1b}maged"),
            file_systems: vec!["xfs on /\n".into()],
            remarks: vec![RaidRemark {
                good: false,
                text: "\u{202e}x".into(),
                remedy: Some("do \u{7}".into()),
            }],
        };
        let text = checked(&[array], 80, Style::of(100, false));
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        assert!(text.contains("3 disks, 2 of them data") && text.contains("512 KiB"), "{text}");
        assert!(text.contains("change: "), "{text}");
    }

    #[test]
    fn the_example_of_sara_on_a_screen() {
        let text = screen(RaidLevel::Raid0, 8, Pattern::SequentialRead, 100);
        assert!(text.starts_with("raid0 of 8 disks, 8 of them data: none may fail\n"), "{text}");
        assert!(text.contains("  →  512 KiB    4 MiB            8.0\n"), "{text}");
        assert!(text.contains("mkfs.xfs -b size=4096 -d su=512k,sw=8 /dev/md/data"), "{text}");
    }
}
