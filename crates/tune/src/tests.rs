//! Apply and undo against a kernel with faults: refusals, values that it changes, and a power cut at any
//! moment of either.

use super::apply::{ApplyResult, SettingOutcome, WantedValue, apply};
use super::catalogue::{self, Where};
use super::journal::{Host, Journal, JournalState, Log, parse};
use super::kernel_access::{AccessRefusal, KernelAccess};
use super::setting_place::{DeviceClass, DevicePresence, NamedDevice, SettingPlace, Shape};
use super::undo::{Leave, undo};
use linerate_facts::failure::Failure;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// How the kernel takes a write of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WriteMode {
    Takes,
    /// EACCES, EINVAL.
    Refuses,
    /// No more than this.
    Clamps(u64),
    /// No error, and no change.
    Ignores,
}

/// Settings and a journal that outlive a power cut, and how many operations are left until the next one.
#[derive(Debug, Default)]
struct World {
    values: BTreeMap<String, (Vec<u8>, Option<WriteMode>)>,
    journal: Vec<u8>,
    left: Option<usize>,
    /// Of the operation that is cut off: whether the kernel did it, how much of a line is on the disk.
    share: usize,
}

impl World {
    /// One operation more; true: the power is cut in the middle of it.
    fn cut(&mut self) -> bool {
        match &mut self.left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                *left == 0
            }
            None => false,
        }
    }
}

#[derive(Clone, Default)]
struct Machine(Rc<RefCell<World>>);

fn dark() -> AccessRefusal {
    AccessRefusal::Hung("the power is cut".into())
}

fn key(place: &SettingPlace) -> String {
    place.to_string()
}

impl KernelAccess for Machine {
    fn read(&self, place: &SettingPlace) -> Result<Option<Vec<u8>>, AccessRefusal> {
        let world = self.0.borrow();
        if world.left == Some(0) {
            return Err(dark());
        }
        let found = world.values.get(&key(place)).map(|(value, _)| value.clone());
        found.map(Some).ok_or_else(|| AccessRefusal::Absent("not there".into()))
    }

    fn write(&self, place: &SettingPlace, _: Shape, bytes: Option<&[u8]>) -> Result<(), AccessRefusal> {
        let mut world = self.0.borrow_mut();
        if world.left == Some(0) {
            return Err(dark());
        }
        let cut = world.cut();
        let done = !cut || world.share.is_multiple_of(2);
        let Some((value, mode)) = world.values.get_mut(&key(place)) else {
            return Err(AccessRefusal::Absent("not there".into()));
        };
        let bytes = bytes.expect("no drop-ins here");
        let asked: u64 = String::from_utf8_lossy(bytes).trim().parse().expect("a number");
        match mode.unwrap_or(WriteMode::Takes) {
            WriteMode::Refuses => {
                return if cut { Err(dark()) } else { Err(AccessRefusal::Refused("EACCES".into())) };
            }
            _ if !done => {}
            WriteMode::Takes => *value = bytes.to_vec(),
            WriteMode::Clamps(most) => *value = format!("{}\n", asked.min(most)).into_bytes(),
            WriteMode::Ignores => {}
        }
        if cut { Err(dark()) } else { Ok(()) }
    }

    fn find(&self, device: &NamedDevice, _: bool) -> DevicePresence {
        DevicePresence::Named(device.name.clone())
    }
}

impl Log for Machine {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        if world.left == Some(0) {
            return Err(io::Error::other("the power is cut"));
        }
        if world.cut() {
            let kept = world.share % (bytes.len() + 1);
            world.journal.extend_from_slice(&bytes[..kept]);
            return Err(io::Error::other("the power is cut"));
        }
        world.journal.extend_from_slice(bytes);
        Ok(())
    }
}

/// The settings here are sysctls of the catalogue, in the order of their places.
fn setting(n: usize) -> (&'static str, SettingPlace) {
    let sysctls = catalogue::all().filter(|entry| matches!(entry.at, Where::Sysctl(_)));
    let mut settings: Vec<(&str, SettingPlace)> = sysctls.map(|entry| (entry.id, at(entry.at))).collect();
    settings.sort_by_key(|(_, place)| key(place));
    settings.swap_remove(n)
}

fn at(place: Where) -> SettingPlace {
    let Where::Sysctl(name) = place else { panic!("{place:?} is not a sysctl") };
    SettingPlace::Attribute(Path::new("/proc/sys").join(name.replace('.', "/")))
}

fn place(n: usize) -> SettingPlace {
    setting(n).1
}

fn id(n: usize) -> String {
    setting(n).0.into()
}

impl Machine {
    fn new(modes: &[WriteMode]) -> Machine {
        let machine = Machine::default();
        for (n, mode) in modes.iter().enumerate() {
            machine
                .0
                .borrow_mut()
                .values
                .insert(key(&place(n)), (format!("{n}\n").into_bytes(), Some(*mode)));
        }
        machine
    }

    fn values(&self) -> Vec<String> {
        let world = self.0.borrow();
        world.values.values().map(|(value, _)| String::from_utf8_lossy(value).trim().to_string()).collect()
    }

