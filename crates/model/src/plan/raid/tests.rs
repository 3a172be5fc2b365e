//! The arithmetic against SARA's worked example, against counting by hand, and against everything.

use super::*;
use crate::plan::raid::level::LEVELS;
use proptest::prelude::*;

pub(super) fn ask(level: RaidLevel, disks: u32, request_bytes: u64, pattern: Pattern) -> RaidSpec {
    RaidSpec {
        level,
        disks,
        block_bytes: 4096,
        request_bytes,
        pattern,
        chunk_bytes: None,
        devices: Vec::new(),
    }
}

fn chunks(layout: &RaidLayout) -> Vec<u64> {
    layout.choices.iter().map(|choice| choice.chunk_bytes >> 10).collect()
}

/// D1.3, section 9.2: 8 SSDs of 4 KiB blocks, RAID-0, reads of 16 MiB: "4, 8, 16, 32, 64, 128, 256, 512, 1024
/// or 2048 kiByte".
#[test]
fn the_example_of_sara() {
    let layout = raid(&ask(RaidLevel::Raid0, 8, 16 << 20, Pattern::SequentialRead)).expect("a layout");
    assert_eq!(chunks(&layout), [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]);
    assert_eq!(layout.chunk_bytes, Some(512 << 10));
    assert_eq!(layout.stripe_bytes, Some(4 << 20));
    assert_eq!((layout.stride_blocks, layout.stripe_width_blocks), (Some(128), Some(1024)));
    assert_eq!(layout.data_disks, 8);
    assert_eq!(layout.traffic.disks_per_request, 8.0);
    // "a 4-disk RAID-5 array has 3 data-bearing disks".
    assert_eq!(
        raid(&ask(RaidLevel::Raid5, 4, 1 << 20, Pattern::SequentialRead)).expect("a layout").data_disks,
        3
    );
}

/// "choose your chunk size equal to or larger than the average I/O request size".
#[test]
fn small_requests_stay_on_one_disk() {
    let layout = raid(&ask(RaidLevel::Raid10, 8, 16 << 10, Pattern::RandomRead)).expect("a layout");
    assert_eq!(chunks(&layout), [16, 32, 64, 128, 256, 512, 1024]);
    assert_eq!(layout.chunk_bytes, Some(128 << 10));
    assert_eq!(layout.traffic.disks_per_request, 1.0);
    // An SSD that erases 512 KiB at once.
    let writes =
        RaidSpec { block_bytes: 512 << 10, ..ask(RaidLevel::Raid0, 4, 512 << 10, Pattern::RandomWrite) };
    assert_eq!(raid(&writes).expect("a layout").choices[0].chunk_bytes, 512 << 10);
}

#[test]
fn requests_too_small_for_all_disks_are_said_to_be() {
    let layout = raid(&ask(RaidLevel::Raid0, 8, 16 << 10, Pattern::SequentialRead)).expect("a layout");
    assert!(layout.why.contains("cannot reach 8 data disks"), "{}", layout.why);
    assert!(layout.chunk_bytes.is_some_and(|chunk| chunk >= 16 << 10));
}

#[test]
fn a_small_write_costs_what_the_books_say() {
    // RAID-5: read data and parity, write data and parity; RAID-6 one parity more; a mirror writes twice.
    let small = |level, disks| {
        let seen = traffic(level, disks, Some(64 << 10), 4096, Pattern::RandomWrite);
        (seen.operations_of_small_write, seen.read_per_byte, seen.written_per_byte)
    };
    assert_eq!(small(RaidLevel::Raid5, 8), (4, 2.0, 2.0));
    assert_eq!(small(RaidLevel::Raid6, 8), (6, 3.0, 3.0));
    assert_eq!(small(RaidLevel::Raid10, 8), (2, 0.0, 2.0));
    assert_eq!(small(RaidLevel::Raid0, 8), (1, 0.0, 1.0));
    // Three disks: reading the other data disk is less than reading data and parity.
    assert_eq!(small(RaidLevel::Raid5, 3), (4, 1.0, 2.0));
}

#[test]
fn whole_stripes_are_not_read_before_they_are_written() {
    let whole = traffic(RaidLevel::Raid5, 5, Some(256 << 10), 1 << 20, Pattern::SequentialWrite);
    assert_eq!((whole.read_per_byte, whole.written_per_byte, whole.whole_stripes), (0.0, 1.25, 1.0));
    // Half a stripe of 4 data chunks: 2 chunks written; reading the other 2 is less than 2 + parity.
    let half = traffic(RaidLevel::Raid5, 5, Some(256 << 10), 512 << 10, Pattern::SequentialWrite);
    assert_eq!((half.read_per_byte, half.written_per_byte, half.whole_stripes), (1.0, 1.5, 0.0));
}

