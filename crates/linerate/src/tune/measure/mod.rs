//! Tries settings in turns with the state before, and keeps only what helped beyond noise. Every change goes through the journal: whatever ends
//! a trial in its middle, `tune undo` brings back what stood before.

mod judge;
mod subject;
mod turns;

pub use judge::{Effect, LEAST_SHARE, Windows, judge};
pub use subject::{Links, Machine, Subject};
pub use turns::{Scene, turns};

use super::apply::Wish;
use super::door::Door;
use super::journal::{Host, Journal};
use super::plan::Trial;
use super::process::Own;
use crate::event::{Event, Listener};
use crate::failure::Failure;
use crate::measure::Stage;
use crate::probe::source::devices_behind;
use crate::run::again::{Figure, Ground, Manner, Place, Station, with_station};
use serde::Serialize;
use std::path::Path;

/// On what, how often, by which rate.
#[derive(Clone, Debug)]
pub struct Order {
    pub ground: Ground,
    /// Windows of the wanted state; there is one more of the state before.
    pub rounds: usize,
    /// What pacing keeps to, bytes per second.
    pub rate: Option<f64>,
}

/// One thing to try.
#[derive(Clone, Debug)]
pub enum Try {
    /// Tried first, and never written to the machine.
    Process(&'static Own),
    Machine(Trial),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tried {
    /// `rmem-max`, `read-ahead:vda`, `pinning`.
    pub name: String,
    pub figure: String,
    /// Places with their values before and in between; one for each queue, say.
    pub settings: Vec<Change>,
    pub effect: Option<Effect>,
    /// Share by which the median grew.
    pub change: Option<f64>,
    pub before: Option<Windows>,
    pub wanted: Option<Windows>,
    /// It has its wanted value now, and the journal the old one.
    pub kept: bool,
    /// How linerate gives what belongs to a process.
    pub given_by: Option<&'static str>,
    /// Why it was not measured, or not kept.
    pub why: Option<String>,
    /// Something failed; otherwise there was no use in trying it here.
    pub failed: bool,
}

/// A place and its two values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub place: String,
    pub before: String,
    pub wanted: String,
}

/// Whose settings, and where they are noted.
pub struct Target<'a> {
    pub door: &'a dyn Door,
    pub host: &'a Host,
    /// RFC 3339, for the journal.
    pub started: &'a str,
}

/// Tries all in their order, those of one figure on one station. What stops all of it (Ctrl-C, a setting that cannot be restored) is the
/// second value.
pub fn measure(
    target: &Target<'_>,
    journal: &mut Journal<'_>,
    place: Place<'_>,
    order: &Order,
    tries: Vec<Try>,
    listener: &mut dyn Listener,
) -> (Vec<Tried>, Option<Failure>) {
    let mut all = Vec::new();
    let mut left: Vec<Try> = tries;
    while let Some(first) = left.first() {
        let (figure, process) = (first.figure(), matches!(first, Try::Process(_)));
        let same = |one: &Try| one.figure() == figure && matches!(one, Try::Process(_)) == process;
        let (now, later) = left.into_iter().partition::<Vec<Try>, _>(|one| same(one));
        left = later;
        let (can, cannot): (Vec<Try>, Vec<Try>) =
            now.into_iter().partition(|one| one.untried(target.door, place, order).is_none());
        for one in cannot {
            let why = one.untried(target.door, place, order).unwrap_or_default();
            all.push(one.without_figure(target.door, why));
        }
        if can.is_empty() {
            continue;
        }
        let mut session = Session { target, journal: &mut *journal, place, order, listener: &mut *listener };
        let done = with_station(place, figure, &order.ground, |station| session.each(station, &can));
        let stopped = match done {
            Ok((tried, stopped)) => {
                all.extend(tried);
                stopped
            }
            Err(Failure::Interrupted) => Some(Failure::Interrupted),
            Err(failure) => {
                let why = failure.to_string();
                let failed =
                    |one: &Try| Tried { failed: true, ..one.without_figure(target.door, why.clone()) };
                all.extend(can.iter().map(failed));
                None
            }
        };
        if stopped.is_some() {
            return (all, stopped);
        }
    }
    (all, None)
}

impl Try {
    pub fn figure(&self) -> Figure {
        match self {
            Try::Process(own) => own.figure,
            Try::Machine(trial) => trial.figure,
        }
    }

    /// Name, as `--setting` takes it.
    pub fn name(&self) -> &str {
        match self {
            Try::Process(own) => own.id,
            Try::Machine(trial) => &trial.name,
        }
    }

    /// Why there is no use in trying it here.
    fn untried(&self, door: &dyn Door, place: Place<'_>, order: &Order) -> Option<String> {
        match self {
            Try::Process(own) => own.untried(order.rate),
            Try::Machine(trial) if trial.wishes.iter().all(|wish| has(door, wish)) => {
                Some("it has this value already".into())
            }
            Try::Machine(trial) => {
                let disk = trial.disk.as_ref()?;
                let source = &order.ground.source;
                (!lies_on(place, source, disk)).then(|| {
                    format!(
                        "{} is not on {disk}: name a file or a directory on it with --source",
                        source.display()
                    )
                })
            }
        }
    }

    fn without_figure(&self, door: &dyn Door, why: String) -> Tried {
        Tried { why: Some(why), ..self.begun(door) }
    }

