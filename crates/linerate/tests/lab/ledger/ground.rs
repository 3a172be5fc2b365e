//! Two network namespaces with a cable between them, taken down whatever happens; and the roles run in them.

use super::roles::{Counted, HostRole, Snapshot};
use crate::support::lab;
use crate::support::namespaces::Namespaces;
use crate::support::process::until;
use linerate::diagnose::ledger::{
    self, Ledger, LedgerHost, Offload, ReceiverAccount, SentCounts, Streams, Thread,
};
use linerate::protocol::Protocol;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Two hosts: `a` sends, `b` receives.
pub struct TwoHosts {
    hosts: Namespaces,
    folder: tempfile::TempDir,
}

/// Name of each end's interface.
pub const CABLE: &str = "cable";

fn own_mac(side: &str) -> &'static str {
    if side == "a" { "02:00:00:00:00:0a" } else { "02:00:00:00:00:0b" }
}

impl TwoHosts {
    /// Made now; none, with a message, where this machine cannot have it.
    pub fn new() -> Option<TwoHosts> {
        if let Some(why) = lab::lacking() {
            println!("skipped: {why}");
            return None;
        }
        let hosts = Namespaces::new("ledger", &["a", "b"])?;
        hosts.cable(("a", CABLE), ("b", CABLE));
        for (side, address) in [("a", "10.77.0.1/24"), ("b", "10.77.0.2/24")] {
            // No addresses of IPv6: its neighbour discovery would be in the counters.
            hosts.ip(side, &["link", "set", CABLE, "addrgenmode", "none"]);
            hosts.ip(side, &["link", "set", CABLE, "address", own_mac(side)]);
            hosts.address(side, CABLE, address);
        }
        // A planted fault may lose the question for an address; what waits for the answer is dropped
        // uncounted.
        for (side, other, address) in [("a", "b", "10.77.0.2"), ("b", "a", "10.77.0.1")] {
            let neighbour = ["neighbour", "replace", address, "lladdr", own_mac(other), "dev", CABLE];
            hosts.ip(side, &neighbour);
        }
        Some(TwoHosts { hosts, folder: tempfile::tempdir().expect("a temporary folder") })
    }

    /// `tc` at the sender; false where this kernel lacks what is asked for.
    pub fn tc(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("tc");
        command.args(["-n", &self.hosts.name("a")]).args(arguments).stderr(Stdio::null());
        command.status().expect("tc starts").success()
    }

    pub fn set_mtu(&self, side: &str, mtu: u32) {
        self.hosts.ip(side, &["link", "set", CABLE, "mtu", &mtu.to_string()]);
    }

    /// This test program in a namespace, in a role.
    fn spawn(&self, side: &str, job: &HostRole, result: &str) -> (Child, PathBuf) {
        let place = self.folder.path().join(result);
        let program = std::env::current_exe().expect("this program").display().to_string();
        let words = [&program, "ledger::roles::in_a_namespace", "--exact", "--nocapture"];
        let child = self
            .hosts
            .inside(side, &words)
            .env("LINERATE_LEDGER_JOB", serde_json::to_string(job).expect("JSON"))
            .env("LINERATE_LEDGER_RESULT", &place)
            .stdout(Stdio::null())
            .spawn()
            .expect("ip starts");
        (child, place)
    }

    fn snapshot(&self, side: &str) -> Snapshot {
        let (child, place) =
            self.spawn(side, &HostRole::Snapshot { interface: CABLE.into() }, &format!("snapshot-{side}"));
        result(child, place)
    }

    /// What a role at the receiver gives.
    pub fn role<T: serde::de::DeserializeOwned>(&self, job: &HostRole) -> T {
        let (child, place) = self.spawn("b", job, "role");
        result(child, place)
    }