    fn set(&self, n: usize, value: &str) {
        if let Some((old, _)) = self.0.borrow_mut().values.get_mut(&key(&place(n))) {
            *old = format!("{value}\n").into_bytes();
        }
    }

    /// Power is back, until this many operations later.
    fn power(&self, operations: Option<usize>, share: usize) {
        let mut world = self.0.borrow_mut();
        (world.left, world.share) = (operations.map(|count| count + 1), share);
    }

    fn with<T>(&self, work: impl FnOnce(&mut Journal<'_>) -> T) -> T {
        let bytes = self.0.borrow().journal.clone();
        let (records, good) = parse(&bytes).expect("never damaged but at its end");
        self.0.borrow_mut().journal.truncate(good);
        let mut log = self.clone();
        let state = JournalState::of(records).expect("a journal that can be followed");
        work(&mut Journal::new(&mut log, state))
    }

    fn apply(&self, add: u64) -> Result<Vec<SettingOutcome>, Failure> {
        let count = self.0.borrow().values.len();
        let wish = |n: usize| WantedValue {
            id: id(n),
            place: place(n),
            shape: Shape::Words,
            device: None,
            value: (n as u64 + add).to_string(),
        };
        let changes: Vec<WantedValue> = (0..count).map(wish).collect();
        self.with(|journal| apply(self, journal, &Host::default(), "now", &changes))
    }

    fn undo(&self, force: &[String]) -> Result<Vec<SettingOutcome>, Failure> {
        let leave = Leave { force: force.to_vec(), forget: Vec::new() };
        self.with(|journal| undo(self, journal, &Host::default(), &leave))
    }

    fn open(&self) -> Vec<String> {
        let (records, _) = parse(&self.0.borrow().journal).expect("a journal");
        let state = JournalState::of(records).expect("a journal");
        state.open().map(|(_, followed)| followed.entry.id.clone()).collect()
    }
}

fn original(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

fn mode() -> impl Strategy<Value = WriteMode> {
    prop_oneof![
        4 => Just(WriteMode::Takes),
        1 => Just(WriteMode::Refuses),
        1 => Just(WriteMode::Clamps(500)),
        1 => Just(WriteMode::Ignores),
    ]
}

#[test]
fn each_refusal_is_reported_and_the_rest_is_changed() {
    let machine =
        Machine::new(&[WriteMode::Takes, WriteMode::Refuses, WriteMode::Clamps(500), WriteMode::Ignores]);
    let outcomes = machine.apply(1000).expect("applied");
    let what: Vec<&ApplyResult> = outcomes.iter().map(|outcome| &outcome.what).collect();
    assert!(matches!(what[0], ApplyResult::Changed { now, .. } if now == "1000"));
    assert!(matches!(what[1], ApplyResult::Failed { why } if why == "EACCES"));
    assert!(matches!(what[2], ApplyResult::Clamped { now, asked, .. } if now == "500" && asked == "1002"));
    assert!(matches!(what[3], ApplyResult::Failed { why } if why.contains("kept 3")));
    assert_eq!(machine.values(), ["1000", "1", "500", "3"]);
    let undone = machine.undo(&[]).expect("undone");
    assert_eq!(
        undone.iter().map(|outcome| outcome.id.as_str()).collect::<Vec<_>>(),
        [id(2), id(0)],
        "the last one first"
    );
    assert_eq!(machine.values(), original(4));
    assert!(machine.undo(&[]).expect("undone").is_empty(), "twice is no more than once");
}

#[test]
fn what_somebody_else_wrote_stays_until_it_is_forced() {
    let machine = Machine::new(&[WriteMode::Takes; 3]);
    machine.apply(1000).expect("applied");
    machine.set(1, "77");
    let outcomes = machine.undo(&[]).expect("undone");
    let foreign = outcomes.iter().find(|outcome| outcome.id == id(1)).expect("an outcome");
    assert_eq!(
        foreign.what,
        ApplyResult::Foreign { before: "1".into(), ours: "1001".into(), now: "77".into() }
    );
    assert_eq!(machine.values(), ["0", "77", "2"]);
    assert_eq!(machine.open(), [id(1)]);
    machine.undo(&[id(1)]).expect("undone");
    assert_eq!(machine.values(), original(3));
    assert!(machine.open().is_empty());
    assert!(Leave { force: vec!["s9".into()], forget: vec![] }.check(&JournalState::default()).is_err());
}

/// A journal of somebody else's making, or of a linerate that has other settings.
#[test]
fn what_the_catalogue_does_not_have_is_restored_only_by_force() {
    let machine = Machine::new(&[WriteMode::Takes; 2]);
    let wish = |id: String, n: usize| WantedValue {
        id,
        place: place(n),
        shape: Shape::Words,
        device: None,
        value: "9".into(),
    };
    let changes = [wish("hostname".into(), 0), wish(id(0), 1)];
    machine.with(|journal| apply(&machine, journal, &Host::default(), "now", &changes)).expect("applied");
    for outcome in machine.undo(&[]).expect("undone") {
        assert!(matches!(&outcome.what, ApplyResult::Kept { why } if why.contains("--force")), "{outcome:?}");
    }
    assert_eq!(machine.values(), ["9", "9"]);
    machine.undo(&["hostname".into()]).expect("undone");
    assert_eq!(machine.values(), ["0", "9"]);
    assert_eq!(machine.open(), [id(0)], "a name of the catalogue in another place");
}

#[test]
fn two_changes_of_one_setting_are_undone_in_turn() {
    let machine = Machine::new(&[WriteMode::Takes; 2]);
    machine.apply(1000).expect("applied");
    machine.apply(2000).expect("applied again");
    machine.undo(&[]).expect("undone");
    assert_eq!(machine.values(), original(2));
}

#[test]
fn a_device_that_is_gone_is_kept_in_this_boot_and_dropped_in_the_next() {
    struct Empty(Machine);
    impl KernelAccess for Empty {
        fn read(&self, place: &SettingPlace) -> Result<Option<Vec<u8>>, AccessRefusal> {
            self.0.read(place)
        }
        fn write(
            &self,
            place: &SettingPlace,
            shape: Shape,
            bytes: Option<&[u8]>,
        ) -> Result<(), AccessRefusal> {
            self.0.write(place, shape, bytes)
        }
        fn find(&self, device: &NamedDevice, _: bool) -> DevicePresence {
            DevicePresence::Gone(format!("{} is not there", device.name))
        }
    }
    let machine = Machine::new(&[WriteMode::Takes]);
    let host = |boot: &str| Host { boot: boot.into(), ..Host::default() };
    let device = NamedDevice {
        kind: DeviceClass::Nic,
        name: "eth0".into(),
        hardware: None,
        address: None,
        number: Some(2),
    };
    let wish = WantedValue {
        id: id(0),
        place: place(0),
        shape: Shape::Words,
        device: Some(device),
        value: "9".into(),
    };
    machine.with(|journal| apply(&machine, journal, &host("one"), "now", &[wish])).expect("applied");
    let undo_in = |boot: &str| {
        let access = Empty(machine.clone());
        machine.with(|journal| undo(&access, journal, &host(boot), &Leave::default())).expect("undone")
    };
    assert!(
        matches!(&undo_in("one")[0].what, ApplyResult::Kept { why } if why.contains("eth0 is not there"))
    );
    assert!(matches!(&undo_in("two")[0].what, ApplyResult::Untouched { .. }));
    assert!(machine.open().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// The power is cut in apply, then in one undo after the other; the last one has power to the end.
    #[test]
    fn a_power_cut_anywhere_leaves_nothing_that_undo_does_not_bring_back(
        modes in proptest::collection::vec(mode(), 1..6),
        cut in 0usize..24, share in any::<usize>(),
        cuts in proptest::collection::vec((0usize..16, any::<usize>()), 0..4),
    ) {
        let machine = Machine::new(&modes);
        machine.power(Some(cut), share);
        let _ = machine.apply(1000);
        for (cut, share) in &cuts {
            machine.power(Some(*cut), *share);
            let _ = machine.undo(&[]);
        }
        machine.power(None, 0);
        let outcomes = machine.undo(&[]).expect("with power");
        // A value that the kernel made of our own, cut off before it was read back, cannot be distinguished from
        // somebody else's: it is shown.
        let shown: Vec<String> = outcomes.iter().filter(|outcome| outcome.what.is_trouble()).map(|outcome| outcome.id.clone()).collect();
        for id in &shown {
            let n = (0..modes.len()).find(|n| setting(*n).0 == id).expect("one of them");
            prop_assert!(matches!(modes[n], WriteMode::Clamps(_)), "{id}: {outcomes:?}");
        }
        machine.undo(&shown).expect("forced");
        prop_assert_eq!(machine.values(), original(modes.len()));
        prop_assert!(machine.open().is_empty());
    }

    /// Somebody else writes between apply and undo, and between undos.
    #[test]
    fn what_somebody_else_wrote_is_never_written_over(
        count in 1usize..6, cut in proptest::option::of(0usize..24), share in any::<usize>(),
        foreign in proptest::collection::btree_set(0usize..6, 0..4),
        cuts in proptest::collection::vec((0usize..12, any::<usize>()), 0..3),
    ) {
        let machine = Machine::new(&vec![WriteMode::Takes; count]);
        machine.power(cut, share);
        let _ = machine.apply(1000);
        machine.power(None, 0);
        for n in &foreign {
            machine.set(*n, "77");
        }
        for (cut, share) in cuts {
            machine.power(Some(cut), share);
            let _ = machine.undo(&[]);
        }
        machine.power(None, 0);
        machine.undo(&[]).expect("with power");
        for (n, value) in machine.values().iter().enumerate() {
            let expected = if foreign.contains(&n) { "77".to_string() } else { n.to_string() };
            prop_assert_eq!(value, &expected);
        }
    }
}
