//! One window after another with the members that are left: connections first, then a common moment to begin, then
//! their figures. Who is gone or silent is named at once, and the others go on.

use crate::fabric::FabricLinks;
use crate::gather::{ClockReading, JoiningMember};
use crate::link::MemberLink;
use crate::predict::{FlowPrediction, limits, predicted};
use crate::protocol::{FlowReport, FlowRequest, MemberHello, MemberReply, MemberRequest};
use crate::schedule::{FlowEnds, WindowPlan};
use crate::sums::range;
use linerate_machine::probe::Machine;
use linerate_measure::run::fleet::{FleetCell, FleetHost, FleetMember, FleetResult, FleetWindow, HostLoad};
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::agent::Broken;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// A member says that it is there each second; after this it is lost, though its host may still be up.
const SILENT: Duration = Duration::from_millis(4000);
/// The coordinator itself did not run for this long: what it did not hear meanwhile says nothing.
const OVERSLEPT: Duration = Duration::from_millis(1000);
/// Replies wake the coordinator; between them it looks so often for silent members and for `stop`.
const LOOK: Duration = Duration::from_millis(200);
/// Between the word to begin and the beginning: the word is there by then.
pub(crate) const LEAD: Duration = Duration::from_millis(60);
/// Connections to the receivers: each step there ends within three seconds.
const PREPARE: Duration = Duration::from_secs(12);
/// After a window, the last question to each receiver.
const AFTER: Duration = Duration::from_secs(5);
/// What members are, once they were welcomed.
const MACHINES: Duration = Duration::from_secs(10);

/// A member with its connection.
pub(crate) struct GatheredMember {
    pub name: String,
    pub address: SocketAddr,
    link: MemberLink,
    hello: MemberHello,
    pub clock: ClockReading,
    machine: Option<Box<Machine>>,
    heard: Arc<LastHeard>,
    lost: Option<String>,
}

/// When something came from a member last: written by the thread that listens to it, so that a sign of life wakes
/// nobody else.
struct LastHeard {
    zero: Instant,
    millis: AtomicU64,
}

impl LastHeard {
    fn now(&self) {
        self.millis.store(clock::since(self.zero).as_millis() as u64, Ordering::Relaxed);
    }

    /// For how long nothing came.
    fn silence(&self) -> Duration {
        let last = Duration::from_millis(self.millis.load(Ordering::Relaxed));
        clock::since(self.zero).saturating_sub(last)
    }
}

impl GatheredMember {
    pub(crate) fn new(name: String, member: JoiningMember, address: SocketAddr) -> GatheredMember {
        let JoiningMember { link, hello, clock } = member;
        let heard = Arc::new(LastHeard { zero: clock::now(), millis: AtomicU64::new(0) });
        GatheredMember { name, address, link, hello, clock, machine: None, heard, lost: None }
    }

    fn product(&self) -> FleetMember {
        let seconds = |nanos: i64| nanos as f64 / 1e9;
        FleetMember {
            name: self.name.clone(),
            address: self.address.to_string(),
            version: self.hello.version.clone(),
            rank: self.hello.rank,
            clock_offset_seconds: seconds(self.clock.offset_nanos),
            clock_error_seconds: seconds(self.clock.error_nanos),
            time_of_day_offset_seconds: seconds(self.clock.time_of_day_nanos),
            machine: self.machine.clone(),
            lost: self.lost.clone(),
        }
    }
}

/// How every window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSettings {
    pub seconds: f64,
    pub warm_up_seconds: f64,
    pub streams: u32,
    pub rate_limit: Option<f64>,
    /// Small requests go beside each flow.
    pub asks: bool,
}

/// The members, and what comes from them.
pub(crate) struct Conversation {
    pub(crate) members: Vec<GatheredMember>,
    replies: Receiver<(usize, Result<MemberReply, Broken>)>,
    pub(crate) zero: Instant,
    looked: Instant,
    settings: WindowSettings,
}

