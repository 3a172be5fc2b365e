//! A fleet without a socket, on a simulated clock: hosts come, or do not, then answer, die, fall silent, lie and repeat
//! themselves, while the coordinator stands still or is interrupted. What is true of it, a model says.

use crate::conversation::{Conversation, GatheredMember};
use crate::gather::{ClockReading, Gathering, Joining, JoiningMember};
use crate::hosts::NameLookup;
use crate::launch::{LaunchEnd, LaunchPlan};
use crate::protocol::{DiskReport, FlowReport, MemberHello, MemberReply, MemberRequest, MemberWire};
use crate::rounds::measure;
use crate::spec::{FleetError, FleetEvent, FleetSpec, FleetStart, JoinError};
use linerate_facts::random::Random;
use linerate_measure::run::fleet::{
    FleetCell, FleetMember, FleetPattern, FleetResult, FlowFigures, HostLoad,
};
use linerate_system::clock;
use linerate_system::clock::simulated::SimulatedClock;
use linerate_system::stop::Stop;
use linerate_testing::{find_each, simulated};
use linerate_transport::agent::Broken;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What would be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub(crate) enum PlantedBug {
    /// Who answers again is counted again.
    SecondAnswer,
    /// Whoever has not answered yet when it is interrupted is late.
    InterruptedIsLate,
    /// A host stays absent when its member comes.
    AbsentStays,
    /// A second member of a name is one more.
    TwiceCounts,
    /// Figures are not looked at.
    AnyFigure,
    /// The time of a standstill counts.
    StandstillCounts,
}

/// A member of which only the name matters.
pub(crate) fn member(name: impl Into<String>) -> FleetMember {
    FleetMember { name: name.into(), ..FleetMember::default() }
}

/// What a flow carried in a window.
pub(crate) fn cell(window: usize, from: &str, to: &str, bytes_per_second: Option<f64>) -> FleetCell {
    let figures = FlowFigures { bytes_per_second, ..FlowFigures::default() };
    FleetCell { from: from.into(), to: to.into(), window, figures, ..FleetCell::default() }
}

/// Runs of this test, of which a fifth is drawn, and how many a minute there are on one core at least.
const RUNS: u32 = 10_000;
const RUNS_A_MINUTE: f64 = 5_000.0;
/// Longer than anything but the disks is waited for.
const LATE: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(30);
const HELLO: &str = r#"{"protocol": 3, "version": "1", "host": "", "data_port": 1, "addresses": []}"#;
const DISKS: &str = r#"{"sources": ["/data"], "workers": 1, "bytes": 4096, "transfer_bytes": 4096, "write": true,
    "queue_depth": 1, "direct": false, "reorder": false, "layout": "file-per-worker"}"#;

/// By time; those of one moment in turn.
type Queue<T> = BTreeMap<(Duration, usize), T>;
type Came = Vec<(String, JoiningMember<usize>)>;

#[derive(Default)]
struct SimulatedMember {
    /// Receivers of the flows that it prepared.
    flows: Vec<usize>,
    /// Nothing comes from it since then.
    silent: Option<Duration>,
    /// For what it may be called lost.
    faults: Vec<&'static str>,
}

/// All that the coordinator does not decide.
struct Hosts {
    clock: SimulatedClock,
    stop: Rc<Stop>,
    random: Random,
    faults: u32,
    interrupted: Option<Duration>,
    /// The last standstill of the coordinator.
    asleep: (Duration, Duration),
    members: Vec<SimulatedMember>,
    replies: Queue<(usize, Result<MemberReply, Broken>)>,
    sent: usize,
    /// What each sender reported first of a flow, or of its disk (a flow to itself), in which window.
    reported: HashMap<(u32, usize, usize), f64>,
}

