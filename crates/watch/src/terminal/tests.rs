//! Screens of the rich moment at several sizes, drawn as a terminal would get them.

use super::pieces::Theme;
use super::screen::SMALLEST;
use super::state::{Page, ProcessSort, ViewState};
use super::{View, compose, render};
use crate::history::{History, LatestMoment, Span};
use crate::model::{DropLine, Moment};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

pub(super) const COLOURS: Theme = Theme { colours: true, unicode: true };
const PLAIN: Theme = Theme { colours: false, unicode: true };
pub(super) const ASCII: Theme = Theme { colours: false, unicode: false };

pub(super) fn rich() -> Moment {
    serde_json::from_str(include_str!("../../../../fixtures/watch-moment.json")).expect("a moment")
}

fn past_of(moment: &Moment) -> History {
    let mut history = History::default();
    for second in 0..50 {
        let mut then = moment.clone();
        then.at_ms -= (50 - second) * 1000;
        history.push(&then);
    }
    history
}

fn drawn(moment: &Moment, state: &ViewState, theme: Theme, width: u16, height: u16) -> Buffer {
    let note = "page at http://127.0.0.1:7414/";
    let history = &past_of(moment);
    shown(&View { moment, history, state, theme, note, ended: false }, width, height)
}

fn shown(view: &View<'_>, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let (lines, _) = compose(view, width, height);
    assert!(lines.len() <= usize::from(height), "{} lines of {height}", lines.len());
    terminal.draw(|frame| render(frame, lines)).expect("drawn");
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let symbols: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
    symbols.chunks(width).map(|row| row.concat().trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

fn on(page: Page) -> ViewState {
    ViewState { page, ..ViewState::default() }
}

fn screen(page: Page, width: u16, height: u16) -> String {
    text(&drawn(&rich(), &on(page), COLOURS, width, height))
}

#[test]
fn the_overview_reports_what_matters_at_every_size() {
    for (width, height) in [(80, 24), (200, 60), (120, 40), (60, 16)] {
        let shown = screen(Page::Overview, width, height);
        let moment = rich();
        let figures = "streamer7|96.6 Gb/s|968 Mb/s|Network|Disks|CPU|Losses|enp23s0f0|nvme0n1|q quit";
        for expected in figures.split('|') {
            assert!(shown.contains(expected), "{width}x{height}: {expected}\n{shown}");
        }
        let sentence = moment.bottleneck.expect("a bottleneck");
        let start: String = sentence.chars().take(30).collect();
        assert!(shown.contains(&start), "{width}x{height}: {sentence}\n{shown}");
    }
}

#[test]
fn a_tall_terminal_has_graphs_of_all_nics_together() {
    let shown = screen(Page::Overview, 120, 40);
    assert!(shown.contains("sent, last minute") && shown.contains("received, last minute"), "{shown}");
    assert!(shown.lines().filter(|line| line.contains("██████")).count() > 8, "{shown}");
    assert!(!screen(Page::Overview, 80, 18).contains("sent, last"));
}

#[test]
fn forty_by_ten_is_still_useful_and_less_is_one_sentence() {
    let shown = screen(Page::Overview, 40, 10);
    assert_eq!(shown.lines().count(), 10);
    for expected in ["streamer7", "96.6 Gb/s", "Disks read 12.1 GB/s", "CPU", "Losses", "enp23s0f0", "q quit"]
    {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    for (width, height) in [(39, 10), (40, 9), (12, 3), (1, 1), (200, 2)] {
        let small = screen(Page::Overview, width, height);
        let start: String =
            "linerate watch needs a terminal of 40 x 10".chars().take(usize::from(width).min(8)).collect();
        assert!(small.starts_with(&start), "{small}");
        assert!(!small.contains("Gb/s"), "{small}");
    }
    assert_eq!(SMALLEST, (40, 10));
}

#[test]
fn every_page_fits_every_size_and_scrolls_to_its_end() {
    for page in Page::ALL {
        for (width, height) in [(40, 10), (80, 24), (200, 60), (41, 11), (300, 10)] {
            for down in [0, 3, usize::MAX] {
                let state = ViewState { page, down, ..ViewState::default() };
                let shown = text(&drawn(&rich(), &state, COLOURS, width, height));
                assert!(
                    shown.contains("streamer7") && shown.contains(page.word()),
                    "{page:?} {width}x{height}\n{shown}"
                );
            }
        }
    }
    let end = |page| {
        let state = ViewState { page, down: usize::MAX, ..ViewState::default() };
        text(&drawn(&rich(), &state, COLOURS, 80, 12))
    };
    assert!(end(Page::Disks).contains("sda") && !end(Page::Disks).contains("more lines"));
    assert!(screen(Page::Nics, 80, 10).contains("more lines"));
}

#[test]
fn up_after_the_end_moves_one_row() {
    let (moment, history, latest) = (rich(), History::default(), LatestMoment::default());
    for page in [Page::Nics, Page::Ledger, Page::Processes] {
        let mut state = on(page);
        let mut pressed = |key: KeyCode| {
            state.key(key.into(), &latest);
            let (history, theme, note) = (&history, PLAIN, "");
            let view = View { moment: &moment, history, state: &state, theme, note, ended: false };
            let (lines, down) = compose(&view, 80, 10);
            state.down = down;
            (down, lines)
        };
        let (end, last_lines) = pressed(KeyCode::End);
        assert!(end > 0 && pressed(KeyCode::Down) == (end, last_lines.clone()), "{page:?}: {end}");
        let (up, lines) = pressed(KeyCode::Up);
        assert!(up == end - 1 && lines != last_lines, "{page:?}: {up} of {end}");
    }
}

#[test]
fn pages_show_their_figures() {
    let pages = [
        (Page::Nics, "mlx5_core|link 100 Gb/s|98 %|8.0M packets/s|no carrier|12 drops/s, 3 errors/s"),
        (Page::Nics, "tx_pause_ctrl_phy|queue 3|core 3"),
        (Page::Disks, "SAMSUNG|6.43 GB/s|49k/s|0.61 ms|queue 30.1 deep, 32 in flight|of 128|18 ms"),
        (Page::Cpu, "softirq|41k interrupts/s|mlx5_comp0|31 rounds/s squeezed|Memory|io 14 % (all 9 %)"),
        (Page::Ledger, "cure:|TCP|212 connections|retransmitted 140/s|UDP|PCIe"),
        (Page::Power, "W|J per GB moved|idle"),
        (Page::Processes, "4 of 412 processes move bytes|nginx|8123|6.41 GB/s|12.1 GB/s"),
        (Page::Processes, "212 connections|UDP is unknown"),
    ];
    for (page, expected) in pages {
        let shown = screen(page, 120, 60);
        for expected in expected.split('|') {
            assert!(shown.contains(expected), "{page:?}: {expected}\n{shown}");
        }
    }
}

#[test]
fn a_link_that_is_full_and_drops_are_red() {
    let buffer = drawn(&rich(), &ViewState::default(), COLOURS, 120, 40);
    let red: String =
        buffer.content.iter().filter(|cell| cell.fg == Color::Red).map(|cell| cell.symbol()).collect();
    assert!(red.contains("15/s lost") && red.contains('█'), "{red}");
}

#[test]
fn without_colours_there_are_none_and_the_meaning_stays() {
    for theme in [PLAIN, ASCII] {
        for page in Page::ALL {
            let buffer = drawn(&rich(), &on(page), theme, 120, 40);
            assert!(buffer.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
        }
        let buffer = drawn(&rich(), &ViewState::default(), theme, 120, 40);
        let reversed: String = buffer
            .content
            .iter()
            .filter(|cell| cell.modifier.contains(Modifier::REVERSED))
            .map(|cell| cell.symbol())
            .collect();
        assert!(reversed.contains("15/s lost"), "{reversed}");
        // The busiest core's classes are letters.
        assert!(text(&buffer).contains("ssss") && text(&buffer).contains("qqqq"), "{}", text(&buffer));
    }
    let ascii = text(&drawn(&rich(), &ViewState::default(), ASCII, 120, 40));
    assert!(ascii.is_ascii(), "{ascii}");
}

#[test]
fn the_first_look_and_an_empty_machine_are_shown_without_figures() {
    let first = Moment { host: "new".into(), ..Moment::default() };
    for page in Page::ALL {
        let shown = text(&drawn(&first, &on(page), COLOURS, 80, 24));
        assert!(shown.contains("The first look"), "{shown}");
        assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    }
}

#[test]
fn wild_figures_and_names_do_no_harm() {
    let mut moment = rich();
    moment.host = "evil\x1b[2J\u{202e}host".into();
    moment.at_ms = i64::MAX;
    moment.bottleneck = Some("x".repeat(1000));
    moment.nics[0].name = "ä€😀".repeat(20);
    moment.nics[0].send.bits_per_second = Some(f64::NAN);
    moment.nics[0].send.share_of_link = Some(f64::INFINITY);
    moment.disks[0].read.request_bytes = Some(-1.0);
    let cure = "a cure that is longer than any line ".repeat(20);
    moment.drops.push(DropLine {
        layer: "l\n".into(),
        counter: "c".repeat(90),
        per_second: Some(f64::MAX),
        cure,
        ..DropLine::default()
    });
    for page in Page::ALL {
        for (width, height) in [(40, 10), (80, 24), (200, 60)] {
            let shown = text(&drawn(&moment, &on(page), COLOURS, width, height));
            assert!(!shown.contains('\x1b') && !shown.contains('\u{202e}'));
        }
    }
}

#[test]
fn a_machine_of_many_parts_says_what_it_leaves_out() {
    let mut moment = rich();
    let (nic, disk, core) = (moment.nics[0].clone(), moment.disks[0].clone(), moment.cpus.each[0].clone());
    for number in 0..40 {
        moment.nics.push(crate::model::NicRates { name: format!("eth{number}"), ..nic.clone() });
        moment.disks.push(crate::model::DiskRates { name: format!("sd{number}"), ..disk.clone() });
    }
    moment.cpus.each = (0..256).map(|number| crate::model::Core { number, ..core.clone() }).collect();
    let shown = text(&drawn(&moment, &ViewState::default(), COLOURS, 80, 24));
    assert!(shown.lines().filter(|line| line.contains('+')).count() >= 3, "{shown}");
    let all = text(&drawn(&moment, &on(Page::Cpu), COLOURS, 200, 60));
    assert!(all.contains(" 255 "), "{all}");
}

#[test]
fn the_end_of_a_recording_is_said_at_every_size() {
    let (moment, state) = (rich(), ViewState::default());
    let history = &past_of(&moment);
    for (width, height) in [(40, 10), (80, 24), (120, 40)] {
        let (note, theme) = ("replay of x.zst", PLAIN);
        let view = View { moment: &moment, history, state: &state, theme, note, ended: true };
        let screen = text(&shown(&view, width, height));
        assert!(screen.lines().next().is_some_and(|head| head.contains("replay ended")), "{screen}");
    }
    assert!(!screen(Page::Overview, 120, 40).contains("replay ended"));
}

#[test]
fn the_graph_of_the_sum_is_above_those_of_the_rows() {
    for width in [110, 120, 160, 200] {
        let screen = screen(Page::Overview, width, 40);
        let graph = |what: &str| {
            let row = |line: &&str| line.trim_start().starts_with(what) && line.contains('↑');
            let line = screen.lines().find(row).expect("a row");
            let columns: Vec<char> = line.chars().collect();
            // The last run of blocks in the row; behind it are only words.
            let end = columns.iter().rposition(|one| ('▁'..='█').contains(one)).expect("a graph");
            let before = columns[..end].iter().rposition(|one| !('▁'..='█').contains(one)).expect("a start");
            (before + 1, end)
        };
        assert_eq!(graph("Network"), graph("enp23s0f0"), "{width}\n{screen}");
    }
}

#[test]
fn a_bond_and_its_members_count_once() {
    let mut moment = rich();
    let mut bond = moment.nics[0].clone();
    bond.name = "bond0".into();
    bond.built_on = vec!["enp23s0f0".into(), "eno1".into()];
    moment.nics.push(bond);
    let state = ViewState::default();
    let screen = text(&drawn(&moment, &state, PLAIN, 120, 40));
    let title = screen.lines().find(|line| line.starts_with(" Network")).expect("a title");
    assert!(title.contains("96.6 Gb/s") && title.contains("968 Mb/s"), "{screen}");
    assert!(screen.contains("bond0"), "it has its row all the same");
    let past = past_of(&moment).past(Span::Minute, crate::history::SeriesKind::SumSend, "").expect("a sum");
    assert!(past.mean.iter().flatten().all(|rate| (rate / 96.576e9 - 1.0).abs() < 1e-6), "{past:?}");
    // Alone it is the sum.
    moment.nics.retain(|nic| nic.name == "bond0");
    let alone = text(&drawn(&moment, &state, PLAIN, 120, 40));
    assert!(alone.lines().any(|line| line.starts_with(" Network") && line.contains("96.6 Gb/s")), "{alone}");
    let nics = text(&drawn(&moment, &on(Page::Nics), PLAIN, 120, 40));
    assert!(nics.contains("built on enp23s0f0, eno1"), "{nics}");
}

#[test]
fn spans_pause_and_help_are_said() {
    let hour = ViewState { span: Span::Hour, ..ViewState::default() };
    assert!(text(&drawn(&rich(), &hour, COLOURS, 80, 24)).contains("last hour"));
    let help = ViewState { help: true, ..ViewState::default() };
    let shown = text(&drawn(&rich(), &help, COLOURS, 80, 24));
    for expected in ["Keys", "pause, go on", "softirq", "iowait"] {
        assert!(shown.contains(expected), "{shown}");
    }
}

#[test]
fn the_help_fits_eighty_columns() {
    let state = ViewState { help: true, ..ViewState::default() };
    let (moment, history) = (rich(), History::default());
    let view =
        View { moment: &moment, history: &history, state: &state, theme: ASCII, note: "", ended: false };
    for line in super::screen::help_lines(&view) {
        assert!(line.width() <= 80, "{line}");
    }
}

#[test]
fn the_busiest_come_first_and_idle_virtual_ones_are_folded() {
    let mut moment = rich();
    moment.nics.truncate(2);
    moment.nics[0].name = "aaa0".into();
    moment.nics[0].send = Default::default();
    moment.nics[0].receive = Default::default();
    let idle = moment.nics[0].clone();
    for number in 0..5 {
        let mut veth = idle.clone();
        (veth.name, veth.driver) = (format!("veth{number}"), Some("veth".into()));
        moment.nics.push(veth);
    }
    moment.nics[1].send.bits_per_second = Some(5e9);
    moment.nics[6].receive.bits_per_second = Some(1e3);
    let shown = |all: bool| {
        let state = ViewState { all, ..ViewState::default() };
        text(&drawn(&moment, &state, PLAIN, 120, 50))
    };
    let (few, all) = (shown(false), shown(true));
    let place = |screen: &str, name: &str| screen.lines().position(|line| line.contains(name));
    let busiest = moment.nics[1].name.clone();
    let order =
        [&busiest, "veth4", "aaa0"].map(|name| place(&few, name).unwrap_or_else(|| panic!("{name}: {few}")));
    assert!(order.is_sorted(), "{few}");
    assert!(few.contains("4 idle: a") && place(&few, "veth0").is_none(), "{few}");
    assert!(place(&all, "veth0").is_some() && !all.contains("idle: a"), "{all}");
}

#[test]
fn bytes_of_loop_devices_over_memory_are_in_the_sum_of_the_disks() {
    let mut moment = rich();
    moment.disks.truncate(1);
    let mut below = moment.disks[0].clone();
    moment.disks[0].is_virtual = true;
    moment.disks[0].read.bytes_per_second = Some(3e9);
    below.read.bytes_per_second = Some(0.0);
    below.write.bytes_per_second = Some(0.0);
    let shown = |moment: &Moment| text(&drawn(moment, &ViewState::default(), PLAIN, 120, 50));
    moment.disks.push(below.clone());
    assert!(shown(&moment).contains("Disks read 3.00 GB/s"), "{}", shown(&moment));
    moment.disks[1].read.bytes_per_second = Some(2e9);
    assert!(shown(&moment).contains("Disks read 2.00 GB/s"), "{}", shown(&moment));
}

#[test]
fn processes_are_sorted_by_what_was_asked_for_and_fit_every_width() {
    let moment = rich();
    let sorted = |order: ProcessSort, width: u16| {
        let state = ViewState { page: Page::Processes, process_sort: order, ..ViewState::default() };
        text(&drawn(&moment, &state, PLAIN, width, 30))
    };
    let first = |shown: &str| {
        let row = shown.lines().skip_while(|line| !line.contains("PID")).nth(1);
        row.and_then(|row| row.trim_start().strip_prefix('›')).expect("a first row, marked").to_string()
    };
    let orders = [
        (ProcessSort::All, "nginx"),
        (ProcessSort::Read, "nginx"),
        (ProcessSort::Written, "postgres"),
        (ProcessSort::Sent, "nginx"),
        (ProcessSort::Received, "nginx"),
    ];
    for (order, expected) in orders {
        let shown = sorted(order, 80);
        assert!(first(&shown).starts_with(expected), "{order:?}\n{shown}");
    }
    // Where there is no room for four columns there are two: storage, and TCP.
    let narrow = sorted(ProcessSort::All, 40);
    assert!(narrow.contains("12.2 GB/s") && narrow.contains("storage"), "{narrow}");
    let mut computing = moment.clone();
    computing.processes.busiest[1].cpus = Some(0.77);
    let name = computing.processes.busiest[1].name.clone();
    let state = ViewState { page: Page::Processes, process_sort: ProcessSort::Cpu, ..ViewState::default() };
    let by_cpu = text(&drawn(&computing, &state, PLAIN, 80, 30));
    assert!(first(&by_cpu).starts_with(&name) && by_cpu.contains("77 %"), "{by_cpu}");
    let state = ViewState::default();
    let busiest = text(&drawn(&computing, &state, PLAIN, 80, 60));
    assert!(busiest.contains(&format!("busiest: {name}[")), "{busiest}");
    let overview = screen(Page::Overview, 120, 40);
    assert!(overview.contains("4 move bytes") && overview.contains("postgres"), "{overview}");
}

#[test]
fn a_name_of_a_process_does_not_act_on_the_screen_and_many_are_counted() {
    let mut moment = rich();
    moment.processes.busiest[0].name = "a\x1b[2J\u{202e})b".into();
    moment.processes.left_out = 1700;
    moment.unknown.insert("storage by process".into(), "only for root".into());
    for width in [40, 80, 200] {
        let shown = text(&drawn(&moment, &on(Page::Processes), COLOURS, width, 40));
        assert!(!shown.contains('\x1b') && !shown.contains('\u{202e}'), "{shown}");
        assert!(shown.contains("+1700 that move less") && shown.contains("only for root"), "{shown}");
    }
}

/// What a screen writes is whole, whatever its width: a figure that is cut is another figure.
#[test]
fn lines_of_words_are_wrapped_and_not_cut() {
    for width in [40, 60, 80, 200] {
        let shown = |page| {
            let text = text(&drawn(&rich(), &on(page), PLAIN, width, 60));
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let ledger = shown(Page::Ledger);
        for whole in ["zero windows 0/s", "1821 in all", "was 16 GT/s x16", "no program listened 0.1/s"] {
            assert!(ledger.contains(whole), "{width}: {whole}\n{ledger}");
        }
        let power = shown(Page::Power);
        assert!(power.contains("+157.0 W above idle") && power.contains("kJ so far"), "{width}\n{power}");
    }
    for width in [60, 76, 80] {
        let overview = screen(Page::Overview, width, 40);
        assert!(overview.contains("15/s lost"), "{overview}");
        assert!(
            overview.contains("? help") && overview.contains("q  30.1") | overview.contains("q 30.1"),
            "{overview}"
        );
    }
}

#[test]
fn a_cure_is_whole_or_where_it_is_whole_is_said() {
    let cure = "raise net.core.netdev_budget, or spread the interrupts over more cores";
    let grows = DropLine { per_second: Some(7.0), cure: cure.into(), ..DropLine::default() };
    let moment = Moment { drops: vec![grows], ..rich() };
    let on = |page, width| text(&drawn(&moment, &on(page), PLAIN, width, 40));
    for width in [60, 80, 120, 200] {
        let overview = on(Page::Overview, width);
        assert_ne!(overview.contains(cure), overview.contains("cure: key 5"), "{width}: {overview}");
        let ledger = on(Page::Ledger, width).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ledger.contains(cure), "{width}: {ledger}");
    }
    assert!(on(Page::Overview, 200).contains(cure));
}