    /// One test: counters before, the receiver, the sender, counters after, and what the ledger makes of
    /// them.
    pub fn test(&self, test: &LedgerTest) -> Ledger {
        let before = ["a", "b"].map(|side| self.snapshot(side));
        let ready = self.folder.path().join("ready");
        let _ = std::fs::remove_file(&ready);
        let receive = HostRole::Receive {
            buffer_bytes: test.buffer_bytes,
            coalesced: test.coalesced,
            core: test.core,
            wait_micros: test.wait_micros,
            ready: ready.clone(),
        };
        let (receiver, received_at) = self.spawn("b", &receive, "received");
        let mut spinners: Vec<Child> = (0..test.spinners)
            .map(|_| {
                self.spawn(
                    "b",
                    &HostRole::Spin { core: test.core.unwrap_or(0), beside: ready.clone() },
                    "spun",
                )
                .0
            })
            .collect();
        until("the receiver starts", || ready.exists());
        let send = HostRole::Send {
            datagram_bytes: test.datagram_bytes,
            datagrams: test.datagrams,
            segmented: test.segmented,
        };
        let (sender, sent_at) = self.spawn("a", &send, "sent");
        let sent: Counted = result(sender, sent_at);
        let received: Counted = result(receiver, received_at);
        for spinner in &mut spinners {
            // They end by themselves when the receiver has removed the file.
            let _ = spinner.wait();
        }
        let after = ["a", "b"].map(|side| self.snapshot(side));
        test.ledger(&before, &after, &sent, &received)
    }
}

/// What is sent and how it is taken.
#[derive(Clone, Debug)]
pub struct LedgerTest {
    pub datagram_bytes: u32,
    pub datagrams: u64,
    pub segmented: bool,
    pub coalesced: bool,
    pub buffer_bytes: usize,
    /// Where the reader is pinned.
    pub core: Option<u32>,
    /// Programs that do nothing but use that core.
    pub spinners: u32,
    /// The reader waits after each call.
    pub wait_micros: u64,
}

impl Default for LedgerTest {
    fn default() -> Self {
        LedgerTest {
            datagram_bytes: 1472,
            datagrams: 40_000,
            segmented: false,
            coalesced: false,
            buffer_bytes: 64 << 20,
            core: None,
            spinners: 0,
            wait_micros: 0,
        }
    }
}

impl LedgerTest {
    fn ledger(
        &self,
        before: &[Snapshot; 2],
        after: &[Snapshot; 2],
        sent: &Counted,
        received: &Counted,
    ) -> Ledger {
        let end = |side: usize, host: &str, offload| LedgerHost {
            host: host.into(),
            counters: after[side].counters.since(&before[side].counters),
            interface: Some(CABLE.into()),
            offload,
            cores: received.cores.clone(),
        };
        let sender = end(0, "a", Offload { segmented: self.segmented, coalesced: false });
        let receiver = end(1, "b", Offload { segmented: false, coalesced: self.coalesced });
        let streams = Streams {
            protocol: Protocol::Udp,
            ipv6: false,
            datagram_bytes: self.datagram_bytes,
            seconds: received.seconds.max(0.001),
            sent: SentCounts {
                bytes: sent.bytes,
                datagrams: sent.datagrams,
                trains: sent.trains,
                refused: sent.refused,
                too_long: sent.too_long,
            },
            received: ReceiverAccount {
                bytes: received.bytes,
                datagrams: received.datagrams,
                trains: received.trains,
                receive_buffer_bytes: received.buffer_bytes,
                socket_drops: received.socket_drops,
                thread: self.core.map(|core| Thread { core, cpu_seconds: received.cpu_seconds }),
                ..ReceiverAccount::default()
            },
        };
        let ledger = ledger::ledger(&sender, &receiver, &streams);
        println!("{sent:?}\n{received:?}\n{ledger:#?}");
        ledger
    }
}

fn result<T: serde::de::DeserializeOwned>(mut child: Child, place: PathBuf) -> T {
    assert!(child.wait().expect("it ends").success(), "a role in a namespace fails");
    let text = std::fs::read_to_string(place).expect("what it counted");
    serde_json::from_str(&text).expect("what it counted")
}
