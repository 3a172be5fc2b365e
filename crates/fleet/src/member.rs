//! A member: finds the coordinator, says who it is, takes data by an agent of its own, sends what it is asked to,
//! and ends with the connection.

use crate::disk_tasks::DiskTasks;
use crate::flows::{self, PreparedFlow, WindowTimes};
use crate::job::JobRank;
use crate::protocol::{
    ALIVE, FLEET_MAGIC, FLEET_PROTOCOL, MemberHello, MemberLink, MemberReply, MemberRequest,
};
use crate::spec::FleetError;
use linerate_facts::printable::foreign;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{self, Machine};
use linerate_system::addresses::interface_addresses;
use linerate_system::clock;
use linerate_system::side_file::read_bounded;
use linerate_system::stop::Stop;
use linerate_transport::admission::prepare_control;
use linerate_transport::agent::{
    Agent, AgentLimits, AgentSettings, Broken, DeadlineStream, Interface, Key, initiate_as,
};
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

/// One attempt to reach one address.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Between two rounds of attempts: the coordinator may start later than its members.
const PAUSE: Duration = Duration::from_millis(200);
/// The largest file of a rendezvous, and the most addresses that are taken from one: a host has a few.
const MOST_RENDEZVOUS_BYTES: u64 = 64 << 10;
const MOST_ADDRESSES: usize = 256;
/// Sessions and tests of the agent: every other member of a large fleet at once.
const MOST_TESTS: usize = 8192;

/// Where the coordinator is.
#[derive(Clone, Debug)]
pub enum CoordinatorSearch {
    /// `HOST:PORT` words, tried in order.
    Addresses(Vec<String>),
    /// A file on a file system that all hosts share: the coordinator writes its addresses there.
    Rendezvous(PathBuf),
    /// The same where hosts may share it, and `HOST:PORT` words where they do not.
    HomeFile(PathBuf, Vec<String>),
}

/// What a member is to know.
#[derive(Clone, Debug)]
pub struct MemberSpec {
    pub coordinator: CoordinatorSearch,
    /// As the coordinator calls it.
    pub name: Option<String>,
    pub job: Option<JobRank>,
    /// The coordinator is given up after this.
    pub patience: Duration,
}

/// Serves until the coordinator has no more to ask, is gone, or `stop`.
pub fn serve(spec: &MemberSpec, key: &Key, stop: &Arc<Stop>) -> Result<(), FleetError> {
    linerate_system::storage::raise_open_files();
    let machine = probe::probe(&Sysroot::live());
    let everywhere = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))];
    let limits = AgentLimits {
        sessions: MOST_TESTS,
        tests: MOST_TESTS,
        unknown_connections: MOST_TESTS,
        ..AgentLimits::default()
    };
    let nics = machine.nics.clone();
    let interface_of = Arc::new(move |address: IpAddr| {
        let nic = nics.iter().find(|nic| nic.addresses.iter().any(|(own, _)| *own == address))?;
        Some(Interface { name: nic.name.clone(), mtu: nic.mtu.known().copied(), cores: Vec::new() })
    });
    let settings = AgentSettings { interface_of, ..limits.into() };
    let agent = Agent::bind(&everywhere, key.clone(), settings).map_err(FleetError::Member)?;
    let data_port = agent.local_addresses().first().map_or(0, SocketAddr::port);
    let hello = MemberHello {
        protocol: FLEET_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        name: spec.name.clone(),
        host: machine.host.known().cloned().unwrap_or_default(),
        rank: spec.job.as_ref().map(|job| job.rank),
        size: spec.job.as_ref().and_then(|job| job.size),
        data_port,
        addresses: own_addresses(),
    };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| agent.serve(stop));
        let served = reach(spec, key, stop).and_then(|link| converse(&link, &hello, &machine, key, stop));
        stop.end();
        // The agent's own end has nothing to add.
        let _ = serving.join();
        served
    })
}

/// Addresses of this host that another one may use.
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let all = interface_addresses().unwrap_or_default();
    all.into_iter().map(|one| one.address).filter(usable).collect()
}

