//! What is asked of the members, who answers in time and who is lost: all of it is decided here, without a socket. One
//! window of flows after another: connections first, then a common moment to begin, then the figures. Who is gone or
//! silent is named at once, and the others go on.

use crate::fabric::FabricLinks;
use crate::gather::{AwakeTime, ClockReading};
use crate::predict::{FlowPrediction, limits, predicted};
use crate::protocol::{
    FlowFailure, FlowReport, FlowRequest, MemberHello, MemberReply, MemberRequest, MemberWire, is_possible,
};
use crate::schedule::{FlowEnds, WindowPlan};
use crate::spec::FleetSpec;
use crate::sums::range;
use linerate_machine::probe::Machine;
use linerate_measure::run::fleet::{
    FleetCell, FleetHost, FleetMember, FleetPattern, FleetResult, FleetWindow, HostLoad,
};
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A member says that it is there each second; after this it is lost, though its host may still be up.
const SILENT: Duration = Duration::from_millis(4000);
/// Replies wake the coordinator; between them it looks so often for silent members and for `stop`.
const LOOK: Duration = Duration::from_millis(200);
/// What members are, once they were welcomed.
const MACHINES: Duration = Duration::from_secs(10);
/// Members that are sent home have this long to end their connections.
const LEAVE: Duration = Duration::from_secs(1);

/// Between the word to begin and the beginning: the word is there by then.
pub(crate) const LEAD: Duration = Duration::from_millis(60);
/// Before each window, not counted: this share of its length, and no more seconds than these.
const WARM_UP_SHARE: f64 = 0.6;
const MOST_WARM_UP_SECONDS: f64 = 0.3;
/// Connections to the receivers: each step there ends within three seconds.
const PREPARE: Duration = Duration::from_secs(12);
/// After a window, the last question to each receiver.
const AFTER: Duration = Duration::from_secs(5);

/// One that has come.
pub(crate) struct GatheredMember {
    pub name: String,
    pub address: SocketAddr,
    pub hello: MemberHello,
    pub clock: ClockReading,
    pub machine: Option<Box<Machine>>,
    pub lost: Option<String>,
}

