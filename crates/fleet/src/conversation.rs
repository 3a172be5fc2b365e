//! What is asked of the members, who answers in time and who is lost: all of it is decided here, without a socket. Who is
//! gone or silent is named at once, and the others go on.

use crate::gather::{AwakeTime, ClockReading};
use crate::link::MemberWire;
use crate::protocol::{MemberHello, MemberReply, MemberRequest};
use linerate_machine::probe::Machine;
use linerate_measure::run::fleet::FleetMember;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// A member says that it is there each second; after this it is lost, though its host may still be up.
const SILENT: Duration = Duration::from_millis(4000);
/// Replies wake the coordinator; between them it looks so often for silent members and for `stop`.
const LOOK: Duration = Duration::from_millis(200);
/// What members are, once they were welcomed.
const MACHINES: Duration = Duration::from_secs(10);
/// Members that are sent home have this long to end their connections.
const LEAVE: Duration = Duration::from_secs(1);

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
    wire: Box<dyn MemberWire>,
    zero: Instant,
    time: AwakeTime,
    /// When silent members were looked for.
    checked: Duration,
    pub(crate) settings: WindowSettings,
}

impl Conversation {
    /// Welcomes all. `zero`: the moment to which the clocks of the members were compared.
    pub(crate) fn begin(
        members: Vec<GatheredMember>,
        wire: Box<dyn MemberWire>,
        zero: Instant,
        settings: WindowSettings,
    ) -> Conversation {
        let (time, checked) = (AwakeTime::begin(), Duration::ZERO);
        let mut conversation = Conversation { members, wire, zero, time, checked, settings };
        conversation.ask_all(&MemberRequest::Welcome);
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

    /// What a member says of its clock: not before it was to begin, nor still to come.
    pub(crate) fn coordinator_nanos(&self, number: usize, nanos: i64, begin: i64) -> i64 {
        nanos
            .saturating_sub(self.members[number].clock.offset_nanos)
            .clamp(begin, self.now_nanos().max(begin))
    }

    /// Each says what its machine is; who does not is a member all the same.
    pub(crate) fn await_machines(&mut self, stop: &Stop) {
        let mut machines = Vec::new();
        let all = 0..self.members.len();
        // What a fleet that was interrupted has of machines is enough for it.
        self.collect(all, MACHINES, stop, |from, reply| match reply {
            MemberReply::Machine(machine) => {
                machines.push((from, machine));
                true
            }
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
            let passed = self.time.look();
            if passed - self.checked > LOOK {
                self.checked = passed;
                self.lose_silent();
            }
            waiting.retain(|number| !self.is_lost(*number));
            let waited = passed - begun;
            if waiting.is_empty() || waited > 2 * time {
                return Some(waiting);
            }
            if stop.is_ended() {
                return None;
            }
            // What is there by then is read first; who says something for ever does not hold up the others.
            match self.wire.receive(if waited > time { Duration::ZERO } else { LOOK }) {
                Some((number, Err(broken))) => self.lose(number, broken.to_string()),
                // A second answer, or one of who was not asked, is none.
                Some((number, Ok(reply))) => {
                    let is_answer = waiting.contains(&number) && take(number, reply);
                    waiting.retain(|other| *other != number || !is_answer);
                }
                None if waited > time => return Some(waiting),
                None => {}
            }
        }
    }

    /// Those that did not even say that they are there.
    fn lose_silent(&mut self) {
        for number in 0..self.members.len() {
            if clock::since(self.wire.heard(number).max(self.time.woke)) > SILENT {
                self.lose(number, format!("it said nothing for {:.0} s", SILENT.as_secs_f64()));
            }
        }
    }
}