/// The channel to the coordinator, which may not be there yet.
fn reach(spec: &MemberSpec, key: &Key, stop: &Stop) -> Result<MemberLink, FleetError> {
    let deadline = clock::now() + spec.patience;
    let mut last = "nothing was tried".to_string();
    loop {
        let words = addresses_of(&spec.coordinator).unwrap_or_else(|why| {
            last = why;
            Vec::new()
        });
        for word in words {
            if stop.is_ended() {
                return Err(FleetError::Stopped);
            }
            let Ok(addresses) = word.to_socket_addrs() else {
                last = format!("{} has no address", foreign(&word));
                continue;
            };
            for address in addresses {
                match connect(address, key) {
                    Ok(link) => return Ok(link),
                    Err(Broken::OtherVersion(digit)) => {
                        return Err(FleetError::OtherFraming { address, digit });
                    }
                    Err(Broken::Closed) => last = format!("{address} refused the key of this member"),
                    Err(broken) => last = format!("{address}: {broken}"),
                }
                if stop.is_ended() {
                    return Err(FleetError::Stopped);
                }
            }
        }
        if clock::now() > deadline || stop.wait(PAUSE) {
            return Err(FleetError::NoCoordinator { last });
        }
    }
}

/// The `HOST:PORT` words to try; or why there are none yet.
fn addresses_of(search: &CoordinatorSearch) -> Result<Vec<String>, String> {
    match search {
        CoordinatorSearch::Addresses(words) => Ok(words.clone()),
        CoordinatorSearch::Rendezvous(file) => written_in(file),
        CoordinatorSearch::HomeFile(file, words) => match (written_in(file), words.is_empty()) {
            (Err(why), true) => Err(why),
            (written, _) => Ok([written.unwrap_or_default(), words.clone()].concat()),
        },
    }
}

/// What a coordinator has written, or why there is nothing.
fn written_in(file: &Path) -> Result<Vec<String>, String> {
    let why = |why: &dyn Display| format!("{}: {why}", file.display());
    let bytes = read_bounded(file, MOST_RENDEZVOUS_BYTES).map_err(|error| match error.kind() {
        ErrorKind::NotFound => why(&"no coordinator has written it yet"),
        ErrorKind::FileTooLarge => {
            why(&format!("it is larger than {} KiB, so no coordinator wrote it", MOST_RENDEZVOUS_BYTES >> 10))
        }
        _ => why(&error),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split_whitespace().take(MOST_ADDRESSES).map(String::from).collect())
}

fn connect(address: SocketAddr, key: &Key) -> Result<MemberLink, Broken> {
    let stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
    prepare_control(&stream)?;
    let channel = initiate_as(&FLEET_MAGIC, DeadlineStream::new(&stream, ATTEMPT), key)?;
    Ok(MemberLink::new(stream, channel)?)
}

/// Says hello, then answers until there is no more.
fn converse(
    link: &MemberLink,
    hello: &MemberHello,
    machine: &Machine,
    key: &Key,
    stop: &Arc<Stop>,
) -> Result<(), FleetError> {
    let lost = |broken: Broken| FleetError::CoordinatorLost { why: broken.to_string() };
    link.send(&MemberReply::Hello(hello.clone())).map_err(lost)?;
    let zero = clock::now();
    let (sender, requests) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while link.send(&MemberReply::Alive).is_ok() && !stop.wait(ALIVE) {}
            // The thread that waits for a request sees the end, too, also where nothing can be sent any more.
            stop.wait_ended();
            link.end_reading();
        });
        // The clock is answered by the thread that reads, so that no window makes it late.
        scope.spawn(move || {
            loop {
                let request = link.receive::<MemberRequest>();
                let ended = request.is_err();
                if let Ok(MemberRequest::Clock) = request {
                    let clock = MemberReply::Clock {
                        nanos: clock::since(zero).as_nanos() as i64,
                        unix_nanos: unix_nanos(),
                    };
                    if link.send(&clock).is_ok() {
                        continue;
                    }
                }
                if ended && stop.is_ended() {
                    return;
                }
                if ended {
                    // The coordinator is gone: whatever runs ends.
                    stop.end();
                }
                if sender.send(request).is_err() || ended {
                    return;
                }
            }
        });
        let answered = answer_all(link, &requests, machine, key, zero, stop);
        stop.end();
        link.end();
        answered
    })
}

fn unix_nanos() -> i64 {
    clock::date().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64)
}

