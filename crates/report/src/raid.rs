//! An array: what follows from the question, the chunks to choose from, the command lines; or what is to be said of arrays
//! that are there.

use crate::document::{Block, Labelled, Table, TableRow, bold, dim, lines, plain};
use crate::grid::{Column, Style, number, text};
use linerate_facts::fact::Fact;
use linerate_model::plan::raid::{
    Checked, ChunkChoice, Pattern, RaidLayout, RaidLevel, System, exact_size, quoted,
};

/// Columns of a label.
const LABEL: usize = 14;

const CHOICES: [Column; 5] = [
    text("", 0),
    number("chunk", 0),
    number("stripe", 0),
    number("disks touched", 0),
    number("moved a byte", 0),
];

/// An array as it follows from the arithmetic, with the command lines that make it.
pub fn layout(layout: &RaidLayout, width: usize, colour: bool) -> String {
    let may_fail = match layout.may_fail {
        0 => "none may fail".to_string(),
        1 => "1 may fail".to_string(),
        more => format!("{more} may fail"),
    };
    let (name, disks, data) = (layout.level.name(), layout.disks, layout.data_disks);
    let title = format!("{name} of {disks} disks, {data} of them data: {may_fail}");
    let mut blocks = vec![Block::Text(bold(title)), Block::Facts(LABEL, facts(layout))];
    if layout.choices.len() > 1 {
        let rows = layout.choices.iter().map(|choice| chunk(layout, choice));
        blocks.extend([Block::Space, Block::Table(Table::new(CHOICES, rows))]);
    }
    blocks.push(Block::List(layout.notes.iter().map(|note| ("note: ", plain(note))).collect()));
    let mut way = "";
    for line in &layout.lines {
        if line.way != way {
            way = line.way;
            blocks.extend([Block::Space, Block::Text(dim(format!("{way}:")))]);
        }
        blocks.push(Block::Command(line.words.iter().map(|word| quoted(word)).collect()));
    }
    lines(&blocks, width, Style::of(width, colour)).join("\n") + "\n"
}

/// What was asked and what follows, by name.
fn facts(layout: &RaidLayout) -> Vec<Labelled> {
    let block = exact_size(layout.file_system_block_bytes);
    let mut facts = vec![(
        "requests",
        format!(
            "{}, {}; physical blocks of {}, file system blocks of {block}",
            exact_size(layout.request_bytes),
            pattern_text(layout.pattern),
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
    let traffic = &layout.traffic;
    let mut disks =
        format!("a request touches {:.1} of {} data disks", traffic.disks_per_request, layout.data_disks);
    if layout.pattern.is_write() {
        disks += &format!(
            "; for each byte {:.2} are read and {:.2} written on the disks",
            traffic.read_per_byte, traffic.written_per_byte
        );
        if layout.level.parity() > 0 && layout.chunk_bytes.is_some() {
            disks += &format!(", {:.0} % of them in whole stripes", traffic.whole_stripes * 100.0);
        }
    }
    facts.push(("disks", disks));
    let small = traffic.operations_of_small_write;
    if small > 1 {
        facts.push(("small write", format!("one block costs {small} reads and writes of disks")));
    }
    facts.into_iter().map(|(label, words)| (label, plain(words))).collect()
}

fn pattern_text(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::SequentialRead => "sequential reads",
        Pattern::SequentialWrite => "sequential writes",
        Pattern::RandomRead => "random reads",
        Pattern::RandomWrite => "random writes",
    }
}

/// A chunk that the rules allow.
fn chunk(layout: &RaidLayout, choice: &ChunkChoice) -> TableRow {
    let chosen = Some(choice.chunk_bytes) == layout.chunk_bytes;
    let cost = layout.pattern.is_write().then(|| format!("{:.2}", choice.disk_bytes_per_byte));
    let cells = [
        if chosen { "  →".into() } else { "   ".into() },
        exact_size(choice.chunk_bytes),
        exact_size(choice.stripe_bytes),
        format!("{:.1}", choice.disks_per_request),
        cost.unwrap_or_default(),
    ];
    TableRow::of(cells).chosen(chosen)
}

/// Arrays that are there, each with what is right and what is not.
pub fn checked(arrays: &[Checked], width: usize, colour: bool) -> String {
    let mut blocks = Vec::new();
    for array in arrays {
        if !blocks.is_empty() {
            blocks.push(Block::Space);
        }
        blocks.extend(of_array(array));
    }
    lines(&blocks, width, Style::of(width, colour)).join("\n") + "\n"
}

fn of_array(array: &Checked) -> [Block<'static>; 3] {
    let known = |fact: &Fact<u32>| fact.known().map_or("?".into(), u32::to_string);
    let (disks, data) = (known(&array.disks), known(&array.data_disks));
    let title = format!("{}: {} of {disks} disks, {data} of them data", array.name, array.level);
    let size = |fact: &Fact<u64>| match fact {
        Fact::Known(bytes) => plain(exact_size(*bytes)),
        Fact::Unknown { why } => plain(format!("unknown ({why})")),
    };
    let mut facts = match RaidLevel::of_array(&array.level).is_none_or(RaidLevel::is_striped) {
        true => vec![("chunk", size(&array.chunk_bytes)), ("stripe", size(&array.stripe_bytes))],
        false => vec![("chunk", plain("none: a request is on one disk"))],
    };
    if !array.file_systems.is_empty() {
        facts.push(("holds", plain(array.file_systems.join(", "))));
    }
    let mut remarks = Vec::new();
    for remark in &array.remarks {
        remarks.push((if remark.good { "ok: " } else { "change: " }, plain(&remark.text)));
        remarks.extend(remark.remedy.iter().map(|remedy| ("        ", plain(remedy))));
    }
    [Block::Text(bold(title)), Block::Facts(LABEL, facts), Block::List(remarks)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::printable::columns;
    use linerate_model::plan::raid::{RaidRemark, RaidSpec, raid};

    fn screen(level: RaidLevel, disks: u32, pattern: Pattern, width: usize) -> String {
        let ask = RaidSpec {
            level,
            disks,
            block_bytes: 4096,
            request_bytes: 16 << 20,
            pattern,
            chunk_bytes: None,
            devices: Vec::new(),
        };
        layout(&raid(&ask).expect("a layout"), width, false)
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
    fn an_array_that_is_there_is_judged() {
        let array = Checked {
            name: "md0".into(),
            level: "raid5".into(),
            disks: Fact::Known(3),
            data_disks: Fact::Known(2),
            chunk_bytes: Fact::Known(512 << 10),
            stripe_bytes: Fact::unknown("damaged"),
            file_systems: vec!["xfs on /".into()],
            remarks: vec![RaidRemark {
                good: false,
                text: "it is small".into(),
                remedy: Some("make it larger".into()),
            }],
        };
        insta::assert_snapshot!(checked(&[array], 80, false), @r"
        md0: raid5 of 3 disks, 2 of them data
        chunk         512 KiB
        stripe        unknown (damaged)
        holds         xfs on /
          change: it is small
                  make it larger
        ");
    }

    #[test]
    fn the_example_of_sara_on_a_screen() {
        let text = screen(RaidLevel::Raid0, 8, Pattern::SequentialRead, 100);
        assert!(text.starts_with("raid0 of 8 disks, 8 of them data: none may fail\n"), "{text}");
        assert!(text.contains("  →  512 KiB    4 MiB            8.0\n"), "{text}");
        assert!(text.contains("mkfs.xfs -b size=4096 -d su=512k,sw=8 /dev/md/data"), "{text}");
    }
}