#[test]
fn seven_data_disks_get_a_chunk_that_wastes_little() {
    let even = raid(&ask(RaidLevel::Raid5, 9, 16 << 20, Pattern::SequentialWrite)).expect("a layout");
    assert_eq!((even.chunk_bytes, even.traffic.whole_stripes), (Some(512 << 10), 1.0));
    let odd = raid(&ask(RaidLevel::Raid5, 8, 16 << 20, Pattern::SequentialWrite)).expect("a layout");
    assert!(odd.chunk_bytes < even.chunk_bytes && odd.chunk_bytes >= Some(64 << 10), "{:?}", odd.chunk_bytes);
    assert!(odd.traffic.whole_stripes > 0.8 && odd.traffic.whole_stripes < 1.0, "{:?}", odd.traffic);
    assert!(odd.why.contains("part of a stripe"), "{}", odd.why);
    assert!(odd.notes.iter().any(|note| note.contains("power of two of data")), "{:?}", odd.notes);
}

#[test]
fn wrong_questions_name_the_thing_the_cause_and_the_remedy() {
    let usual = || ask(RaidLevel::Raid5, 8, 1 << 20, Pattern::SequentialRead);
    let complaint = |ask: RaidSpec| raid(&ask).expect_err("a complaint").to_string();
    for (wrong, words) in [
        (RaidSpec { disks: 2, ..usual() }, ["raid5 needs at least 3 disks, not 2", "raid1"]),
        (RaidSpec { disks: 0, ..usual() }, ["at least 3 disks, not 0", "raid1"]),
        (RaidSpec { disks: 300, ..usual() }, ["300 disks", "several"]),
        (RaidSpec { level: RaidLevel::Raid10, disks: 5, ..usual() }, ["no whole pairs", "spare"]),
        (RaidSpec { chunk_bytes: Some(6000), ..usual() }, ["6000", "--chunk 8192"]),
        (RaidSpec { chunk_bytes: Some(0), ..usual() }, ["not a multiple", "--chunk 4096"]),
        (RaidSpec { chunk_bytes: Some(96 << 10), ..usual() }, ["powers of two", "--chunk 65536"]),
        (RaidSpec { chunk_bytes: Some(u64::MAX), ..usual() }, ["larger than 1 GiB", "never leave"]),
        (RaidSpec { chunk_bytes: Some(1 << 40), ..usual() }, ["larger than 1 GiB", "never leave"]),
        (RaidSpec { request_bytes: 512, ..usual() }, ["smaller than the disks' physical block", "--request"]),
        // D1.3 §7: a page of 4 KiB in a block of 256 KiB: 64 pages are written for one.
        (
            RaidSpec { request_bytes: 4096, block_bytes: 256 << 10, ..usual() },
            ["64 bytes for each of the request", "erases"],
        ),
        (RaidSpec { request_bytes: 0, ..usual() }, ["smaller than the disks' physical block", "--block"]),
        (
            RaidSpec { request_bytes: 1_000_000, ..usual() },
            ["not a whole number of blocks", "--request 999424"],
        ),
        (RaidSpec { request_bytes: u64::MAX, ..usual() }, ["not a whole number", "1 GiB"]),
        (RaidSpec { block_bytes: 0, ..usual() }, ["physical block of 0", "power of two"]),
        (RaidSpec { block_bytes: 3000, ..usual() }, ["physical block of 3000", "4k"]),
        (RaidSpec { devices: vec!["/dev/sdb".into(); 8], ..usual() }, ["/dev/sdb", "twice"]),
        (
            RaidSpec { level: RaidLevel::Raid1, chunk_bytes: Some(4096), ..usual() },
            ["raid1 has no chunk", "leave --chunk out"],
        ),
        (
            RaidSpec { level: RaidLevel::Raidz2, chunk_bytes: Some(4096), ..usual() },
            ["record", "leave --chunk out"],
        ),
        (
            RaidSpec { level: RaidLevel::BtrfsRaid0, chunk_bytes: Some(4096), ..usual() },
            ["64 KiB", "leave --chunk out"],
        ),
    ] {
        let text = complaint(wrong.clone());
        for word in words {
            assert!(text.contains(word), "{wrong:?}: {text} lacks {word}");
        }
    }
}