fn answer_all(
    link: &MemberLink,
    requests: &mpsc::Receiver<Result<MemberRequest, Broken>>,
    machine: &Machine,
    key: &Key,
    zero: Instant,
    stop: &Arc<Stop>,
) -> Result<(), FleetError> {
    let lost = |broken: Broken| FleetError::CoordinatorLost { why: broken.to_string() };
    let mut prepared: Vec<PreparedFlow> = Vec::new();
    let mut disks: Option<DiskTasks> = None;
    loop {
        // None: it was stopped here.
        let Ok(request) = requests.recv() else { return Ok(()) };
        let request = request.map_err(lost)?;
        let reply = match request {
            MemberRequest::Clock => continue,
            MemberRequest::Welcome => MemberReply::Machine(Box::new(machine.clone())),
            MemberRequest::Refused { why } => return Err(FleetError::Refused { why }),
            MemberRequest::Leave => return Ok(()),
            MemberRequest::Prepare { window, flows } => {
                let (opened, failures) = flows::prepare(&flows, disks.as_ref(), key, stop);
                prepared = opened;
                MemberReply::Ready { window, failures }
            }
            MemberRequest::PrepareDisks { window, request } => {
                let (tasks, failures) = DiskTasks::prepare(&request, machine, stop);
                disks = Some(tasks);
                MemberReply::Ready { window, failures }
            }
            MemberRequest::BeginDisks { window, at_nanos, writes } => {
                let begin = (zero + Duration::from_nanos(at_nanos.max(0) as u64)).max(clock::now());
                let ran = disks.as_mut().map(|disks| disks.run(writes, begin, zero, machine, stop));
                let (began, disks) = ran.unwrap_or((begin, Vec::new()));
                let began_nanos = began.duration_since(zero).as_nanos() as i64;
                MemberReply::DisksDone { window, began_nanos, disks }
            }
            MemberRequest::Begin { window, at_nanos, warm_up_seconds, seconds } => {
                let begin = zero + Duration::from_nanos(at_nanos.max(0) as u64);
                let times = WindowTimes {
                    begin: begin.max(clock::now()),
                    warm_up: Duration::from_secs_f64(warm_up_seconds.clamp(0.0, 3600.0)),
                    length: Duration::from_secs_f64(seconds.clamp(0.001, 86_400.0)),
                };
                let (began, flows, load) = flows::measure(std::mem::take(&mut prepared), times, stop);
                let began_nanos = began.duration_since(zero).as_nanos() as i64;
                MemberReply::Done { window, began_nanos, flows, load }
            }
        };
        link.send(&reply).map_err(lost)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read(file: &Path) -> Result<Vec<String>, String> {
        addresses_of(&CoordinatorSearch::Rendezvous(file.into()))
    }

    #[test]
    fn a_rendezvous_of_others_is_bounded_and_never_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("meet");
        assert!(read(&file).expect_err("absent").contains("no coordinator has written it yet"));
        std::fs::write(&file, "192.0.2.1:7411\n[2001:db8::1]:7411\n").expect("written");
        assert_eq!(read(&file).expect("two"), ["192.0.2.1:7411", "[2001:db8::1]:7411"]);
        std::fs::write(&file, "a ".repeat(30_000)).expect("written");
        assert_eq!(read(&file).expect("words").len(), MOST_ADDRESSES);
        // No bytes on the disk.
        let long = std::fs::File::options().write(true).open(&file).expect("opened");
        long.set_len(300 << 20).expect("longer");
        let why = read(&file).expect_err("too long");
        assert!(why.contains("larger than 64 KiB") && why.len() < 300, "{why}");
        std::fs::remove_file(&file).expect("removed");
        assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
        assert!(read(&file).expect_err("a FIFO").contains("not a regular file"));
    }

    #[test]
    fn one_long_word_is_a_short_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("meet");
        std::fs::write(&file, format!("\u{1b}[2J{}", "x".repeat(60_000))).expect("written");
        let spec = MemberSpec {
            coordinator: CoordinatorSearch::Rendezvous(file),
            name: None,
            job: None,
            patience: Duration::ZERO,
        };
        let key = Key::random().expect("a key");
        let why = match reach(&spec, &key, &Stop::new()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("there is no coordinator"),
        };
        assert!(why.len() < 1000 && !why.contains('\u{1b}') && why.contains("has no address"), "{why}");
    }
}
