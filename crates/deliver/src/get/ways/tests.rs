//! Streams dealt to ways, ways and servers that are left out.

use super::*;
use crate::tls::TlsTrust;
use std::time::Duration;

fn ways(stop: &AtomicBool, nics: usize, streams: u32) -> Ways<'_> {
    let settings = ClientSettings::new(stop, Duration::from_secs(1), 1, None, TlsTrust::Host);
    let lo = LocalNic::find("127.0.0.1").expect("loopback");
    let url = "http://h/".parse().expect("a URL");
    Ways::new(settings, &[url], &vec![lo; nics], streams)
}

fn unreachable() -> GetError {
    GetError::Unreachable { authority: "h".into(), why: "no answer".into() }
}

#[test]
fn streams_are_dealt_to_the_nics_in_turn_and_each_has_one() {
    let stop = AtomicBool::new(false);
    let three = ways(&stop, 3, 2);
    assert_eq!((three.streams(), three.of_stream(2)), (3, 2));
    let two = ways(&stop, 2, 5);
    assert_eq!((two.streams_of(0), two.streams_of(1)), (3, 2));
    assert!(ways(&stop, 0, 4).reports().is_empty());
}

#[test]
fn a_way_that_brings_nothing_is_left_out_and_the_last_one_never() {
    let stop = AtomicBool::new(false);
    let ways = ways(&stop, 2, 2);
    for failure in 1..=MOST_FAILURES {
        assert!(ways.blames(0, (&unreachable(), 0), 0, |_| true));
        assert_eq!(ways.is_lost(0), failure == MOST_FAILURES, "{failure}");
    }
    let why = ways.reports()[0].left_out.clone().expect("a sentence");
    assert!(why.contains("lo was left out") && why.contains("no answer"), "{why}");
    // The file's own failures count where there is no other way.
    assert!(!ways.blames(1, (&unreachable(), 0), 0, |_| true) && !ways.is_lost(1));
}

#[test]
fn what_brings_bytes_between_its_failures_stays() {
    let stop = AtomicBool::new(false);
    let ways = ways(&stop, 2, 2);
    for _ in 0..3 * MOST_FAILURES {
        ways.blames(0, (&unreachable(), SOMETHING_BYTES), 0, |_| true);
    }
    assert!(!ways.is_lost(0));
    assert!(!ways.blames(0, (&GetError::Interrupted, 0), 0, |_| true), "no fault of a way");
}

#[test]
fn failures_with_successes_between_them_are_not_in_a_row() {
    let stop = AtomicBool::new(false);
    let ways = ways(&stop, 2, 2);
    for _ in 0..3 * MOST_FAILURES {
        assert!(ways.blames(0, (&unreachable(), 0), 0, |_| true) && ways.failures(0) == 1);
        ways.succeeded(0);
    }
    assert!(!ways.is_lost(0) && ways.failures(0) == 0, "it is dealt with as before");
}

#[test]
fn a_mirror_that_is_busy_is_left_out_after_some_tries_and_the_first_server_is_not() {
    let stop = AtomicBool::new(false);
    let ways = mirrored(&stop, 2, 2);
    let busy = || GetError::Overloaded { url: "http://127.0.0.1:1/f".into() };
    let bad_gateway = || GetError::Status { url: "http://127.0.0.1:1/f".into(), status: 502 };
    for error in [busy(), bad_gateway()] {
        assert!(!ways.blames(0, (&error, 0), 0, |_| true), "its word is the file's");
        assert!(ways.blames(1, (&error, 0), 0, |_| true));
    }
    let missing = GetError::NotFound { url: "http://127.0.0.2:1/f".into() };
    assert!(!ways.blames(1, (&missing, 0), 0, |_| true), "that is said of the file");
    (2..MOST_FAILURES).for_each(|_| assert!(ways.blames(1, (&busy(), 0), 0, |_| true)));
    assert!(!ways.lives(1) && ways.lives(0));
}

fn mirrored(stop: &AtomicBool, servers: usize, streams: u32) -> Ways<'_> {
    let settings = ClientSettings::new(stop, Duration::from_secs(1), 1, None, TlsTrust::Host);
    let url = |server| format!("http://127.0.0.{}:1/f", server + 1).parse().expect("a URL");
    let urls: Vec<HttpUrl> = (0..servers).map(url).collect();
    Ways::new(settings, &urls, &[], streams)
}

