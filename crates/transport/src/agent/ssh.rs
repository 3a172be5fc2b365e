//! `--peer ssh://[USER@]HOST[:PORT]`: an agent that is started over ssh for one run, and ends with it.
//!
//! ssh admits us there; the key of the control channel is made here and goes over ssh's standard input, so
//! that no list of processes shows it. The agent listens on a port that its kernel picks and ends when its
//! standard input does: also when we are killed.

use super::key::Key;
use super::own::address_in;
use crate::address::resolve_host;
use crate::ssh::{SshEnd, SshHost, SshProgram, SshProgramError};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ChildStdin;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// What runs there. Quoted: to some shells brackets are a pattern.
const COMMAND: &str = "linerate agent --own --listen '[::]:0'";
/// Logging in and starting the program may take so long in all.
const START: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
/// A greeting of the host may come before the address, at most this much.
const LARGEST_OUTPUT_BYTES: u64 = 64 << 10;

/// An agent that was started over ssh; dropping this ends it.
pub(crate) struct SshAgent {
    _program: SshProgram,
    _stdin: ChildStdin,
}

/// Logs in, starts an agent with a key for this one run, learns where it listens as this host reaches it.
pub(crate) fn start_agent(host: &SshHost, stop: &Stop) -> Result<(SocketAddr, Key, SshAgent), Failure> {
    let key = Key::random()?;
    let (mut program, mut stdin, stdout) =
        SshProgram::start(host, COMMAND).map_err(|error| lacks(host, error))?;
    let announced = address_in(stdout, LARGEST_OUTPUT_BYTES)
        .map_err(|error| lacks(host, SshProgramError::NoThread(error)))?;
    // If it has ended already, its complaint says why.
    let _ = writeln!(stdin, "{}", key.to_hex()).and_then(|()| stdin.flush());
    let listens = await_address(host, &mut program, &announced, stop)?;
    let address = resolve_host(&host.host, listens.port()).map_err(|why| {
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
    while clock::since(began) < START {
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
            START.as_secs(),
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
