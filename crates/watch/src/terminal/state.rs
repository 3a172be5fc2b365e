//! What the person has chosen (page, span, pause, help, how far down), and what a screen shows by that: of NICs and disks
//! the busiest first; idle ones that are virtual or have no link are folded away, until the person asks for all.

use super::pieces::Theme;
use crate::history::{EncodedMoment, History, LatestMoment, SeriesKind, Span};
use crate::model::{DiskRates, Moment, NicDirection, NicRates, ProcessRates, Processes};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

/// So many of the newest moments decide the order: rows that change places every second cannot be read.
const MOMENTS: usize = 10;

/// By what the page of processes is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessSort {
    #[default]
    All,
    Read,
    Written,
    Sent,
    Received,
    Cpu,
}

impl ProcessSort {
    /// The one after it, around.
    pub(crate) fn next(self) -> ProcessSort {
        use ProcessSort::*;
        let order = [All, Read, Written, Sent, Received, Cpu];
        order[(self as usize + 1) % order.len()]
    }

    fn of(self, process: &ProcessRates) -> f64 {
        let [read, written, sent, received] = process.rates().map(|rate| rate.unwrap_or(0.0));
        match self {
            ProcessSort::All => process.bytes_per_second(),
            ProcessSort::Read => read,
            ProcessSort::Written => written,
            ProcessSort::Sent => sent,
            ProcessSort::Received => received,
            ProcessSort::Cpu => process.cpus.unwrap_or(0.0),
        }
    }

    /// The most first; those that move the same stay as they came: by all that they move.
    pub(crate) fn sorted(self, processes: &Processes) -> Vec<&ProcessRates> {
        let mut shown: Vec<&ProcessRates> = processes.busiest.iter().collect();
        shown.sort_by(|a, b| self.of(b).total_cmp(&self.of(a)));
        shown
    }
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Page {
    #[default]
    Overview,
    #[strum(serialize = "NICs")]
    Nics,
    Disks,
    #[strum(serialize = "CPU")]
    Cpu,
    Ledger,
    Power,
    Processes,
}

impl Page {
    /// In the order of their keys, 1 to 7.
    pub(crate) const ALL: [Page; 7] =
        [Page::Overview, Page::Nics, Page::Disks, Page::Cpu, Page::Ledger, Page::Power, Page::Processes];

    /// Its word in the line of keys.
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }
}

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Nothing,
    Quit,
    /// Ctrl-Z: back to the shell, until `fg`.
    Suspend,
    /// Ctrl-L: something else has written on the screen.
    Redraw,
    /// What slows this process, by its number.
    Explain(u32),
}

#[derive(Default)]
pub(crate) struct ViewState {
    pub page: Page,
    pub span: Span,
    pub help: bool,
    /// Idle and virtual devices, too.
    pub all: bool,
    /// By what processes are sorted.
    pub process_sort: ProcessSort,
    /// Lines of the page above the screen; of the page of processes the row that is chosen, too. A key may set more than
    /// there are, until the next screen is drawn.
    pub down: usize,
    /// What was there when it was paused.
    pub paused: Option<(Arc<EncodedMoment>, History)>,
}

impl ViewState {
    /// A key went down.
    pub(crate) fn key(&mut self, key: KeyEvent, latest: &LatestMoment) -> KeyAction {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => KeyAction::Quit,
                KeyCode::Char('z') => KeyAction::Suspend,
                KeyCode::Char('l') => KeyAction::Redraw,
                _ => KeyAction::Nothing,
            };
        }
        match key.code {
            KeyCode::Char('q') => return KeyAction::Quit,
            // One level back; the last one is the way out.
            KeyCode::Esc if !self.help && self.page == Page::Overview => return KeyAction::Quit,
            KeyCode::Esc if !self.help => self.turn_to(Page::Overview),
            KeyCode::Char('?') | KeyCode::F(1) => self.help = !self.help,
            _ if self.help => self.help = false,
            KeyCode::Char(digit @ '1'..='7') => self.turn_to(Page::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Page::ALL.len() - 1),
            KeyCode::Char('m') => self.span = Span::Minute,
            KeyCode::Char('h') => self.span = Span::Hour,
            KeyCode::Char('d') => self.span = Span::Day,
            KeyCode::Char('a') => self.all = !self.all,
            KeyCode::Char('s') if self.page == Page::Processes => {
                self.process_sort = self.process_sort.next();
            }
            KeyCode::Char('e') if self.page == Page::Processes => {
                let newest = latest.newest();
                let shown = self.paused.as_ref().map(|(shown, _)| shown).or(newest.as_ref());
                let chosen = shown.and_then(|shown| self.chosen(&shown.moment.processes));
                return chosen.map_or(KeyAction::Nothing, |process| KeyAction::Explain(process.pid));
            }
            // What would be sorted or explained is shown first.
            KeyCode::Char('s' | 'e') => self.turn_to(Page::Processes),
            KeyCode::Char('p' | ' ') => self.pause(latest),
            KeyCode::Down | KeyCode::Char('j') => self.down = self.down.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.down = self.down.saturating_sub(1),
            KeyCode::PageDown => self.down = self.down.saturating_add(10),
            KeyCode::PageUp => self.down = self.down.saturating_sub(10),
            KeyCode::Home => self.down = 0,
            KeyCode::End => self.down = usize::MAX,
            _ => {}
        }
        KeyAction::Nothing
    }

    /// The row of the page of processes that the person has gone down to.
    pub(crate) fn chosen<'p>(&self, processes: &'p Processes) -> Option<&'p ProcessRates> {
        let shown = self.process_sort.sorted(processes);
        shown.get(self.down).or(shown.last()).copied()
    }

    fn turn(&mut self, by: usize) {
        self.turn_to(Page::ALL[(self.page as usize + by) % Page::ALL.len()]);
    }

    fn turn_to(&mut self, page: Page) {
        self.page = page;
        self.down = 0;
    }

    fn pause(&mut self, latest: &LatestMoment) {
        self.paused = match self.paused.take() {
            Some(_) => None,
            None => latest.newest().map(|shown| (shown, latest.history().clone())),
        };
    }
}