    /// What is known before the first window.
    fn begun(&self, door: &dyn Door) -> Tried {
        let (settings, given_by) = match self {
            Try::Process(own) => {
                let change = Change {
                    place: own.what.into(),
                    before: own.states[0].into(),
                    wanted: own.states[1].into(),
                };
                (vec![change], Some(own.given_by))
            }
            Try::Machine(trial) => (trial.wishes.iter().map(|wish| change(door, wish)).collect(), None),
        };
        Tried {
            name: self.name().to_string(),
            figure: self.figure().to_string(),
            settings,
            effect: None,
            change: None,
            before: None,
            wanted: None,
            kept: false,
            given_by,
            why: None,
            failed: false,
        }
    }
}

/// The setting is as it is wished.
fn has(door: &dyn Door, wish: &Wish) -> bool {
    let now = door.read(&wish.place).ok().flatten();
    now.is_some_and(|now| wish.shape.same(&now, &wish.shape.asking(&wish.value)))
}

fn change(door: &dyn Door, wish: &Wish) -> Change {
    let now = door.read(&wish.place).ok().flatten();
    Change {
        place: wish.place.to_string(),
        before: now.map_or("?".into(), |now| wish.shape.value(&now)),
        wanted: wish.value.clone(),
    }
}

/// The source is on this disk, or on what this disk is made of.
fn lies_on(place: Place<'_>, source: &Path, disk: &str) -> bool {
    let behind = devices_behind(place.sysroot, place.machine, source);
    let Some(behind) = behind.known() else { return false };
    let members = place.machine.disks.iter().find(|one| one.name == disk).map_or(&[][..], |one| &one.members);
    behind.leaves.iter().any(|leaf| leaf == disk)
        || Path::new(&behind.device).file_name().is_some_and(|name| name == disk)
        || !members.is_empty() && members.iter().all(|member| behind.leaves.contains(member))
}

/// Trials of one figure at work.
struct Session<'a, 'j, 'l> {
    target: &'a Target<'a>,
    journal: &'l mut Journal<'j>,
    place: Place<'a>,
    order: &'a Order,
    listener: &'l mut dyn Listener,
}

impl Session<'_, '_, '_> {
    fn each(&mut self, station: &mut dyn Station, tries: &[Try]) -> (Vec<Tried>, Option<Failure>) {
        let mut all = Vec::new();
        for (index, one) in tries.iter().enumerate() {
            let windows = 2 * self.order.rounds + 2;
            let seconds = (tries.len() - index) as f64 * windows as f64 * self.order.ground.seconds * 1.4;
            self.listener.hear(&Event::Remaining { seconds });
            let (tried, stopped) = self.one(station, one);
            all.push(tried);
            if stopped.is_some() {
                return (all, stopped);
            }
        }
        (all, None)
    }

    fn one(&mut self, station: &mut dyn Station, one: &Try) -> (Tried, Option<Failure>) {
        let begun = one.begun(self.target.door);
        let first = self.journal.state().steps.len();
        let stage = if one.figure().has_network() { Stage::Network } else { Stage::Disk };
        let seconds = self.order.ground.seconds;
        self.listener.hear(&Event::Started { stage, name: begun.name.clone(), seconds });
        let place = self.place;
        let links =
            |name: &str| place.sysroot.text(format!("/sys/class/net/{name}/carrier")).as_deref() == Ok("1");
        let subject = match one {
            Try::Process(own) => Subject::Process { own, held: None },
            Try::Machine(trial) => Subject::Machine {
                first,
                machine: Machine {
                    door: self.target.door,
                    journal: &mut *self.journal,
                    host: self.target.host,
                    started: self.target.started,
                    wishes: trial.wishes.clone(),
                    links: &links,
                },
            },
        };
        let mut scene = AtStation {
            station,
            subject,
            wanted: false,
            rate: self.order.rate,
            stage,
            listener: &mut *self.listener,
        };
        let measured = turns(&mut scene, self.order.rounds);
        let mut subject = scene.subject;
        let (before, wanted) = match measured {
            Ok(windows) => windows,
            Err(failure) => {
                drop(subject);
                let open = self.journal.state().open().any(|(n, _)| n >= first);
                let why = match &failure {
                    Failure::Interrupted => "interrupted".to_string(),
                    failure => failure.to_string(),
                };
                let tried = Tried { why: Some(why), failed: true, ..begun };
                let ends = open || matches!(failure, Failure::Interrupted);
                return (tried, ends.then_some(failure));
            }
        };
        let (effect, share) = judge(&before, &wanted);
        let mut tried = Tried {
            effect: Some(effect),
            change: Some(share),
            before: Some(before),
            wanted: Some(wanted),
            ..begun
        };
        if let (Effect::Helped, Subject::Machine { machine, .. }) = (effect, &mut subject) {
            match machine.to_wanted() {
                Ok(_) => tried.kept = true,
                Err(failure) => (tried.why, tried.failed) = (Some(failure.to_string()), true),
            }
        }
        (tried, None)
    }
}

/// A station whose machine can be switched.
struct AtStation<'s, 'a, 'j> {
    station: &'s mut dyn Station,
    subject: Subject<'a, 'j>,
    wanted: bool,
    rate: Option<f64>,
    stage: Stage,
    listener: &'s mut dyn Listener,
}

impl Scene for AtStation<'_, '_, '_> {
    fn window(&mut self) -> Result<f64, Failure> {
        let manner: Manner = self.subject.manner(self.wanted, self.rate);
        self.station.take(&manner, self.wanted)
    }

    fn switch(&mut self, wanted: bool) -> Result<(), Failure> {
        self.subject.switch(wanted)?;
        self.wanted = wanted;
        Ok(())
    }

    fn tell(&mut self, _: bool, rate: f64, _: usize) {
        self.listener.hear(&Event::Progress { stage: self.stage, bytes_per_second: rate });
    }
}
