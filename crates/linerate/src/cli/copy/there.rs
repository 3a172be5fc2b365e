//! `linerate copy-half`, the half of a copy on the other host: it serves or fetches, reports to the host that asked, and
//! ends when that does.

use super::halves::{Sender, Source, in_text, receive};
use super::message::{FileCounts, Greeting, HalfEnd, HalfRequest, HalfRole, Message, ReadyHalf};
use crate::cli::agent::{AgentAddress, ways_here};
use crate::cli::stop::stop_on_signals;
use linerate_deliver::serve::BearerToken;
use linerate_deliver::{AwaitedConnections, served_run};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, probe};
use linerate_system::process::name_process;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_transport::admission::listen;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;
use std::io::{self, BufReader, Read, Stdout, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often the other end hears that this one lives.
const ALIVE: Duration = Duration::from_secs(1);
/// A host that lost its power closes no pipe: without a word for this long nobody is there any more.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// A NIC that has less than the fastest one ÷ this is not offered.
const SLOWEST_NIC: u64 = 8;
/// What was asked to end has this long.
const END: Duration = Duration::from_secs(10);

/// The host that asked.
#[derive(Clone, Debug)]
struct Reports(Arc<Mutex<Stdout>>);

impl Reports {
    /// Nobody may be there to hear it: the end of standard input says that.
    fn send(&self, message: &Message) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        let mut out = lock(&self.0);
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// Does what the other host asks for; its end goes there.
pub(in crate::cli) fn copy_half() -> Result<u8, Failure> {
    // One that was brought has no name (`--bring`), and those who look at processes would find a number.
    name_process(c"linerate");
    let mut input = BufReader::new(io::stdin());
    let mut out = io::stdout();
    // Before anything is read: another version may write it otherwise.
    let greeted = out.write_all(Greeting::own().line().as_bytes()).and_then(|()| out.flush());
    greeted.map_err(|error| Failure::Lacks(format!("standard output: {error}")))?;
    let request = HalfRequest::read(&mut input)?;
    let reports = Reports(Arc::new(Mutex::new(out)));
    let stop = stop_on_signals()?;
    watch_other_end(input, reports.clone())?;
    let (message, status) = match half(request, &reports, &stop) {
        Ok(end) => (Message::Ended(Box::new(end)), 0),
        Err(failure) => {
            let status = failure.exit_status();
            (Message::Refused { status, sentence: failure.to_string() }, status)
        }
    };
    reports.send(&message);
    Ok(status)
}

fn half(request: HalfRequest, reports: &Reports, stop: &Stop) -> Result<HalfEnd, Failure> {
    let token = BearerToken::parse(&request.token).ok_or_else(|| Failure::usage("that is not a token"))?;
    let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    match request.role {
        HalfRole::Send(spec) => {
            let sender = Sender::new(spec.tree()?, &spec, &[every], (token, request.is_encrypted))?;
            let port = sender.server.local_addresses().first().map_or(0, SocketAddr::port);
            reports.send(&ready(port, sender.fingerprint, &sender.machine));
            let served = sender.server.serve(stop, &mut |_| {});
            let run = served_run(&sender.paths, sender.machine, served, None);
            Ok(HalfEnd { run: in_text(run), lacks: false, notes: Vec::new(), counts: FileCounts::default() })
        }
        HalfRole::Receive { spec, fingerprint, every: often } => {
            let in_use = "start the copy again";
            let listeners = listen(&[every]).map_err(|error| error.advise("the copy", in_use))?;
            let [listener] = &listeners[..] else { return Err(Failure::usage("no port")) };
            let port = listener.local_addr().map_or(0, |own| own.port());
            let asks = reports.clone();
            let awaited = Arc::new(AwaitedConnections::new(move |token| {
                asks.send(&Message::Connect(token.clone()));
            }));
            let source =
                Source { addresses: Vec::new(), token, fingerprint, awaited: Some(Arc::clone(&awaited)) };
            let over = Stop::new();
            std::thread::scope(|scope| {
                let _ends = over.ends_at_drop();
                let accept = || awaited.accept(listener, &over);
                let begun = std::thread::Builder::new().name("accept".into()).spawn_scoped(scope, accept);
                begun.map_err(|error| Failure::Lacks(format!("no thread to accept connections: {error}")))?;
                reports.send(&ready(port, None, &probe(&Sysroot::live())));
                let show = |progress: &_| reports.send(&Message::Progress(Clone::clone(progress)));
                receive(&spec, source, (often, &show), stop)
            })
        }
    }
}

fn ready(port: u16, fingerprint: Option<String>, machine: &Machine) -> Message {
    let (address, addresses) = (address_of_ssh(), addresses_of(machine));
    Message::Ready(ReadyHalf { port, address, addresses, fingerprint })
}

/// Those of its NICs, without the ones that are far slower than the fastest: they would keep a few streams busy for long.
fn addresses_of(machine: &Machine) -> Vec<IpAddr> {
    let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let reachable = ways_here(machine, &[every]);
    let fastest = reachable.first().and_then(|nic| nic.bits_per_second).unwrap_or(0);
    let is_fast = |nic: &AgentAddress| nic.bits_per_second.is_none_or(|rate| rate >= fastest / SLOWEST_NIC);
    reachable.iter().filter(|nic| is_fast(nic)).map(|nic| nic.address.ip()).collect()
}

/// The address of this host that ssh was reached at (sshd(8), SSH_CONNECTION).
fn address_of_ssh() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split(' ').nth(2)?.parse().ok()
}

/// Says again and again that this end lives, and ends with the other one.
fn watch_other_end(mut input: impl Read + Send + 'static, reports: Reports) -> Result<(), Failure> {
    let begun = clock::now();
    let now = move || u64::try_from(clock::since(begun).as_millis()).unwrap_or(u64::MAX);
    let last_message = Arc::new(AtomicU64::new(0));
    let received = Arc::clone(&last_message);
    let listen = move || {
        let mut some = [0; 64];
        while let Ok(1..) = input.read(&mut some) {
            received.store(now(), Ordering::Relaxed);
        }
        end();
    };
    let speak = move || {
        while Duration::from_millis(now().saturating_sub(last_message.load(Ordering::Relaxed))) < FORGOTTEN {
            reports.send(&Message::Alive);
            clock::sleep(ALIVE);
        }
        end();
    };
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let started = thread("listener").spawn(listen).and_then(|_| thread("speaker").spawn(speak));
    started
        .map(drop)
        .map_err(|error| Failure::Lacks(format!("no thread to listen to the other host: {error}")))
}

/// As a polite kill does; what cannot look is left.
fn end() {
    let _ = raise(SIGTERM);
    clock::sleep(END);
    exit(i32::from(Failure::Interrupted.exit_status()));
}