#[test]
fn streams_of_a_way_that_is_lost_go_over_to_one_that_lives() {
    let stop = AtomicBool::new(false);
    let ways = mirrored(&stop, 3, 4);
    assert_eq!((ways.servers(), ways.streams(), ways.first_server(|_| true)), (3, 4, Some(0)));
    assert_eq!((ways.streams_of(0), ways.streams_of(1)), (2, 1));
    ways.leave_out(1, "it lies");
    assert!(ways.is_lost(1) && !ways.lives(1) && ways.way_to(1, 0).is_none());
    assert_eq!(ways.instead_of(1), 2, "that with the fewest");
    assert_eq!(ways.streams_of(2), 2);
    ways.leave_out(0, "it is away");
    assert_eq!((ways.first_server(|_| true), ways.instead_of(0)), (Some(2), 2));
    // The last one is never left out.
    ways.leave_out(2, "it is away, too");
    assert!(ways.lives(2));
    let reports = ways.reports();
    assert_eq!(reports[1].left_out.as_deref(), Some("http://127.0.0.2:1 was left out: it lies"));
    assert_eq!((reports.len(), &reports[2].left_out), (3, &None));
    assert_eq!(ways.first_server(|server| server < 2), None);
}

#[test]
fn a_server_is_to_blame_only_where_another_has_the_file() {
    let stop = AtomicBool::new(false);
    let ways = mirrored(&stop, 2, 2);
    assert!(!ways.blames(0, (&unreachable(), 0), 0, |server| server == 0), "the mirror has it not");
    assert!(ways.blames(0, (&unreachable(), 0), 0, |_| true));
    assert_eq!((ways.failures(0), ways.failures(1)), (1, 0));
}

#[test]
fn a_mirror_of_other_files_is_left_out_and_one_with_few_of_them_is_not() {
    let stop = AtomicBool::new(false);
    let error = GetError::NotFound { url: "http://127.0.0.2:1/f".into() };
    let ways = mirrored(&stop, 2, 2);
    ways.refused(1, &error, 1);
    assert!(!ways.lives(1), "the one file is another there");
    let ways = mirrored(&stop, 2, 2);
    (0..MOST_REFUSED - 1).for_each(|_| ways.refused(1, &error, 100));
    ways.has_same(1);
    ways.refused(1, &error, 100);
    assert!(ways.lives(1));
    let notes = ways.notes();
    assert!(notes.len() == 1 && notes[0].contains("and for 7 more files"), "{notes:?}");
    let two = mirrored(&stop, 2, 2);
    (0..2).for_each(|_| two.refused(1, &error, 100));
    assert!(two.notes()[0].ends_with("and for 1 more file"), "{:?}", two.notes());
    ways.refused(1, &error, 100);
    assert!(!ways.lives(1) && ways.notes().is_empty());
    assert!(ways.reports()[1].left_out.clone().is_some_and(|why| why.contains("404")));
}

#[test]
fn the_ways_that_streams_waited_for_are_named_with_their_rates() {
    let stop = AtomicBool::new(false);
    let ways = mirrored(&stop, 2, 2);
    ways.came(1, 3_000_000, Duration::from_secs(1));
    let limit =
        TransferLimit { kind: Some(LimitKind::Sender), sentence: "the network".into(), ..Default::default() };
    let named = ways.name_limits(limit.clone(), &[(0, 0.1), (1, 0.9), (1, 0.95)]);
    assert_eq!(named.ways, ["http://127.0.0.2:1"]);
    assert!(named.sentence.starts_with("the network: http://127.0.0.2:1 ("), "{}", named.sentence);
    let both = ways.name_limits(limit.clone(), &[(0, 0.9), (1, 0.9)]);
    assert_eq!(both.ways.len(), 2);
    let disk = TransferLimit { kind: Some(LimitKind::Disk), ..limit };
    assert_eq!(ways.name_limits(disk.clone(), &[(0, 0.9)]), disk);
}