#[test]
fn lines_of_each_level() {
    let shell = |level, disks| {
        let layout = raid(&ask(level, disks, 1 << 20, Pattern::SequentialRead)).expect("a layout");
        layout.lines.iter().map(RaidCommand::shell).collect::<Vec<_>>()
    };
    assert_eq!(
        shell(RaidLevel::Raid6, 6),
        [
            "mdadm --create /dev/md/data --level=raid6 --raid-devices=6 --chunk=256K --bitmap=internal DISK1 \
             DISK2 DISK3 DISK4 DISK5 DISK6",
            "mkfs.xfs -b size=4096 -d su=256k,sw=4 /dev/md/data",
            "mkfs.ext4 -b 4096 -E stride=64,stripe_width=256 /dev/md/data",
            "mkfs.btrfs --data single --metadata dup /dev/md/data",
            "zpool create -o ashift=12 -O recordsize=1M data raidz2 DISK1 DISK2 DISK3 DISK4 DISK5 DISK6",
        ]
    );
    assert_eq!(
        shell(RaidLevel::Raid10, 4).last().map(String::as_str),
        Some("zpool create -o ashift=12 -O recordsize=1M data mirror DISK1 DISK2 mirror DISK3 DISK4")
    );
    assert_eq!(
        shell(RaidLevel::BtrfsRaid10, 4),
        ["mkfs.btrfs --data raid10 --metadata raid10 DISK1 DISK2 DISK3 DISK4"]
    );
    assert_eq!(shell(RaidLevel::Raidz1, 3).len(), 1);
    let linear = shell(RaidLevel::Linear, 2);
    assert_eq!(linear[0], "mdadm --create /dev/md/data --level=linear --raid-devices=2 DISK1 DISK2");
    assert_eq!(linear[1], "mkfs.xfs -b size=4096 /dev/md/data");
    assert!(shell(RaidLevel::Raid0, 8).iter().any(|line| line.contains("--stripes 8 --stripesize 128k")));
    let named = RaidSpec {
        devices: vec!["/dev/sdb".into(), "/dev/my disk".into()],
        ..ask(RaidLevel::Raid1, 2, 1 << 20, Pattern::RandomRead)
    };
    assert!(raid(&named).expect("a layout").lines[0].shell().ends_with("/dev/sdb '/dev/my disk'"));
}

/// A write in the plainest way: each byte of each chunk on its own, rows of one block.
fn counted(chunk: u64, data: u64, parity: u64, start: u64, length: u64) -> (u64, u64) {
    let (mut reads, mut writes) = (0, 0);
    let stripe = chunk * data;
    for index in start / stripe..=(start + length - 1) / stripe {
        for row in 0..chunk {
            let touched = (0..data)
                .filter(|disk| (start..start + length).contains(&(index * stripe + disk * chunk + row)))
                .count() as u64;
            if touched > 0 {
                writes += touched + parity;
                if parity > 0 && touched < data {
                    reads += (touched + parity).min(data - touched);
                }
            }
        }
    }
    (reads, writes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn traffic_is_what_counting_gives(chunk in 1u64..12, disks in 4u32..8, request in 1u64..150, six in any::<bool>()) {
        let level = if six { RaidLevel::Raid6 } else { RaidLevel::Raid5 };
        let data = u64::from(level.data_disks(disks));
        let parity = u64::from(level.parity());
        let seen = traffic(level, disks, Some(chunk), request, Pattern::SequentialWrite);
        // One period of positions and more averages to the same.
        let stripe = chunk * data;
        let (mut reads, mut writes) = (0, 0);
        for index in 0..stripe {
            let (read, written) = counted(chunk, data, parity, index * request, request);
            reads += read;
            writes += written;
        }
        let bytes = (stripe * request) as f64;
        prop_assert!((seen.read_per_byte - reads as f64 / bytes).abs() < 1e-9, "{seen:?} {reads}");
        prop_assert!((seen.written_per_byte - writes as f64 / bytes).abs() < 1e-9, "{seen:?} {writes}");
    }

    #[test]
    fn every_layout_keeps_the_rules(
        level in 0usize..LEVELS.len(), disks in 0u32..300, request in 0u64..20, block in 0u32..15,
        pattern in 0usize..4, chunk in proptest::option::of(0u64..1 << 22),
    ) {
        use Pattern::*;
        let ask = RaidSpec {
            block_bytes: 1 << block,
            chunk_bytes: chunk,
            ..ask(LEVELS[level], disks, (1 << request) * 3, [SequentialRead, SequentialWrite, RandomRead, RandomWrite][pattern])
        };
        let Ok(layout) = raid(&ask) else { return Ok(()) };
        prop_assert!(layout.data_disks >= 1 && layout.data_disks <= disks && layout.may_fail < disks);
        for choice in &layout.choices {
            prop_assert!(choice.chunk_bytes.is_multiple_of(ask.block_bytes) || ask.level.system() == System::Btrfs);
            prop_assert!(choice.disk_bytes_per_byte >= 1.0 - 1e-9 && choice.disks_per_request >= 1.0);
        }
        if let (None, Some(picked)) = (ask.chunk_bytes, layout.chunk_bytes) {
            prop_assert!(layout.choices.iter().any(|choice| choice.chunk_bytes == picked));
        }
        if let (Some(chunk), Some(stripe), Some(width)) = (layout.chunk_bytes, layout.stripe_bytes, layout.stripe_width_blocks) {
            prop_assert_eq!(stripe, chunk * u64::from(layout.data_disks));
            prop_assert_eq!(width, stripe / LEAST_CHUNK_BYTES);
        }
        prop_assert!(!layout.lines.is_empty() && !layout.why.is_empty());
    }
}
