//! Which agent a run talks to. `--peer` names one, or `ssh://[USER@]HOST[:PORT]` one that is started for this
//! run and ends with it; without `--peer` it is one of our own on loopback, a second process, so that its CPU
//! is counted apart.
//!
//! On another host ssh admits us; the key of the control channel is made here and goes over ssh's standard
//! input, so that no list of processes shows it. The agent listens on a port that its kernel picks and ends
//! when its standard input does: also when we are killed.
//!
//! The key of our own agent goes over its standard input, which no other user can read (unlike arguments and
//! environment); the address that it got comes back as a line. It ends when its standard input does: so also
//! when we are killed.

use super::host::AgentSettings;
use super::secret::SECRET_BYTES;
use super::server::{Agent, begin};
use super::{DEFAULT_PORT, Key};
use crate::address::{resolve_host, resolve_named};
use crate::ssh::{SshEnd, SshHost, SshProgram, SshProgramError};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// An agent to connect to. One that was started over ssh ends when this is dropped.
pub struct Peer {
    pub address: SocketAddr,
    pub key: Key,
    _launched: Option<SshAgent>,
}

/// The agents that were named with `--peer`: all names are read before anything is done, then agents are
/// started where `ssh://` asks for it. The key is asked for only where somebody else has started the agent.
/// `stop` (Ctrl-C) ends the waiting.
pub fn find_peers(peers: &[String], key_file: Option<&Path>, stop: &Stop) -> Result<Vec<Peer>, Failure> {
    enum Named {
        Address(SocketAddr),
        Ssh(SshHost),
    }
    let named: Vec<Named> = peers
        .iter()
        .map(|text| match SshHost::parse(text).map_err(|why| Failure::Usage(format!("--peer {why}")))? {
            Some(host) => Ok(Named::Ssh(host)),
            None => resolve_named("--peer", text, DEFAULT_PORT).map(Named::Address),
        })
        .collect::<Result<_, Failure>>()?;
    let shared = match named.iter().any(|name| matches!(name, Named::Address(_))) {
        true => Some(Key::find(key_file)?),
        false => None,
    };
    let ready = named.into_iter().filter_map(|name| match name {
        Named::Address(address) => shared.clone().map(|key| Ok(Peer { address, key, _launched: None })),
        Named::Ssh(host) => Some(start_agent(&host, stop).map(|(address, key, agent)| Peer {
            address,
            key,
            _launched: Some(agent),
        })),
    });
    ready.collect()
}

/// What runs there. Quoted: to some shells brackets are a pattern.
const OWN_AGENT_COMMAND: &str = "linerate agent --own --listen '[::]:0'";
/// Logging in and starting the program may take so long in all.
const SSH_START: Duration = Duration::from_secs(15);

const LOOK: Duration = Duration::from_millis(20);
/// A greeting of the host may come before the address, at most this much.
const LARGEST_SSH_OUTPUT_BYTES: u64 = 64 << 10;

/// An agent that was started over ssh; dropping this ends it.
pub(crate) struct SshAgent {
    _program: SshProgram,
    _stdin: ChildStdin,
}

/// Logs in, starts an agent with a key for this one run, learns where it listens as this host reaches it.
fn start_agent(host: &SshHost, stop: &Stop) -> Result<(SocketAddr, Key, SshAgent), Failure> {
    let key = Key::random()?;
    let (mut program, mut stdin, stdout) =
        SshProgram::start(host, OWN_AGENT_COMMAND).map_err(|error| lacks(host, error))?;
    let announced = address_in(stdout, LARGEST_SSH_OUTPUT_BYTES)
        .map_err(|error| lacks(host, SshProgramError::NoThread(error)))?;
    // If it has ended already, its complaint says why.
    let _ = writeln!(stdin, "{}", key.to_hex()).and_then(|()| stdin.flush());
    let listens = await_address(host, &mut program, &announced, stop)?;
    let address = resolve_host(&host.host, listens.port(), stop).map_err(|why| {
        let host_name = &host.host;
        lacks(
            host,
            format!(
                "ssh reaches it, but {host_name} has no address for data: {why}; an alias of ssh's configuration \
                 is none"
            ),
        )
    })?;
    Ok((address, key, SshAgent { _program: program, _stdin: stdin }))
}

