//! `linerate fleet`: the words made into a fleet, or into one rank of it; the result printed and saved.

use super::arguments::{Command, FleetArgs, FleetMemberArgs};
use super::output::Output;
use super::saving::{Gate, keep};
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_fleet::{
    CoordinatorSearch, DEFAULT_COORDINATOR_PORT, FabricError, FleetDiskSpec, FleetError, FleetEvent,
    FleetSpec, FleetStart, JobRank, LaunchPlan, MemberSpec, SSH_WORDS, check_fabric, coordinate,
    parse_fabric, parse_hostfile, parse_hosts, parse_servers, run_of, serve,
};
use linerate_measure::measure::access::FileLayout;
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{FleetPattern, FleetRack, FleetResult};
use linerate_report as report;
use linerate_report::Folder;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::agent::{KEY_VARIABLE, Key};
use std::io::{BufRead, IsTerminal, Read};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Exit status of what was measured in part.
const PARTIAL: u8 = 1;
/// A key on standard input is there at once, or nobody gives one.
const KEY_PATIENCE: Duration = Duration::from_secs(5);
/// A key has 64 digits: of what is not a key, no more is read.
const MOST_KEY_BYTES: u64 = 1024;
/// A member started from outside is wanted now; its coordinator listens before it starts anything.
const MEMBER_PATIENCE: Duration = Duration::from_secs(10);

/// Measures, prints, saves; in a job, as the rank that this process is.
pub(super) fn fleet(args: &FleetArgs, output: &Output) -> Result<u8, Failure> {
    let launched = args.launch.is_some() || args.hosts.is_some() || args.hostfile.is_some();
    match JobRank::of_this_process().filter(|_| !launched) {
        Some(job) => in_job(args, job, output),
        None if launched => {
            let (plan, hosts) = launch_plan(args)?;
            let key = Key::random()?;
            coordinated(args, FleetStart::Launch { plan, hosts }, None, &key, output)
        }
        None => Err(Failure::usage(
            "a fleet needs hosts: name them with --hosts a[1-8] or --hostfile FILE, give a launcher such as \
             --launch 'mpirun -np 8', or start this command in a job of mpirun, srun or Kubernetes",
        )),
    }
}

fn launch_plan(args: &FleetArgs) -> Result<(LaunchPlan, Vec<String>), Failure> {
    let hosts = match (&args.hosts, &args.hostfile) {
        (Some(text), _) => {
            parse_hosts(text).map_err(|why| failure(FleetError::Hosts { text: text.clone(), why }))?
        }
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| failure(FleetError::UnreadHostfile { file: file.clone(), error }))?;
            parse_hostfile(&text).map_err(|why| failure(FleetError::Hostfile { file: file.clone(), why }))?
        }
        (None, None) => Vec::new(),
    };
    let text = args.launch.as_deref().unwrap_or(SSH_WORDS);
    let plan = LaunchPlan::new(text, &hosts).map_err(|error| failure(error.into()))?;
    Ok((plan, hosts))
}

/// One rank of a job: the first coordinates and is a member as well, the others are members.
fn in_job(args: &FleetArgs, job: JobRank, output: &Output) -> Result<u8, Failure> {
    if !job.is_one_of_several() && args.members.is_none() && job.size == Some(1) {
        return Err(Failure::usage(format!(
            "{} has one process, and a fleet is two at least: start more, such as `mpirun -np 2`",
            job.launcher
        )));
    }
    let Some(key) = Key::from_environment()? else {
        if job.rank > 0 {
            // Rank 0 says it for all.
            return Ok(2);
        }
        let command = format!("linerate fleet {}", args.pattern.name());
        let line = job.launcher.key_line(&Key::random()?.to_hex(), &command);
        return Err(Failure::usage(format!(
            "{KEY_VARIABLE} is not set, by which the ranks know each other; start the job with a key of its own: {line}"
        )));
    };
    if job.rank == 0 {
        return coordinated(args, FleetStart::Job, Some(&job), &key, output);
    }
    let at_port = |host: &String| match host.parse::<std::net::IpAddr>() {
        Ok(address) => std::net::SocketAddr::new(address, DEFAULT_COORDINATOR_PORT).to_string(),
        Err(_) if host.contains(':') => host.clone(),
        Err(_) => format!("{host}:{DEFAULT_COORDINATOR_PORT}"),
    };
    let coordinator = match (&args.rendezvous, &args.coordinator) {
        (Some(file), _) => CoordinatorSearch::Rendezvous(file.clone()),
        (None, Some(host)) => CoordinatorSearch::Addresses(vec![at_port(host)]),
        (None, None) => {
            let hosts = job.rank_0.iter().map(at_port).collect();
            match &job.home_file {
                Some(file) => CoordinatorSearch::HomeFile(file.clone(), hosts),
                None => CoordinatorSearch::Addresses(hosts),
            }
        }
    };
    let stop = stop_on_signals()?;
    let spec = MemberSpec { coordinator, name: None, job: Some(job), patience: args.join_timeout };
    serve(&spec, &key, &stop).map_err(failure)?;
    Ok(0)
}

