//! A recording of `linerate watch`, and the kernel's files that a watch reads.

use linerate::counters::{
    parse_diskstats, parse_interrupts, parse_meminfo, parse_net_dev, parse_pressure, parse_softirqs,
    parse_stat,
};
use linerate::watch::{Replay, SCHEMA, bottleneck, lines, openmetrics};
use std::io::Cursor;

/// Any moment that is played can be shown; after the sentence about what is broken nothing comes.
pub fn watch_recording(input: &[u8]) {
    files(&String::from_utf8_lossy(input));
    let replay = match Replay::read("x".into(), Cursor::new(input.to_vec())) {
        Ok(replay) => replay,
        Err(why) => return assert_eq!(why.name, "x"),
    };
    let mut broken = false;
    for moment in replay {
        assert!(!broken, "something comes after the end");
        match moment {
            Ok(moment) => {
                assert_eq!(moment.schema, SCHEMA);
                assert!(openmetrics(&moment).ends_with("# EOF\n"));
                assert!(!lines::line(&moment).is_empty() && !bottleneck::bottleneck_of(&moment).1.is_empty());
            }
            Err(why) => {
                assert_eq!(why.name, "x");
                broken = true;
            }
        }
    }
}

fn files(text: &str) {
    if let Some(table) = parse_interrupts(text) {
        assert!(table.lines.iter().all(|line| line.counts.len() == table.cores.len()));
    }
    let _ = parse_softirqs(text);
    assert!(parse_diskstats(text).is_none_or(|disks| !disks.is_empty()));
    assert!(parse_stat(text).is_none_or(|stat| stat.cores.cores() > 0));
    let _ = (parse_net_dev(text), parse_meminfo(text), parse_pressure(text));
}