/// Everything that a screen is made of.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub moment: &'a Moment,
    pub history: &'a History,
    pub state: &'a ViewState,
    pub theme: Theme,
    /// A word on where the moments come from or go to (`replay of FILE`, `page at http://…`); may be empty.
    pub note: &'a str,
    /// Nothing more comes: the recording has ended.
    pub ended: bool,
}

/// Drivers of interfaces that are not hardware (`ethtool -i`).
const VIRTUAL: [&str; 14] = [
    "veth",
    "bridge",
    "tun",
    "dummy",
    "ifb",
    "macvlan",
    "ipvlan",
    "vxlan",
    "geneve",
    "wireguard",
    "openvswitch",
    "nlmon",
    "ip6tnl",
    "802.1Q VLAN Support",
];

/// What is shown, and how many are folded away.
pub(crate) struct VisibleRows<'a, T> {
    pub(crate) rows: Vec<&'a T>,
    pub(crate) folded: usize,
}

/// The interfaces.
pub(crate) fn visible_nics<'a>(view: &View<'a>) -> VisibleRows<'a, NicRates> {
    let moves = |nic: &NicRates| {
        let now = [nic.send.bits_per_second, nic.receive.bits_per_second];
        lately(view, [SeriesKind::NicSend, SeriesKind::NicReceive], &nic.name, now)
    };
    let is_folded = |nic: &NicRates, moved: f64| {
        let is_virtual = nic.driver.as_deref().is_none_or(|driver| VIRTUAL.contains(&driver));
        moved <= 0.0 && !nic_is_busy(nic) && (is_virtual || nic.carrier == Some(false))
    };
    shown(view, &view.moment.nics, moves, is_folded)
}

/// The disks.
pub(crate) fn visible_disks<'a>(view: &View<'a>) -> VisibleRows<'a, DiskRates> {
    let moves = |disk: &DiskRates| {
        let now = [disk.read.bytes_per_second, disk.write.bytes_per_second];
        let moved = lately(view, [SeriesKind::DiskRead, SeriesKind::DiskWrite], &disk.name, now);
        // The bytes of a virtual one are those of the disks below, which come first.
        if disk.is_virtual { moved / 2.0 } else { moved }
    };
    let is_folded = |disk: &DiskRates, moved: f64| {
        let is_empty = disk.size_bytes == Some(0);
        moved <= 0.0 && !disk_is_busy(disk) && (disk.is_virtual || is_empty)
    };
    shown(view, &view.moment.disks, moves, is_folded)
}

/// It moves something, or loses something.
fn nic_is_busy(nic: &NicRates) -> bool {
    let some = |way: &NicDirection| {
        [way.bits_per_second, way.drops_per_second, way.errors_per_second]
            .iter()
            .flatten()
            .any(|rate| *rate > 0.0)
    };
    some(&nic.receive) || some(&nic.send)
}

/// Requests come to it.
fn disk_is_busy(disk: &DiskRates) -> bool {
    [&disk.read, &disk.write, &disk.discard]
        .iter()
        .any(|way| way.requests_per_second.is_some_and(|rate| rate > 0.0))
}

fn shown<'a, T>(
    view: &View<'_>,
    all: &'a [T],
    moves: impl Fn(&T) -> f64,
    is_folded: impl Fn(&T, f64) -> bool,
) -> VisibleRows<'a, T> {
    let mut rows: Vec<(f64, &T)> = all.iter().map(|one| (moves(one), one)).collect();
    // Those that move the same stay in the order of their names.
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let open: Vec<&T> =
        rows.iter().filter(|(moved, one)| !is_folded(one, *moved)).map(|(_, one)| *one).collect();
    // Where nothing is left, all of them were asked for, or there are no others.
    if view.state.all || open.is_empty() {
        return VisibleRows { rows: rows.into_iter().map(|(_, one)| one).collect(), folded: 0 };
    }
    VisibleRows { folded: all.len() - open.len(), rows: open }
}