/// What failed on the way there, with what else the user can do.
fn lacks(host: &SshHost, why: impl Display) -> Failure {
    Failure::Lacks(format!(
        "--peer {host}: {why}; or start `linerate agent` there yourself and give --peer {}",
        host.host
    ))
}

fn await_address(
    host: &SshHost,
    program: &mut SshProgram,
    announced: &Receiver<SocketAddr>,
    stop: &Stop,
) -> Result<SocketAddr, Failure> {
    let began = clock::now();
    while clock::since(began) < SSH_START {
        let ended = program.ended();
        if let Ok(address) = announced.try_recv() {
            return Ok(address);
        }
        if let Some(status) = ended {
            return Err(lacks(host, why_it_ended(program.why_it_ended(status))));
        }
        if stop.wait(LOOK) {
            return Err(Failure::Interrupted);
        }
    }
    Err(lacks(
        host,
        format!(
            "no agent there reported its port within {} s{}; does ssh, or a login script there, wait for something? Try \
             `ssh -o BatchMode=yes {} linerate --version`",
            SSH_START.as_secs(),
            program.complaints(),
            host.host
        ),
    ))
}

fn why_it_ended(end: SshEnd) -> String {
    match end {
        SshEnd::Status { status: 0, complaints } => format!(
            "what ran there ended without telling a port{complaints}: is `linerate` there this program, of this \
             version?"
        ),
        end => end.to_string(),
    }
}

/// Before the address, on the line that tells it.
const ADDRESS_PREFIX: &str = "linerate agent listens on ";
/// A process that has not printed its address by then never will.
const OWN_AGENT_START: Duration = Duration::from_secs(5);
/// An agent of somebody's own without a session for this long ends.
const OWN_AGENT_IDLE: Duration = Duration::from_secs(120);
/// It is looked for sessions this often; the shortest take longer.
const SESSIONS_LOOK: Duration = Duration::from_secs(1);
/// The address comes within this much output.
const LARGEST_OUTPUT_BYTES: u64 = 4096;

/// The agent process; dropping this ends it.
pub struct OwnAgent {
    child: Child,
    _stdin: ChildStdin,
    address: SocketAddr,
    key: Key,
}