impl GatheredMember {
    /// As the product has it.
    pub(crate) fn product(&self) -> FleetMember {
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

/// The members, and what comes from them.
pub(crate) struct Conversation {
    pub(crate) members: Vec<GatheredMember>,
    wire: Box<dyn MemberWire>,
    zero: Instant,
    time: AwakeTime,
}

impl Conversation {
    /// Welcomes all. `zero`: the moment to which the clocks of the members were compared.
    pub(crate) fn begin(members: Vec<GatheredMember>, wire: Box<dyn MemberWire>, zero: Instant) -> Self {
        let mut conversation = Conversation { members, wire, zero, time: AwakeTime::begin() };
        conversation.ask_all(&MemberRequest::Welcome);
        conversation
    }

    pub(crate) fn is_lost(&self, number: usize) -> bool {
        self.members[number].lost.is_some()
    }

    /// Nanoseconds of the coordinator's clock.
    pub(crate) fn now_nanos(&self) -> i64 {
        clock::since(self.zero).as_nanos() as i64
    }

    /// That moment by the clock of a member, which may show anything.
    pub(crate) fn member_nanos(&self, number: usize, nanos: i64) -> i64 {
        nanos.saturating_add(self.members[number].clock.offset_nanos)
    }

    /// From the first to the last of these moments, each by the clock of its member: none is before they were to begin,
    /// nor still to come.
    pub(crate) fn seconds_between(&self, moments: &[(usize, i64)], begin: i64) -> f64 {
        let now = self.now_nanos().max(begin);
        let offset = |number: &usize| self.members[*number].clock.offset_nanos;
        let nanos = moments.iter().map(|(of, nanos)| nanos.saturating_sub(offset(of)).clamp(begin, now));
        nanos.clone().max().zip(nanos.min()).map_or(0.0, |(last, first)| (last - first) as f64 / 1e9)
    }

    /// Each says what its machine is; who does not is a member all the same.
    pub(crate) fn await_machines(&mut self, stop: &Stop) {
        let mut machines = BTreeMap::new();
        // What a fleet that was interrupted has of machines is enough for it.
        self.collect(0..self.members.len(), MACHINES, stop, |from, reply| match reply {
            MemberReply::Machine(machine) => machines.insert(from, machine).is_none(),
            _ => false,
        });
        machines.into_iter().for_each(|(from, machine)| self.members[from].machine = Some(machine));
    }

    /// Sends all home.
    pub(crate) fn leave(&mut self) {
        self.ask_all(&MemberRequest::Leave);
        let all = 0..self.members.len();
        // Members end their connections; who hangs is not waited for.
        self.collect(all.clone(), LEAVE, &Stop::new(), |_, _| false);
        all.for_each(|number| self.wire.end(number));
    }

    fn ask_all(&mut self, request: &MemberRequest) {
        (0..self.members.len()).for_each(|number| self.ask(number, request));
    }

    pub(crate) fn ask(&mut self, number: usize, request: &MemberRequest) {
        if !self.is_lost(number)
            && let Err(broken) = self.wire.send(number, request)
        {
            self.lose(number, broken.to_string());
        }
    }

    pub(crate) fn lose(&mut self, number: usize, why: String) {
        let member = &mut self.members[number];
        if member.lost.is_none() {
            tracing::warn!(member = member.name, why, "a member is lost");
            member.lost = Some(why);
            self.wire.end(number);
        }
    }

    /// Hands the replies of those that were asked to `take` until all have given the right one, are lost, or are late:
    /// those. None where it was interrupted, which is nobody's fault.
    pub(crate) fn collect(
        &mut self,
        asked: impl IntoIterator<Item = usize>,
        time: Duration,
        stop: &Stop,
        mut take: impl FnMut(usize, MemberReply) -> bool,
    ) -> Option<BTreeSet<usize>> {
        let mut waiting: BTreeSet<usize> = asked.into_iter().collect();
        let begun = self.time.look();
        loop {
            let waited = self.time.look() - begun;
            waiting.retain(|number| !self.is_lost(*number));
            if waiting.is_empty() || waited > 2 * time {
                return Some(waiting);
            }
            if stop.is_ended() {
                #[cfg(test)]
                planted!(InterruptedIsLate, return Some(waiting));
                return None;
            }
            // What is there by then is read first; who says something for ever does not hold up the others.
            match self.wire.receive(if waited > time { Duration::ZERO } else { LOOK }) {
                Some((number, Err(broken))) => self.lose(number, broken.to_string()),
                // A second answer, or one of who was not asked, is none.
                Some((number, Ok(reply))) => {
                    #[cfg(test)]
                    planted!(SecondAnswer, waiting.extend([number]));
                    let is_answer = waiting.contains(&number) && take(number, reply);
                    waiting.retain(|other| *other != number || !is_answer);
                }
                None if waited > time => return Some(waiting),
                None => self.lose_silent(),
            }
        }
    }

    /// Those that did not even say that they are there.
    fn lose_silent(&mut self) {
        // It may have stood still until now.
        self.time.look();
        for number in 0..self.members.len() {
            if clock::since(self.wire.last_arrival(number).max(self.time.woke)) > SILENT {
                self.lose(number, format!("it said nothing for {:.0} s", SILENT.as_secs_f64()));
            }
        }
    }

    /// Begins the flows of a plan together; the window and its cells, with reasons where there is no figure. None where it
    /// was interrupted.
    pub(crate) fn window(
        &mut self,
        number: usize,
        plan: &WindowPlan,
        before: &FleetResult,
        (spec, fabric): (&FleetSpec, &FabricLinks),
        stop: &Stop,
    ) -> Option<(FleetWindow, Vec<FleetCell>, Vec<FleetHost>)> {
        let mut figures: HashMap<FlowEnds, FlowReport> = HashMap::new();
        let mut by_sender: BTreeMap<usize, Vec<FlowRequest>> = BTreeMap::new();
        let rate = spec.rate_limit.map(|limit| limit / plan.flows.len().max(1) as f64);
        for (from, to) in plan.flows.iter().copied() {
            if self.is_lost(from) || self.is_lost(to) {
                continue;
            }
            by_sender.entry(from).or_default().push(FlowRequest {
                to,
                address: self.members[to].address,
                streams: spec.streams,
                bytes_per_second: rate,
                disks: plan.disks,
                asks: spec.pattern == FleetPattern::Incast && !plan.alone,
            });
        }
        let window = number as u32;
        for (sender, flows) in &by_sender {
            self.ask(*sender, &MemberRequest::Prepare { window, flows: flows.clone() });
        }
        let mut ready = Vec::new();
        let late = self.collect(by_sender.keys().copied(), PREPARE, stop, |from, reply| match reply {
            MemberReply::Ready { window: of, failures } if of == window => {
                let failed = |failure: FlowFailure| FlowReport::failed(failure.to, failure.why);
                figures.extend(failures.into_iter().map(|failure| ((from, failure.to), failed(failure))));
                ready.push(from);
                true
            }
            _ => false,
        })?;
        late.into_iter().for_each(|number| self.lose(number, "it did not prepare a window in time".into()));
        let at = self.now_nanos() + LEAD.as_nanos() as i64;
        let seconds = spec.seconds;
        let warm_up_seconds = (seconds * WARM_UP_SHARE).min(MOST_WARM_UP_SECONDS);
        let receives = |to: &usize| !by_sender.contains_key(to) && !self.is_lost(*to);
        let receivers: BTreeSet<usize> = plan.flows.iter().map(|(_, to)| *to).filter(receives).collect();
        ready.extend(receivers);
        for member in ready.iter().copied() {
            let at_nanos = self.member_nanos(member, at);
            self.ask(member, &MemberRequest::Begin { window, at_nanos, warm_up_seconds, seconds });
        }
        let length = LEAD + Duration::from_secs_f64(warm_up_seconds + seconds) + AFTER;
        let (mut begins, mut loads) = (Vec::new(), Vec::new());
        self.collect(ready, length, stop, |from, reply| match reply {
            MemberReply::Done { window: of, began_nanos, flows, load } if of == window => {
                loads.extend(is_possible(&load).then_some((from, load)));
                begins.push((from, began_nanos));
                for flow in flows {
                    figures.entry((from, flow.to)).or_insert(flow.checked());
                }
                true
            }
            _ => false,
        })?;
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
            start_skew_seconds: self.seconds_between(&begins, at),
            alone: plan.alone,
            limits: limits(plan, before, fabric),
            ..FleetWindow::default()
        };
        let host = |(from, load): (usize, HostLoad)| FleetHost {
            member: self.members[from].name.clone(),
            window: number,
            load,
        };
        Some((window, cells, loads.into_iter().map(host).collect()))
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
            (Some(_), _) => format!("{} was lost", from.name),
            (_, Some(_)) => format!("{} was lost", to.name),
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