impl Hosts {
    fn has_fault(&mut self, probability: f64) -> bool {
        let is_fault = self.random.chance(probability);
        self.faults += u32::from(is_fault);
        is_fault
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len() as u64) as usize]
    }

    /// Lets time pass up to the next event, or so long; the next event.
    fn next<T>(&mut self, queue: &mut Queue<T>, within: Duration) -> Option<T> {
        if self.has_fault(0.03) {
            let begun = self.clock.passed();
            self.clock.advance(Duration::from_secs(2 + self.random.below(3000)));
            self.asleep = (begun, self.clock.passed());
        }
        let now = self.clock.passed();
        let next = queue.first_entry().filter(|event| event.key().0 <= now + within);
        self.clock.advance(next.as_ref().map_or(within, |event| event.key().0.saturating_sub(now)));
        if self.interrupted.is_some_and(|at| at <= self.clock.passed()) {
            self.stop.end();
        }
        next.map(|event| event.remove())
    }

    fn replies(&mut self, number: usize, after: Duration, reply: Result<MemberReply, Broken>) {
        self.sent += 1;
        self.replies.insert((self.clock.passed() + after, self.sent), (number, reply));
    }

    /// It answers no more: its connection ends, or nothing is heard of it.
    fn falls(&mut self, number: usize, after: Duration, dies: bool) {
        let member = &mut self.members[number];
        member.silent = Some(self.clock.passed() + after);
        // A standstill of the coordinator gives it more time to say something.
        member.faults.extend(if dies { &["closed"][..] } else { &["it said nothing", "in time"] });
        if dies {
            self.replies(number, after, Err(Broken::Closed));
        }
    }

    /// What a member replies with these figures, by a clock that may show anything.
    fn reply(
        &self,
        number: usize,
        request: &MemberRequest,
        (rate, clock): (f64, Option<i64>),
    ) -> MemberReply {
        match *request {
            MemberRequest::Prepare { window, .. } | MemberRequest::PrepareDisks { window, .. } => {
                MemberReply::Ready { window, failures: Vec::new() }
            }
            MemberRequest::Begin { window, at_nanos, .. } => {
                let figures = FlowFigures { bytes_per_second: Some(rate), ..FlowFigures::default() };
                let report = |to: &usize| FlowReport { to: *to, figures: figures.clone() };
                let flows = self.members[number].flows.iter().map(report).collect();
                let load = HostLoad { busy: rate.min(0.5), ..HostLoad::default() };
                MemberReply::Done { window, began_nanos: clock.unwrap_or(at_nanos), flows, load }
            }
            MemberRequest::BeginDisks { window, at_nanos, .. } => {
                let began_nanos = clock.unwrap_or(at_nanos);
                let ended_nanos = began_nanos.saturating_add(1_000_000_000);
                let bytes = if (0.0..1e15).contains(&rate) { 1000 } else { u64::MAX };
                let source = "/data".to_string();
                let disk =
                    DiskReport { source, bytes, bytes_per_second: rate, ended_nanos, ..Default::default() };
                // The same source again, and one that is not its own.
                let other = DiskReport { source: "/other".into(), ..disk.clone() };
                MemberReply::DisksDone { window, began_nanos, disks: vec![disk.clone(), other, disk] }
            }
            _ => MemberReply::Machine(Box::default()),
        }
    }

    fn answers(&mut self, number: usize, request: &MemberRequest) {
        if let MemberRequest::Prepare { flows, .. } = request {
            self.members[number].flows = flows.iter().map(|flow| flow.to).collect();
        }
        let (window, receivers) = match request {
            MemberRequest::Begin { window, .. } => (*window, self.members[number].flows.clone()),
            MemberRequest::BeginDisks { window, .. } => (*window, vec![number]),
            MemberRequest::Leave => return self.falls(number, Duration::ZERO, true),
            _ => (0, Vec::new()),
        };
        let fault = if self.has_fault(0.2) { self.random.below(7) } else { u64::MAX };
        let mut after = Duration::from_millis(self.random.below(1500));
        let sound = (1e6 + self.random.below(1 << 40) as f64, None);
        let wrong = (
            self.one_of(&[-5.0, f64::NAN, f64::INFINITY, 1e300, 7.0]),
            Some(self.one_of(&[i64::MIN, i64::MAX, 0])),
        );
        match fault {
            0 => return self.falls(number, after, true),
            1 => return self.falls(number, Duration::ZERO, false),
            2 => {
                // In time only where the coordinator stands still.
                self.members[number].faults.push("in time");
                let is_disk =
                    matches!(request, MemberRequest::PrepareDisks { .. } | MemberRequest::BeginDisks { .. });
                after = if is_disk { 60 * LATE } else { LATE };
            }
            3 => self.falls(number, after + Duration::from_millis(1), true),
            4 => {
                let again = self.reply(number, request, wrong);
                self.replies(number, after + Duration::from_millis(1), Ok(again));
            }
            // Nobody asked for this.
            5 => self.replies(
                number,
                Duration::ZERO,
                Ok(MemberReply::Clock { nanos: 0, unix_nanos: i64::MIN }),
            ),
            _ => {}
        }
        let first = if fault == 6 { wrong } else { sound };
        if (0.0..1e15).contains(&first.0) {
            self.reported.extend(receivers.into_iter().map(|to| ((window, number, to), first.0)));
        }
        self.replies(number, after, Ok(self.reply(number, request, first)));
    }
}