impl OwnAgent {
    /// Starts this program again as `agent --listen 127.0.0.1:0 --own`.
    pub fn start() -> Result<OwnAgent, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            Failure::Lacks(format!(
                "the receiver on loopback cannot start: linerate's own file is not to be found: {error}"
            ))
        })?;
        let mut command = Command::new(program);
        command.args(["agent", "--listen", "127.0.0.1:0", "--own"]);
        OwnAgent::start_command(command)
    }

    /// Starts a command that behaves like `agent --own`.
    pub fn start_command(mut command: Command) -> Result<OwnAgent, Failure> {
        let lacks = |why: String| {
            Failure::Lacks(format!(
                "the receiver on loopback cannot start: {why}; name another host with --peer"
            ))
        };
        let key = Key::random()?;
        // A group of its own: Ctrl-C at our terminal is for us; the receiver is needed until the results are
        // saved.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.env_remove(super::KEY_VARIABLE);
        let mut child = command.spawn().map_err(|error| lacks(error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let started = match pipes {
            (Some(mut stdin), Some(stdout)) => writeln!(stdin, "{}", key.to_hex())
                .map_err(|error| format!("it took no key: {error}"))
                .and_then(|()| read_address(stdout))
                .map(|address| (stdin, address)),
            _ => Err("it has no pipes".into()),
        };
        match started {
            Ok((stdin, address)) => Ok(OwnAgent { child, _stdin: stdin, address, key }),
            Err(why) => {
                end(&mut child);
                Err(lacks(why))
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its key, made for this one process.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its process number.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for OwnAgent {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The address that an agent tells in its first `most_bytes` of output, once it is there: read on a thread, because a
/// pipe has no timeout, which then swallows what may come, so that nobody there waits for us.
fn address_in(output: impl Read + Send + 'static, most_bytes: u64) -> io::Result<Receiver<SocketAddr>> {
    let (sender, address) = channel();
    let read = move || {
        let mut output = BufReader::new(output);
        let mut lines = (&mut output).take(most_bytes).split(b'\n').map_while(Result::ok);
        let address = lines.find_map(|line| {
            String::from_utf8_lossy(&line).trim().strip_prefix(ADDRESS_PREFIX)?.trim().parse().ok()
        });
        let _ = address.map(|address| sender.send(address));
        drop((lines, sender));
        let _ = io::copy(&mut output, &mut io::sink());
    };
    std::thread::Builder::new().name("address".into()).spawn(read).map(|_| address)
}

/// Waits for the line with the address.
fn read_address(output: impl Read + Send + 'static) -> Result<SocketAddr, String> {
    let address = address_in(output, LARGEST_OUTPUT_BYTES).map_err(|error| error.to_string())?;
    address.recv_timeout(OWN_AGENT_START).map_err(|error| match error {
        RecvTimeoutError::Disconnected => "it ended without telling its address".into(),
        RecvTimeoutError::Timeout => format!("it gave no address within {} s", OWN_AGENT_START.as_secs()),
    })
}

/// `linerate agent --own`: key from standard input, address to standard output, then serves until standard
/// input closes.
pub fn serve_own(listen: &[SocketAddr], settings: AgentSettings) -> Result<(), Failure> {
    serve_own_on(BufReader::new(io::stdin()), io::stdout(), listen, settings)
}

/// As [`serve_own`], on other ends than the standard ones.
pub fn serve_own_on(
    mut input: impl BufRead + Send + 'static,
    mut output: impl Write,
    listen: &[SocketAddr],
    settings: AgentSettings,
) -> Result<(), Failure> {
    let mut line = String::new();
    let read = (&mut input).take(2 * SECRET_BYTES as u64 + 2).read_line(&mut line);
    read.map_err(|error| Failure::Usage(format!("--own reads its key from standard input: {error}")))?;
    let key = Key::from_hex(&line).map_err(|why| {
        Failure::Usage(format!(
            "--own reads its key from standard input: {why}; it is for linerate's own use"
        ))
    })?;
    let agent = Agent::bind(listen, key, settings)?;
    let address = agent.local_addresses().first().copied();
    let address = address.ok_or_else(|| Failure::Lacks("the agent has no address to listen on".into()))?;
    writeln!(output, "{ADDRESS_PREFIX}{address}").and_then(|()| output.flush()).map_err(|error| {
        Failure::Lacks(format!("the agent cannot report its address on standard output: {error}"))
    })?;
    let stop = Arc::new(Stop::new());
    stop.end_with(input)
        .map_err(|error| Failure::Lacks(format!("the agent cannot start a thread: {error}")))?;
    std::thread::scope(|scope| {
        begin(scope, || end_when_forgotten(&agent, &stop))?;
        agent.serve(&stop);
        Ok(())
    })
}

/// A client host that lost its power closes no pipe: without a session for this long nobody will come any
/// more.
fn end_when_forgotten(agent: &Agent, stop: &Stop) {
    let mut alone = clock::now();
    while !stop.wait(SESSIONS_LOOK) {
        if agent.load().0 > 0 {
            alone = clock::now();
        }
        if clock::since(alone) > OWN_AGENT_IDLE {
            stop.end();
        }
    }
}
