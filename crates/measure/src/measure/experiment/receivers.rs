//! Takes from the CPUs of a receiver on another host: its agent does that, asked some times a second for as long as more
//! is wanted.

use linerate_facts::host::{HostSample, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CoreUse;
use linerate_model::plan::PathPlan;
use linerate_model::shares::receiver_cpus;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_transport::agent::{AgentSession, BOOT_ID, TakeRequest};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two requests.
const ASK: Duration = Duration::from_millis(20);

/// A host that receives, by the sessions with its agent: one a path.
pub(super) struct Receiver {
    /// Of its CPUs.
    pub id: String,
    /// Its agent takes of them when asked.
    pub takes: bool,
    sessions: Vec<AgentSession>,
    asked: Arc<Asked>,
    /// What its host had counted when the flow was first looked at.
    first: Option<HostSample>,
}

/// What its agent is asked for, and what came of it.
#[derive(Default)]
struct Asked {
    wanted: Mutex<Option<Wanted>>,
    taken_nanos: AtomicU64,
    /// All on which its streams have been.
    cpus: Mutex<BTreeSet<u32>>,
}

#[derive(Clone, Copy)]
struct Wanted {
    slot: u64,
    nanos_per_second: f64,
    end: Instant,
}

/// The receivers on other hosts than this one: over loopback, or in another network namespace, their CPUs are this host's.
pub(super) fn elsewhere(sysroot: &Sysroot, paths: &[PathPlan], sessions: &[AgentSession]) -> Vec<Receiver> {
    let mut all: Vec<Receiver> = Vec::new();
    for (path, session) in paths.iter().zip(sessions).filter(|(_, session)| !is_here(sysroot, session)) {
        let id = receiver_cpus(&path.receiver);
        match all.iter_mut().find(|known| known.id == id) {
            Some(known) => known.sessions.push(session.clone()),
            None => all.push(Receiver::of(id, session.hello().takes_cpu, vec![session.clone()])),
        }
    }
    all
}

/// This agent runs on this host. One that is older does not say so.
pub(super) fn is_here(sysroot: &Sysroot, session: &AgentSession) -> bool {
    session.hello().boot_id.as_ref().is_some_and(|boot| sysroot.text(BOOT_ID).is_ok_and(|own| own == *boot))
}

impl Receiver {
    /// Of these CPUs, by the sessions with their agent.
    pub(super) fn of(id: String, takes: bool, sessions: Vec<AgentSession>) -> Self {
        Receiver { id, takes, sessions, asked: Arc::default(), first: None }
    }

    /// Starts to ask, until this ends or the agent answers no more: why, its flow says.
    pub(super) fn start(&self, end: &Arc<Stop>) -> io::Result<Vec<JoinHandle<()>>> {
        let sessions = self.sessions.len();
        let ask = |session: &AgentSession| {
            let (session, asked, end) = (session.clone(), Arc::clone(&self.asked), Arc::clone(end));
            let ask = move || {
                let mut before = 0;
                while let Ok(taken) = session.take(asked.request(sessions, clock::now())) {
                    asked.taken_nanos.fetch_add(taken.cpu_nanos.saturating_sub(before), Ordering::Relaxed);
                    before = taken.cpu_nanos;
                    lock(&asked.cpus).extend(taken.cpus);
                    if end.wait(ASK) {
                        return;
                    }
                }
            };
            std::thread::Builder::new().name("receiver taker".into()).spawn(ask)
        };
        self.sessions.iter().map(ask).collect()
    }

    /// Has this taken until then, nanoseconds of CPU time a second.
    pub(super) fn open(&self, nanos_per_second: f64, end: Instant) {
        let mut wanted = lock(&self.asked.wanted);
        let slot = wanted.map_or(1, |before| before.slot + 1);
        *wanted = Some(Wanted { slot, nanos_per_second, end });
    }

    /// CPU time that was taken until now, nanoseconds.
    pub(super) fn taken_nanos(&self) -> u64 {
        self.asked.taken_nanos.load(Ordering::Relaxed)
    }

    /// What its host does counts from now on.
    pub(super) fn look(&mut self) {
        self.first = self.sample();
    }

    /// What its host did since then; none where its agent does not say.
    pub(super) fn used(&self) -> Option<ReceiverUse> {
        let host = self.sample()?.since(self.first.as_ref()?);
        Some(ReceiverUse::of(&host, &lock(&self.asked.cpus)))
    }

    fn sample(&self) -> Option<HostSample> {
        self.sessions.first()?.sample().ok().map(|sample| sample.host)
    }
}

impl Asked {
    /// What is wanted now of one of so many sessions.
    fn request(&self, sessions: usize, now: Instant) -> TakeRequest {
        let wanted = lock(&self.wanted).filter(|wanted| now < wanted.end);
        wanted.map_or_else(TakeRequest::default, |wanted| TakeRequest {
            slot: wanted.slot,
            nanos_per_second: wanted.nanos_per_second / sessions as f64,
            millis: (wanted.end - now).as_millis() as u64,
        })
    }
}

/// What a flow uses of the CPUs of a receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReceiverUse {
    /// Of the time, of the CPU that is fullest, or of the quota.
    pub busy: f64,
    pub cpus: f64,
}

impl ReceiverUse {
    /// Of the CPUs that its streams were on. A quota of the agent is used up by the agent alone.
    fn of(host: &HostUse, cpus: &BTreeSet<u32>) -> Self {
        let own = || host.cpus.iter().filter(|cpu| cpus.contains(&cpu.core) || cpus.is_empty());
        let fullest = own().map(CoreUse::busy).fold(0.0, f64::max);
        if host.quota_cores > 0.0 {
            let of_quota = host.cpu_seconds / host.seconds.max(1e-9);
            return ReceiverUse { busy: fullest.max(of_quota / host.quota_cores), cpus: of_quota };
        }
        ReceiverUse { busy: fullest, cpus: own().map(CoreUse::busy).sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_one_host_take_a_part_each_until_the_slot_ends() {
        let begin = clock::now();
        let after = |millis| begin + Duration::from_millis(millis);
        let receiver = Receiver::of("receiver-cpus:peer".into(), true, Vec::new());
        let asked = Arc::clone(&receiver.asked);
        assert_eq!(asked.request(2, begin), TakeRequest::default());
        receiver.open(0.1e9, after(600));
        let wanted = TakeRequest { slot: 1, nanos_per_second: 0.05e9, millis: 400 };
        assert_eq!(asked.request(2, after(200)), wanted);
        receiver.open(0.2e9, after(1_200));
        let wanted = TakeRequest { slot: 2, nanos_per_second: 0.2e9, millis: 600 };
        assert_eq!(asked.request(1, after(600)), wanted);
        assert_eq!(asked.request(1, after(1_200)), TakeRequest::default());
    }

    #[test]
    fn a_quota_is_used_up_by_the_agent_and_cpus_by_all_on_them() {
        let cpu = |core, idle| CoreUse { core, idle, ..CoreUse::default() };
        let cpus = vec![cpu(0, 0.25), cpu(1, 0.5), cpu(2, 0.125)];
        let host = HostUse { seconds: 2.0, cpu_seconds: 0.48, cpus, ..HostUse::default() };
        let streams = BTreeSet::from([0, 1]);
        assert_eq!(ReceiverUse::of(&host, &streams), ReceiverUse { busy: 0.75, cpus: 1.25 });
        let host = HostUse { quota_cores: 0.25, ..host };
        assert_eq!(ReceiverUse::of(&host, &streams), ReceiverUse { busy: 0.96, cpus: 0.24 });
    }
}