/// Nobody said where rank 0 is.
fn is_searched(args: &FleetArgs) -> bool {
    args.rendezvous.is_none() && args.coordinator.is_none()
}

fn coordinated(
    args: &FleetArgs,
    start: FleetStart,
    job: Option<&JobRank>,
    key: &Key,
    output: &Output,
) -> Result<u8, Failure> {
    args.output.as_deref().map(Folder::check).transpose()?;
    let gate = Gate::open(&args.expect)?;
    let stop = stop_on_signals()?;
    linerate_system::storage::raise_open_files();
    let fabric = fabric(args, start.hosts())?;
    let servers = servers(args, start.hosts())?;
    let disks = disks(args)?;
    let sources = disks.as_ref().map_or(1, |disks| disks.sources.len());
    let spec = FleetSpec {
        pattern: args.pattern,
        start,
        members: args.members.or(job.and_then(|job| job.size)).map(|members| members as usize),
        program: program(args)?,
        coordinator: args.coordinator.clone(),
        rendezvous: args.rendezvous.clone(),
        home_file: job.and_then(|job| job.home_file.clone()).filter(|_| is_searched(args)),
        network: args.network,
        seconds: args.seconds,
        // Each flow of a server reads all its sources.
        streams: match args.pattern {
            FleetPattern::Storage => args.streams.next_multiple_of(sources.max(1) as u32),
            _ => args.streams,
        },
        rate_limit: args.rate_limit,
        fabric,
        disks,
        servers,
        redundancy: args.redundancy.clone(),
        patience: args.join_timeout,
    };
    let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let mut saving = FleetSaving { args, output, started, folder: None, failure: None };
    let result = coordinate(&spec, key, &stop, &mut |event| saving.listen(&event)).map_err(failure)?;
    let run = saving.save(&result);
    if let Some(failure) = saving.failure {
        return Err(failure);
    }
    if !args.keeping.no_save {
        keep(&run, output);
    }
    match args.json {
        true => output.print(&report::json(&run))?,
        false => output.print(&report::terminal(&run, output.width(), output.colour()))?,
    }
    // Who was lost was named when it was.
    let lost = |error: &String| {
        result.members.iter().any(|one| error.starts_with(&format!("{} was lost", one.name)))
    };
    for error in result.errors.iter().filter(|error| !lost(error)) {
        output.complain(error);
    }
    let status = if result.is_partial() { PARTIAL } else { 0 };
    gate.map_or_else(|| Ok(status), |gate| gate.finish(&[&run], status, !args.json, output))
}

/// The racks, in words or from files.
fn fabric(args: &FleetArgs, listed: &[String]) -> Result<Vec<FleetRack>, Failure> {
    let racks = parse_fabric(&args.fabric).map_err(|why| failure(why.into()))?;
    check_fabric(&racks, listed).map_err(|why| failure(why.into()))?;
    let unknown = racks.iter().find(|rack| rack.uplink_bytes_per_second.is_none());
    match unknown.filter(|_| args.pattern != FleetPattern::Bisection) {
        Some(rack) => Err(failure(FabricError::NoUplink(rack.hosts.join(",")).into())),
        None => Ok(racks),
    }
}