struct SimulatedWire(Rc<RefCell<Hosts>>);

impl MemberWire for SimulatedWire {
    fn send(&self, number: usize, request: &MemberRequest) -> Result<(), Broken> {
        let hosts = &mut *self.0.borrow_mut();
        if hosts.members[number].silent.is_none() {
            hosts.answers(number, request);
        }
        Ok(())
    }

    fn receive(&mut self, within: Duration) -> Option<(usize, Result<MemberReply, Broken>)> {
        let hosts = &mut *self.0.borrow_mut();
        let mut replies = std::mem::take(&mut hosts.replies);
        let next = hosts.next(&mut replies, within);
        hosts.replies = replies;
        next
    }

    fn last_arrival(&self, number: usize) -> Instant {
        let hosts = self.0.borrow();
        let (now, (slept, woke)) = (hosts.clock.passed(), hosts.asleep);
        let last = hosts.members[number].silent.map_or(now, |silent| silent.min(now));
        // Who listens wakes a moment later.
        let is_behind = now < woke + Duration::from_millis(300);
        clock::now() - (now - if is_behind { last.min(slept) } else { last })
    }

    fn end(&self, number: usize) {
        self.0.borrow_mut().replies.retain(|_, (of, _)| *of != number);
    }
}

/// Who comes, each with its name; none where it ends with that.
fn come(hosts: &RefCell<Hosts>, spec: &FleetSpec) -> Option<Came> {
    let (mut joins, mut ends): (Queue<Joining<usize>>, Vec<(Duration, LaunchEnd)>) = Default::default();
    let mut may_be = Vec::new();
    for (number, name) in spec.start.hosts().iter().enumerate() {
        let state = &mut *hosts.borrow_mut();
        let offset_nanos = state.one_of(&[0, 30_000_000_000, i64::MAX, i64::MIN, -7]);
        let clock = ClockReading { offset_nanos, error_nanos: 0, time_of_day_nanos: offset_nanos };
        let mut comes = |at, joining| joins.insert((at, joins.len()), joining);
        let joining = || {
            let mut hello: MemberHello = serde_json::from_str(HELLO).expect("a hello");
            hello.name = Some(name.clone());
            Ok(Box::new(JoiningMember { link: number, hello, clock }))
        };
        let mut ends_at =
            |at| ends.push((at, LaunchEnd { host: Some(name.clone()), why: "it failed".into() }));
        let at = Duration::from_millis(1 + state.random.below(3000));
        let fault = if state.has_fault(0.4) { state.random.below(8) } else { u64::MAX };
        may_be.push(match fault {
            0 => "absent",
            2 => "refused, absent",
            1 | 3 | 4 => "there, absent",
            _ => "there",
        });
        match fault {
            0 => continue,
            1 => drop(comes(at + 2 * PATIENCE, joining())),
            2 => {
                let (name, version, protocol, own) = (name.clone(), "9".into(), 9, 3);
                comes(at, Err(JoinError::OtherProtocol { name, version, protocol, own }));
                ends_at(at);
            }
            3 => ends_at(at / 2),
            4 => ends_at(2 * at),
            5 => drop(comes(at + Duration::from_millis(1), joining())),
            6 => drop(comes(at / 2, Err(JoinError::NoHello))),
            _ => drop(comes(at / 2, Err(Broken::Closed.into()))),
        }
        if fault > 2 {
            comes(at, joining());
        }
    }
    let stop = Rc::clone(&hosts.borrow().stop);
    let mut gathering = Gathering::begin(spec);
    let gathered = gathering.await_members(
        &mut |within| hosts.borrow_mut().next(&mut joins, within),
        &mut || {
            let now = hosts.borrow().clock.passed();
            ends.extract_if(.., |(at, _)| *at <= now).map(|(_, end)| end).collect()
        },
        &stop,
        &mut |_| {},
    );
    let members = match gathered {
        Ok(members) => members,
        Err(FleetError::Stopped) if stop.is_ended() => return None,
        Err(FleetError::TooFew { .. }) if may_be.iter().filter(|may| **may == "there").count() < 2 => {
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(members.len() <= may_be.len(), "a member is there twice");
    for (name, may) in spec.start.hosts().iter().zip(may_be) {
        let there = members.iter().filter(|(named, _)| named == name).map(|_| "there");
        let away = gathering.absent.iter().filter(|host| host.name == *name).map(|_| "absent");
        let refusal = format!("member {name} runs");
        let refused = gathering.errors.iter().filter(|error| error.starts_with(&refusal)).map(|_| "refused");
        let states: Vec<&str> = there.chain(away).chain(refused).collect();
        assert!(states.len() == 1 && may.contains(states[0]), "{name} is {states:?}, and not {may}");
    }
    Some(members)
}

fn run(seed: u32, lookup: &NameLookup) -> Result<u32, String> {
    use FleetPattern::*;
    let clock = SimulatedClock::new();
    let _entered = clock.enter();
    let mut random = Random::new(u64::from(seed));
    let names: Vec<String> = (0..2 + random.below(4)).map(|number| format!("h{number}")).collect();
    let pattern = [Pairs, AllToAll, Incast, Disk, Storage][random.below(5) as usize];
    let is_interrupted = random.chance(0.2);
    let hosts = Rc::new(RefCell::new(Hosts {
        clock: clock.clone(),
        stop: Rc::default(),
        interrupted: is_interrupted.then(|| Duration::from_millis(random.below(30_000))),
        random,
        faults: u32::from(is_interrupted),
        asleep: Default::default(),
        members: names.iter().map(|_| SimulatedMember::default()).collect(),
        replies: Queue::new(),
        sent: 0,
        reported: HashMap::new(),
    }));
    let plan = LaunchPlan::new("ssh {host}", &names).map_err(|error| error.to_string())?;
    let disks = matches!(pattern, Disk | Storage).then(|| serde_json::from_str(DISKS).expect("disks"));
    let start = FleetStart::Launch { plan, hosts: names };
    let mut spec =
        FleetSpec { pattern, start, disks, seconds: 0.5, patience: PATIENCE, ..FleetSpec::default() };
    let Some(came) = come(&hosts, &spec) else { return Ok(hosts.borrow().faults) };
    let member = |(name, JoiningMember { hello, clock, .. })| {
        let address = ([127, 0, 0, 1], 1).into();
        GatheredMember { name, address, hello, clock, machine: None, lost: None }
    };
    let members: Vec<GatheredMember> = came.into_iter().map(member).collect();
    spec.servers = vec![members[0].name.clone()];
    let wire = Box::new(SimulatedWire(Rc::clone(&hosts)));
    let mut conversation = Conversation::begin(members, wire, clock::now());
    let mut result = FleetResult { pattern, servers: spec.servers.clone(), ..FleetResult::default() };
    let stop = Rc::clone(&hosts.borrow().stop);
    let (mut lost, mut all) = (Vec::new(), 0);
    measure(&spec, lookup, &mut conversation, &mut result, &stop, &mut |event| match event {
        FleetEvent::Lost { name, .. } => lost.push(name.to_string()),
        FleetEvent::Window { all: windows, .. } => all = windows,
        _ => {}
    });
    conversation.leave();
    check(&hosts.borrow(), &result, &lost, all);
    Ok(hosts.borrow().faults)
}

/// What the coordinator makes of it.
fn check(hosts: &Hosts, result: &FleetResult, lost: &[String], all: usize) {
    for (member, known) in result.members.iter().zip(&hosts.members) {
        let why = member.lost.clone().unwrap_or_default();
        let is_right = why.is_empty() || known.faults.iter().any(|fault| why.contains(fault));
        assert!(is_right, "{} was lost, {why:?}, and did this: {:?}", member.name, known.faults);
        let named = lost.iter().filter(|name| **name == member.name).count();
        assert!(named == usize::from(!why.is_empty()), "{} is lost {named} times", member.name);
    }
    let number = |name: &String| result.members.iter().position(|member| member.name == *name);
    let mut figures = HashMap::new();
    let flows = result.cells.iter().map(|cell| {
        (cell.window, [&cell.from, &cell.to], cell.figures.bytes_per_second, &cell.figures.failure)
    });
    let disks = result
        .disks
        .iter()
        .map(|disk| (disk.window, [&disk.member, &disk.member], disk.bytes_per_second, &disk.failure));
    for (window, [from, to], rate, failure) in flows.chain(disks) {
        let ends = (window as u32, number(from).expect("a member"), number(to).expect("a member"));
        let known = hosts.reported.get(&ends).copied();
        let is_gone =
            result.members[ends.1].lost.is_some() || hosts.members[ends.1].faults.contains(&"in time");
        let is_right = rate.is_some() != failure.is_some() && (rate == known || rate.is_none() && is_gone);
        assert!(is_right, "{ends:?} has {rate:?}, and {known:?} was reported");
        assert!(figures.insert(ends, rate).is_none(), "it counts twice: {ends:?}");
    }
    for (window, one) in result.windows.iter().enumerate() {
        let rates = figures.iter().filter(|((of, ..), _)| *of == window as u32).map(|(_, rate)| *rate);
        let (count, sum) = (rates.clone().count(), rates.flatten().sum::<f64>());
        let is_sum = one.disks.is_some() || (one.bytes_per_second - sum).abs() <= sum * 1e-9;
        let skew = 0.0..=hosts.clock.passed().as_secs_f64();
        let is_right = is_sum && count == one.flows + one.hosts && skew.contains(&one.start_skew_seconds);
        assert!(is_right && (0.0..1e18).contains(&one.bytes_per_second), "{count}, {sum}: {one:?}");
    }
    let mut again = std::collections::HashSet::new();
    for host in &result.hosts {
        let is_right = host.load.busy >= 0.0 && again.insert((host.window, &host.member));
        assert!(is_right, "{host:?}");
    }
    let done = result.windows.len();
    let says = format!("interrupted after {done} of {all}");
    let says = [&says, "fewer than two members"];
    let interrupted = result.errors.iter().any(|error| says.iter().any(|one| error.starts_with(*one)));
    assert!(all == 0 || done == all || !hosts.stop.is_ended() || interrupted, "{:?}", result.errors);
}

fn runs() -> impl Fn(u32) -> Result<u32, String> {
    let lookup = NameLookup::start(&[]);
    move |seed| run(seed, &lookup)
}

#[test]
fn whatever_members_do_a_fleet_counts_what_they_reported_and_names_who_is_gone() {
    simulated(("linerate-fleet", "whatever_members_do"), (RUNS, RUNS_A_MINUTE), runs());
}

#[test]
fn seeds_find_each_bug_that_is_planted_in_a_fleet() {
    find_each(<PlantedBug as strum::VariantArray>::VARIANTS, RUNS / 20, runs);
}
