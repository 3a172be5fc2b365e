//! The past of a watch: how moments fall into its slots, and what becomes of gaps.

use super::super::model::{NicDirection, NicRates};
use super::*;

/// A moment in which each of these NICs sent so much.
fn moment(at_ms: i64, interval_ms: f64, sent: &[(&str, f64)]) -> Moment {
    let nic = |(name, rate): &(&str, f64)| NicRates {
        name: name.to_string(),
        send: NicDirection { bits_per_second: Some(*rate), ..NicDirection::default() },
        ..NicRates::default()
    };
    Moment { at_ms, interval_ms, nics: sent.iter().map(nic).collect(), ..Moment::default() }
}

fn sent(history: &History, span: Span, name: &str) -> Vec<Option<f32>> {
    history.past(span, SeriesKind::NicSend, name).expect("a series").mean
}

#[test]
fn a_minute_of_seconds_is_a_minute_and_each_slot_its_second() {
    let mut history = History::default();
    for second in 0..90 {
        history.push(&moment(second * 1000, 1000.0, &[("eth0", second as f64)]));
    }
    let minute = sent(&history, Span::Minute, "eth0");
    assert_eq!(minute.len(), 60);
    // The newest second has only begun: the moment at 89.000 s was of the second before.
    assert_eq!(minute[59], None);
    assert_eq!(minute[58], Some(89.0));
    assert_eq!(minute[0], Some(31.0));
    let hour = sent(&history, Span::Hour, "eth0");
    // 80.000 to 90.000 s: the moments 81 to 89.
    assert_eq!(hour[359], Some(85.0));
    let most = history.past(Span::Hour, SeriesKind::NicSend, "eth0").expect("a series").most;
    assert_eq!(most[359], Some(89.0));
}

#[test]
fn a_long_interval_leaves_no_holes_and_a_short_one_is_a_mean() {
    let mut history = History::default();
    history.push(&moment(100_000, 10_000.0, &[("eth0", 7.0)]));
    let minute = sent(&history, Span::Minute, "eth0");
    assert_eq!(minute.iter().flatten().count(), 10);
    assert!(minute.iter().flatten().all(|rate| *rate == 7.0));
    let mut history = History::default();
    for tenth in 1..=10 {
        history.push(&moment(5_000 + tenth * 100, 100.0, &[("eth0", tenth as f64)]));
    }
    let minute = sent(&history, Span::Minute, "eth0");
    assert!((minute[58].expect("a mean") - 5.5).abs() < 0.001, "{minute:?}");
}

#[test]
fn what_was_silent_is_unknown_and_what_left_is_forgotten_after_a_day() {
    let mut history = History::default();
    history.push(&moment(1_000_500, 500.0, &[("old", 1.0), ("eth0", 1.0)]));
    history.push(&moment(1_030_500, 500.0, &[("eth0", 3.0)]));
    let minute = sent(&history, Span::Minute, "old");
    assert_eq!((minute[29], minute[59]), (Some(1.0), None));
    let both = history.past(Span::Minute, SeriesKind::SumSend, "").expect("the sum").mean;
    assert_eq!((both[29], both[59], both[45]), (Some(2.0), Some(3.0), None));
    history.push(&moment(1_000_500 + 86_400_000, 500.0, &[("eth0", 3.0)]));
    assert!(history.past(Span::Day, SeriesKind::NicSend, "old").is_some());
    history.push(&moment(1_001_500 + 86_400_000, 500.0, &[("eth0", 3.0)]));
    assert!(history.past(Span::Day, SeriesKind::NicSend, "old").is_none());
}

#[test]
fn a_clock_set_back_restarts_and_one_that_trembles_does_not() {
    let mut history = History::default();
    history.push(&moment(10_000_900, 900.0, &[("eth0", 1.0)]));
    history.push(&moment(10_001_100, 100.0, &[("eth0", 2.0)]));
    history.push(&moment(10_000_950, 100.0, &[("eth0", 3.0)]));
    assert_eq!(sent(&history, Span::Minute, "eth0")[59], Some(2.0));
    history.push(&moment(5_000_900, 500.0, &[("eth0", 4.0)]));
    let minute = sent(&history, Span::Minute, "eth0");
    assert_eq!((minute[59], minute.iter().flatten().count()), (Some(4.0), 1));
    for span in Span::ALL {
        assert_eq!(history.report(span).series[0].mean.len(), span.slots());
    }
}

#[test]
fn memory_is_bounded_however_many_devices_come_and_go() {
    let mut history = History::default();
    for round in 0..40 {
        let names: Vec<String> = (0..30).map(|n| format!("veth{round}x{n}")).collect();
        let all: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
        history.push(&moment(1_000_000 + round * 1000, 1000.0, &all));
        assert!(history.series.len() <= SERIES);
    }
    assert!(history.past(Span::Minute, SeriesKind::NicSend, "veth39x0").is_some());
    assert!(history.past(Span::Minute, SeriesKind::NicSend, "veth0x0").is_none());
    let crowd: Vec<String> = (0..SERIES + 50).map(|n| format!("n{n}")).collect();
    let all: Vec<(&str, f64)> = crowd.iter().map(|name| (name.as_str(), 1.0)).collect();
    history.push(&moment(2_000_000, 1000.0, &all));
    assert_eq!(history.series.len(), SERIES);
}

#[test]
fn wild_times_do_no_harm() {
    let mut history = History::default();
    for (at, interval) in [(0, 1e30), (i64::MAX / 4, 1000.0), (-5, f64::NAN), (1000, -1.0), (-1, 5.0)] {
        history.push(&moment(at, interval, &[("eth0", 1.0)]));
    }
    assert_eq!(history.report(Span::Day).series[0].mean.len(), 1440);
}