impl Conversation {
    /// Welcomes all, and listens to each on a thread of its own.
    pub(crate) fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        members: Vec<GatheredMember>,
        zero: Instant,
        settings: WindowSettings,
    ) -> Conversation {
        let (sender, replies) = channel();
        let looked = clock::now();
        let mut conversation = Conversation { members, replies, zero, looked, settings };
        for number in 0..conversation.members.len() {
            let (link, sender) = (conversation.members[number].link.clone(), sender.clone());
            let heard = Arc::clone(&conversation.members[number].heard);
            heard.now();
            let listen = move || {
                loop {
                    let reply = link.receive();
                    heard.now();
                    if matches!(reply, Ok(MemberReply::Alive)) {
                        continue;
                    }
                    let ended = reply.is_err();
                    if sender.send((number, reply)).is_err() || ended {
                        return;
                    }
                }
            };
            let started = std::thread::Builder::new().name("member".into()).spawn_scoped(scope, listen);
            match started {
                Ok(_) => conversation.ask(number, &MemberRequest::Welcome),
                Err(error) => conversation.lose(number, format!("no thread to listen to it: {error}")),
            }
        }
        conversation
    }

    /// Addresses of each member's host, as it says them.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = (&str, &[IpAddr])> {
        self.members.iter().map(|member| (member.name.as_str(), member.hello.addresses.as_slice()))
    }

    /// The members as the product has them.
    pub(crate) fn members(&self) -> impl Iterator<Item = FleetMember> {
        self.members.iter().map(GatheredMember::product)
    }

    /// Why each is lost, where it is.
    pub(crate) fn losses(&self) -> impl Iterator<Item = &Option<String>> {
        self.members.iter().map(|member| &member.lost)
    }

    /// Each says what its machine is; who does not is a member all the same.
    pub(crate) fn await_machines(&mut self) {
        let deadline = clock::now() + MACHINES;
        let lacking = |member: &GatheredMember| member.machine.is_none() && member.lost.is_none();
        while self.members.iter().any(lacking) && clock::now() < deadline {
            self.next_reply();
        }
    }

    /// Sends all home.
    pub(crate) fn leave(&mut self) {
        for number in 0..self.members.len() {
            self.ask(number, &MemberRequest::Leave);
        }
        // Members end their connections; who hangs is not waited for.
        let deadline = clock::now() + Duration::from_secs(1);
        while self.members.iter().any(|member| member.lost.is_none()) && clock::now() < deadline {
            self.next_reply();
        }
        self.members.iter().for_each(|member| member.link.end());
    }

    pub(crate) fn ask(&mut self, number: usize, request: &MemberRequest) {
        if self.members[number].lost.is_none()
            && let Err(broken) = self.members[number].link.send(request)
        {
            self.lose(number, broken.to_string());
        }
    }

    fn lose(&mut self, number: usize, why: String) {
        let member = &mut self.members[number];
        if member.lost.is_none() {
            tracing::warn!(member = member.name, why, "a member is lost");
            member.link.end();
            member.lost = Some(why);
        }
    }

    /// What comes next, within a moment; deaths and silences are seen on the way.
    fn next_reply(&mut self) -> Option<(usize, MemberReply)> {
        let received = self.replies.recv_timeout(LOOK);
        let now = clock::now();
        if now.duration_since(self.looked) > OVERSLEPT {
            self.members.iter().for_each(|member| member.heard.now());
        }
        self.looked = now;
        let (number, reply) = match received {
            Ok(received) => received,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                for number in 0..self.members.len() {
                    if self.members[number].heard.silence() > SILENT {
                        self.lose(number, format!("it said nothing for {:.0} s", SILENT.as_secs_f64()));
                    }
                }
                return None;
            }
        };
        match reply {
            Ok(MemberReply::Machine(machine)) => {
                self.members[number].machine = Some(machine);
                None
            }
            Ok(reply) => Some((number, reply)),
            Err(broken) => {
                self.lose(number, broken.to_string());
                None
            }
        }
    }

    pub(crate) fn is_lost(&self, number: usize) -> bool {
        self.members[number].lost.is_some()
    }

    /// Begins the flows of a plan together; the window and its cells, with reasons where there is no figure.
    pub(crate) fn window(
        &mut self,
        number: usize,
        plan: &WindowPlan,
        before: &FleetResult,
        fabric: &FabricLinks,
        stop: &Stop,
    ) -> (FleetWindow, Vec<FleetCell>, Vec<FleetHost>) {
        self.looked = clock::now();
        let mut figures: HashMap<FlowEnds, FlowReport> = HashMap::new();
        let fail = |figures: &mut HashMap<FlowEnds, FlowReport>, ends: FlowEnds, why: &str| {
            figures.entry(ends).or_insert_with(|| FlowReport::failed(ends.1, why));
        };
        let mut by_sender: BTreeMap<usize, Vec<FlowRequest>> = BTreeMap::new();
        let rate = self.settings.rate_limit.map(|limit| limit / plan.flows.len().max(1) as f64);
        for (from, to) in plan.flows.iter().copied() {
            if let Some(gone) = [from, to].into_iter().find(|end| self.is_lost(*end)) {
                fail(&mut figures, (from, to), &format!("{} was lost before", self.members[gone].name));
                continue;
            }
            by_sender.entry(from).or_default().push(FlowRequest {
                to,
                address: self.members[to].address,
                streams: self.settings.streams,
                bytes_per_second: rate,
                disks: plan.disks,
                asks: self.settings.asks && !plan.alone,
            });
        }
        let window = number as u32;
        for (sender, flows) in &by_sender {
            self.ask(*sender, &MemberRequest::Prepare { window, flows: flows.clone() });
        }
        let mut waiting: HashSet<usize> = by_sender.keys().copied().collect();
        let mut ready = Vec::new();
        self.collect(&mut waiting, clock::now() + PREPARE, stop, |from, reply| match reply {
            MemberReply::Ready { window: of, failures } if of == window => {
                failures.iter().for_each(|failure| fail(&mut figures, (from, failure.to), &failure.why));
                ready.push(from);
                true
            }
            _ => false,
        });
        let late: Vec<usize> = waiting.into_iter().collect();
        late.into_iter().for_each(|number| self.lose(number, "it did not prepare a window in time".into()));
        let at = (clock::since(self.zero) + LEAD).as_nanos() as i64;
        let WindowSettings { seconds, warm_up_seconds, .. } = self.settings;
        let receives = |to: &usize| !by_sender.contains_key(to) && !self.is_lost(*to);
        let receivers: BTreeSet<usize> = plan.flows.iter().map(|(_, to)| *to).filter(receives).collect();
        ready.extend(receivers);
        for member in ready.iter().copied() {
            let at_nanos = at + self.members[member].clock.offset_nanos;
            self.ask(member, &MemberRequest::Begin { window, at_nanos, warm_up_seconds, seconds });
        }
        let length = LEAD + Duration::from_secs_f64(warm_up_seconds + seconds) + AFTER;
        let mut waiting: HashSet<usize> = ready.into_iter().collect();
        let (mut begins, mut loads) = (Vec::new(), Vec::new());
        let offsets: Vec<i64> = self.members.iter().map(|member| member.clock.offset_nanos).collect();
        self.collect(&mut waiting, clock::now() + length, stop, |from, reply| match reply {
            MemberReply::Done { window: of, began_nanos, flows, load } if of == window => {
                loads.push((from, load));
                begins.push(began_nanos - offsets[from]);
                for flow in flows {
                    figures.entry((from, flow.to)).or_insert(flow);
                }
                true
            }
            _ => false,
        });
        let skew = begins.iter().max().zip(begins.iter().min()).map_or(0, |(last, first)| last - first);
        let predicted = predicted(plan, before, fabric);
        let cells: Vec<FleetCell> = plan
            .flows
            .iter()
            .zip(predicted)
            .map(|(ends, predicted)| self.cell(number, *ends, predicted, figures.remove(ends)))
            .collect();
        let measured = || cells.iter().filter(|cell| cell.figures.bytes_per_second.is_some());
        let rates = || measured().filter_map(|cell| cell.figures.bytes_per_second);
        let predicted: Option<f64> = measured().map(|cell| cell.predicted_bytes_per_second).sum();
        let window = FleetWindow {
            flows: plan.flows.len(),
            bytes_per_second: rates().sum(),
            single_flows: range(rates()),
            predicted_bytes_per_second: predicted.filter(|sum| *sum > 0.0),
            start_skew_seconds: skew as f64 / 1e9,
            alone: plan.alone,
            limits: limits(plan, before, fabric),
            ..FleetWindow::default()
        };
        let host = |(from, load): (usize, HostLoad)| FleetHost {
            member: self.members[from].name.clone(),
            window: number,
            load,
        };
        (window, cells, loads.into_iter().map(host).collect())
    }

    /// Hands replies to `take` until all that are waited for have given the right one, are lost, or are late.
    pub(crate) fn collect(
        &mut self,
        waiting: &mut HashSet<usize>,
        deadline: Instant,
        stop: &Stop,
        mut take: impl FnMut(usize, MemberReply) -> bool,
    ) {
        while !waiting.is_empty() && clock::now() < deadline && !stop.is_ended() {
            if let Some((number, reply)) = self.next_reply()
                && take(number, reply)
            {
                waiting.remove(&number);
            }
            waiting.retain(|number| !self.is_lost(*number));
        }
    }

    fn cell(
        &self,
        window: usize,
        ends: FlowEnds,
        predicted: FlowPrediction,
        report: Option<FlowReport>,
    ) -> FleetCell {
        let (from, to) = (&self.members[ends.0], &self.members[ends.1]);
        let why = || match (&from.lost, &to.lost) {
            (Some(_), _) => format!("{} was lost in this window", from.name),
            (_, Some(_)) => format!("{} was lost in this window", to.name),
            _ => format!("{} gave no figure in time", from.name),
        };
        let report = report.unwrap_or_else(|| FlowReport::failed(ends.1, why()));
        FleetCell {
            from: from.name.clone(),
            to: to.name.clone(),
            window,
            predicted_bytes_per_second: predicted.bytes_per_second,
            fabric_share: predicted.fabric_share,
            figures: report.figures,
        }
    }
}