/// The hosts whose disks are read; none where the pattern has no servers.
fn servers(args: &FleetArgs, listed: &[String]) -> Result<Vec<String>, Failure> {
    let text = match (&args.servers, args.pattern) {
        (Some(text), FleetPattern::Storage) => text,
        (None, FleetPattern::Storage) => {
            let lacking =
                "fleet storage needs servers: name the hosts whose disks are read with --servers a[1-2]";
            return Err(Failure::usage(lacking));
        }
        (None, _) => return Ok(Vec::new()),
        (Some(_), other) => {
            let needless = "--servers belongs to `linerate fleet storage`; in";
            return Err(Failure::usage(format!("{needless} {} all hosts do the same", other.name())));
        }
    };
    let servers =
        parse_servers(text).map_err(|why| failure(FleetError::Servers { text: text.clone(), why }))?;
    let unknown = servers.iter().find(|server| !listed.is_empty() && !listed.contains(server));
    let needs = args.redundancy.iter().max_by_key(|way| way.servers());
    let needs = needs.filter(|way| way.servers() > servers.len());
    let wrong = match (unknown, needs) {
        (Some(unknown), _) => {
            format!("--servers names {unknown}, which is none of the hosts: write it as in the list of hosts")
        }
        _ if !listed.is_empty() && servers.len() == listed.len() => {
            "--servers names all hosts, and none is left as a client: leave one out".into()
        }
        (None, Some(way)) => {
            let (lacks, has) = (way.servers(), servers.len());
            format!("--redundancy {way} needs {lacks} servers, and --servers names {has}")
        }
        (None, None) => return Ok(servers),
    };
    Err(Failure::usage(wrong))
}

/// What is read and written, where disks are measured.
fn disks(args: &FleetArgs) -> Result<Option<FleetDiskSpec>, Failure> {
    let disk = &args.disk;
    let wrong = match (args.pattern, disk.source.is_empty()) {
        (FleetPattern::Disk, true) => {
            "fleet disk needs what to read on every host: name it with --source DIR".into()
        }
        (FleetPattern::Storage, true) => {
            "fleet storage needs what the servers read: name it with --source DIR".into()
        }
        (FleetPattern::Storage, false) if disk.reorder || disk.layout != FileLayout::FilePerWorker => {
            "--reorder and --layout belong to `linerate fleet disk`: here each server has files of its own"
                .into()
        }
        (FleetPattern::Disk | FleetPattern::Storage, false) if disk.amount < disk.transfer => {
            let (amount, transfer) = (show_size(disk.amount), show_size(disk.transfer));
            format!(
                "--amount {amount} is less than one request of {transfer}: make it larger, or --transfer smaller"
            )
        }
        (FleetPattern::Disk | FleetPattern::Storage, false) => {
            return Ok(Some(FleetDiskSpec {
                sources: disk.source.clone(),
                workers: disk.workers,
                bytes: disk.amount,
                transfer_bytes: disk.transfer,
                queue_depth: disk.queue_depth,
                direct: !disk.buffered,
                layout: disk.layout,
                reorder: disk.reorder,
                write: disk.write,
            }));
        }
        (_, true) => return Ok(None),
        (other, false) => {
            let other = other.name();
            format!("--source belongs to `linerate fleet disk` and `storage`; {other} sends from memory")
        }
    };
    Err(Failure::usage(wrong))
}

fn program(args: &FleetArgs) -> Result<String, Failure> {
    if let Some(program) = &args.program {
        return Ok(program.clone());
    }
    let own = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    own.ok_or_else(|| Failure::lacks("linerate's own file is unknown: name it with --program PATH"))
}

/// The folder with the result so far, and the lines of progress.
struct FleetSaving<'a> {
    args: &'a FleetArgs,
    output: &'a Output,
    /// RFC 3339.
    started: String,
    folder: Option<Folder>,
    failure: Option<Failure>,
}