/// What it moved in the last moments, both directions together; what is unknown counts as nothing.
fn lately(view: &View<'_>, kinds: [SeriesKind; 2], name: &str, now: [Option<f64>; 2]) -> f64 {
    let means = kinds.into_iter().zip(now).map(|(kind, now)| {
        let past = view.history.past(Span::Minute, kind, name);
        let past = past.map(|past| past.mean).unwrap_or_default();
        let newest = past.iter().rev().take(MOMENTS).flatten().map(|rate| f64::from(*rate));
        let (count, sum) = newest.fold((0.0, 0.0), |(count, sum), rate| (count + 1.0, sum + rate));
        if count > 0.0 { sum / count } else { now.unwrap_or(0.0) }
    });
    means.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Moment;

    fn press(state: &mut ViewState, latest: &LatestMoment, code: KeyCode) -> KeyAction {
        state.key(KeyEvent::from(code), latest)
    }

    #[test]
    fn keys_turn_pages_choose_spans_and_quit() {
        let (mut state, latest) = (ViewState::default(), LatestMoment::default());
        for (place, page) in Page::ALL.into_iter().enumerate() {
            press(&mut state, &latest, KeyCode::Char(char::from(b'1' + place as u8)));
            assert_eq!(state.page, page);
        }
        press(&mut state, &latest, KeyCode::Tab);
        assert_eq!(state.page, Page::Overview, "around");
        press(&mut state, &latest, KeyCode::BackTab);
        assert_eq!(state.page, Page::Processes);
        press(&mut state, &latest, KeyCode::Char('1'));
        press(&mut state, &latest, KeyCode::Char('s'));
        assert_eq!((state.page, state.process_sort), (Page::Processes, ProcessSort::All));
        press(&mut state, &latest, KeyCode::Char('s'));
        assert_eq!(state.process_sort, ProcessSort::Read);
        for (key, span) in [('h', Span::Hour), ('d', Span::Day), ('m', Span::Minute)] {
            press(&mut state, &latest, KeyCode::Char(key));
            assert_eq!(state.span, span);
        }
        for all in [true, false] {
            press(&mut state, &latest, KeyCode::Char('a'));
            assert_eq!(state.all, all);
        }
        press(&mut state, &latest, KeyCode::Char('?'));
        assert!(state.help);
        assert_eq!(press(&mut state, &latest, KeyCode::Char('4')), KeyAction::Nothing, "closes the help");
        assert!(!state.help && state.page == Page::Processes);
        assert_eq!(press(&mut state, &latest, KeyCode::Esc), KeyAction::Nothing);
        assert_eq!(press(&mut state, &latest, KeyCode::Esc), KeyAction::Quit);
        assert_eq!(press(&mut state, &latest, KeyCode::Char('q')), KeyAction::Quit);
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!(state.key(control('c'), &latest), KeyAction::Quit);
        assert_eq!(state.key(control('z'), &latest), KeyAction::Suspend);
    }

    #[test]
    fn the_chosen_process_is_explained_where_it_can_be_seen() {
        let (mut state, latest) = (ViewState::default(), LatestMoment::default());
        let process = |pid: u32, read: f64| ProcessRates {
            pid,
            read_bytes_per_second: Some(read),
            ..ProcessRates::default()
        };
        let mut moment = Moment::default();
        press(&mut state, &latest, KeyCode::Char('e'));
        assert_eq!(state.page, Page::Processes, "what would be explained is shown first");
        assert_eq!(
            press(&mut state, &latest, KeyCode::Char('e')),
            KeyAction::Nothing,
            "nothing is known yet"
        );
        moment.processes.busiest = vec![process(7, 1e6), process(8, 3e6)];
        latest.tell(moment);
        assert_eq!(press(&mut state, &latest, KeyCode::Char('e')), KeyAction::Explain(8));
        press(&mut state, &latest, KeyCode::Down);
        assert_eq!(press(&mut state, &latest, KeyCode::Char('e')), KeyAction::Explain(7));
        press(&mut state, &latest, KeyCode::End);
        assert_eq!(press(&mut state, &latest, KeyCode::Char('e')), KeyAction::Explain(7), "the last one");
    }

    #[test]
    fn a_pause_keeps_what_was_there() {
        let (mut state, latest) = (ViewState::default(), LatestMoment::default());
        press(&mut state, &latest, KeyCode::Char('p'));
        assert!(state.paused.is_none(), "there is nothing to keep yet");
        latest.tell(Moment { at_ms: 1, ..Moment::default() });
        press(&mut state, &latest, KeyCode::Char('p'));
        latest.tell(Moment { at_ms: 2, ..Moment::default() });
        assert_eq!(state.paused.as_ref().map(|(shown, _)| shown.moment.at_ms), Some(1));
        press(&mut state, &latest, KeyCode::Char('p'));
        assert!(state.paused.is_none());
    }
}