impl FleetSaving<'_> {
    fn listen(&mut self, event: &FleetEvent<'_>) {
        match event {
            FleetEvent::Gathered(result) => {
                for difference in &result.differences {
                    self.output.tell(difference);
                }
                self.progress(&format!("{} members", result.members.len()));
                let _ = self.save(result);
            }
            FleetEvent::Absent(host) => {
                self.output.complain(&format!("{} is left out: {}", host.name, host.why))
            }
            FleetEvent::Waiting(hosts) => {
                let seconds = self.args.join_timeout.as_secs_f64();
                let who = if hosts.is_empty() { "more members".into() } else { hosts.join(", ") };
                self.output.complain(&format!(
                    "{who} did not come yet; waited for until {seconds:.0} s after the start"
                ));
            }
            FleetEvent::Lost { name, why } => self.output.complain(&format!("{name} was lost: {why}")),
            FleetEvent::Window { done, all, result } => {
                self.progress(&format!("window {done} of {all}"));
                let _ = self.save(result);
            }
        }
    }

    fn progress(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            self.output.tell(line);
        }
    }

    fn save(&mut self, result: &FleetResult) -> Run {
        let run = Run { started: self.started.clone(), ..run_of(result) };
        if let Some(named) = self.args.output.as_deref().filter(|_| self.failure.is_none()) {
            let saved = match &self.folder {
                Some(folder) => folder.save(&run).and_then(|()| folder.save_report(&run)),
                None => Folder::begin(named, &run).map(|folder| self.folder = Some(folder)),
            };
            self.failure = saved.err();
        }
        run
    }
}

fn failure(error: FleetError) -> Failure {
    match error {
        FleetError::Stopped => Failure::Interrupted,
        FleetError::Key(failure) | FleetError::Listen(failure) | FleetError::Member(failure) => failure,
        other if other.is_usage() => Failure::usage(other),
        other => Failure::lacks(other),
    }
}

/// `linerate fleet-member`: serves until its coordinator has no more to ask.
pub(super) fn member(args: &FleetMemberArgs) -> Result<u8, Failure> {
    let key = match Key::from_environment()? {
        Some(key) => key,
        None => key_of_standard_input()?,
    };
    let stop: Arc<Stop> = stop_on_signals()?;
    let spec = MemberSpec {
        coordinator: CoordinatorSearch::Addresses(args.join.clone()),
        name: args.name.clone(),
        job: JobRank::of_this_process(),
        patience: MEMBER_PATIENCE,
    };
    serve(&spec, &key, &stop).map_err(failure)?;
    Ok(0)
}

/// What passes on no environment passes on standard input, as ssh does.
pub(super) fn key_of_standard_input() -> Result<Key, Failure> {
    let (sender, line) = mpsc::channel();
    let read = move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().take(MOST_KEY_BYTES).read_line(&mut line);
        let _ = sender.send(read.map(|_| line));
    };
    let started = std::thread::Builder::new().name("key".into()).spawn(read);
    started.map_err(|error| Failure::lacks(format!("no thread to read the key: {error}")))?;
    let line = line.recv_timeout(KEY_PATIENCE).ok().and_then(Result::ok).unwrap_or_default();
    Key::from_hex(&line).map_err(|_| {
        Failure::usage(format!(
            "{KEY_VARIABLE} did not arrive here: the launcher passes neither the environment nor standard input on; \
             for mpirun add -x {KEY_VARIABLE}, for pdsh by ssh have sshd accept it (AcceptEnv) and ssh send it \
             (SendEnv)"
        ))
    })
}

/// Commands that measure would disturb each other as ranks of one job: rank 0 says what to do, all end with 2.
pub(super) fn refused_in_job(command: &Command) -> Option<Result<u8, Failure>> {
    let name = match command {
        Command::Run(_) => "run",
        Command::Disk(_) => "disk",
        Command::Load(_) => "load",
        Command::Memory(_) => "memory",
        Command::Network(_) => "network",
        Command::Wall(_) => "wall",
        Command::Tune(_) => "tune",
        Command::Watch(_) => "watch",
        _ => return None,
    };
    refused_by_job(name)
}

/// The same for the command of this name.
pub(super) fn refused_by_job(name: &str) -> Option<Result<u8, Failure>> {
    let job = JobRank::of_this_process().filter(JobRank::is_one_of_several)?;
    Some(if job.rank == 0 { Err(Failure::usage(job.refusal(name))) } else { Ok(2) })
}
