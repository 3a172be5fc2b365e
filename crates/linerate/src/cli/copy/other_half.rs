//! The half of a copy on the other host, where ssh starts it: what is wanted goes there, and it reports until it ends.

use super::message::{Greeting, HalfEnd, HalfRequest, Message, ReadyHalf};
use linerate_facts::failure::Failure;
use linerate_machine::probe::network_contains;
use linerate_system::addresses::{InterfaceAddress, interface_addresses};
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use linerate_transport::address::resolve_all;
use linerate_transport::ssh::{BringError, SshEnd, SshHost, SshProgram};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

/// What runs there.
const COMMAND: &str = "linerate copy-half";
/// The same, of this program where it is brought there.
const WORDS: &str = "copy-half";
/// Logging in and starting the program may take so long in all.
const START: Duration = Duration::from_secs(15);
/// The other host says something each second: after this long it is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// How often it hears of us.
const ALIVE: Duration = Duration::from_secs(5);
/// Once it is to end it has this long to say what came of it; after Ctrl-C the shorter one.
const PATIENCE: Duration = Duration::from_secs(10);
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// ssh has this long to end once nothing comes from it any more.
const ENDING: Duration = Duration::from_millis(500);
/// One of its addresses has this long to answer.
const CONNECT: Duration = Duration::from_secs(3);
/// … and this long once another has.
const LATER: Duration = Duration::from_millis(250);
/// Addresses beside those of its name that are tried.
const MOST_ADDRESSES: usize = 16;
/// A greeting of the host may come before ours, at most this much.
const LARGEST_GREETING_BYTES: u64 = 64 << 10;
/// A result without the files beyond those that are kept of it, with the machine in it.
const LARGEST_MESSAGE_BYTES: u64 = 16 << 20;
/// Messages that wait here.
const WAITING_MESSAGES: usize = 4;

/// It is connected, and understands us.
pub(super) struct OtherHalf<'a> {
    host: &'a SshHost,
    program: SshProgram,
    /// Dropped, the input there ends, and with it the half.
    here: Option<Sender<()>>,
    received: Receiver<Received>,
}

/// A line from there.
enum Received {
    Greeting(Greeting),
    Message(Message),
    /// It is none of ours.
    Unknown,
}

/// Why nothing is known of its end.
#[derive(Debug)]
pub(super) enum NoEnd {
    /// It reported why it could not begin.
    Refused(Failure),
    Lost(String),
}

impl<'a> OtherHalf<'a> {
    /// Logs in, `brings` this program there or has what is installed there begin; what it listens on.
    pub(super) fn start(
        host: &'a SshHost,
        brings: bool,
        request: &HalfRequest,
        stop: &Stop,
    ) -> Result<(Self, ReadyHalf), Failure> {
        let (program, stdin, stdout) = match brings {
            true => SshProgram::bring(host, WORDS, stop).map_err(|why| match why {
                BringError::Interrupted => Failure::Interrupted,
                why => lacks(host, why),
            })?,
            false => SshProgram::start(host, COMMAND).map_err(|why| lacks(host, why))?,
        };
        let no_thread = |error: io::Error| lacks(host, format!("no thread to talk to ssh: {error}"));
        let mut line = serde_json::to_vec(request).map_err(|why| lacks(host, why))?;
        line.push(b'\n');
        let here = speak(stdin, line).map_err(no_thread)?;
        let received = listen(stdout).map_err(no_thread)?;
        let mut half = OtherHalf { host, program, here: Some(here), received };
        match half.first(stop)? {
            Received::Greeting(greeting) => greeting.check().map_err(|why| lacks(host, why))?,
            _ => return Err(half.speaks_nonsense()),
        }
        loop {
            match half.first(stop)? {
                Received::Message(Message::Ready(ready)) => return Ok((half, ready)),
                Received::Message(Message::Alive) => {}
                Received::Message(Message::Refused { status, sentence }) => {
                    return Err(refused(host, status, &sentence));
                }
                _ => return Err(half.speaks_nonsense()),
            }
        }
    }

    /// What comes first, or why nothing does.
    fn first(&mut self, stop: &Stop) -> Result<Received, Failure> {
        let began = clock::now();
        while clock::since(began) < START {
            let ended = self.program.ended();
            match self.received.recv_timeout(POLL_INTERVAL) {
                Ok(received) => return Ok(received),
                Err(_) if stop.is_ended() => return Err(Failure::Interrupted),
                Err(RecvTimeoutError::Disconnected) if ended.is_none() => {
                    stop.wait(POLL_INTERVAL);
                }
                Err(_) => {}
            }
            if let Some(status) = ended {
                return Err(lacks(self.host, why_it_ended(self.program.why_it_ended(status))));
            }
        }
        let (seconds, complaints) = (START.as_secs(), self.program.complaints());
        Err(lacks(
            self.host,
            format!(
                "linerate there did not answer within {seconds} s{complaints}; does ssh, or a login script there, wait for \
                 something? Try `ssh -o BatchMode=yes {} linerate --version`",
                self.host.host
            ),
        ))
    }

    fn speaks_nonsense(&self) -> Failure {
        lacks(self.host, "what it sends is not a message of linerate; is `linerate` there this program?")
    }

    /// Its addresses for files: those that answer of its name's, of the one that ssh came to, and of those in a network of a
    /// NIC here. A host that is named by an address has that one alone.
    pub(super) fn reachable(&self, ready: &ReadyHalf, stop: &Stop) -> Result<Vec<SocketAddr>, Failure> {
        let mut all = resolve_all(&self.host.host, ready.port, stop).unwrap_or_default();
        if self.host.host.parse::<IpAddr>().is_err() {
            let near = near_addresses(&ready.addresses, &interface_addresses().unwrap_or_default());
            for address in ready.address.into_iter().chain(near).take(MOST_ADDRESSES) {
                let address = SocketAddr::new(address, ready.port);
                all.extend((!all.contains(&address)).then_some(address));
            }
        }
        let (answered, failed) = who_answers(&all);
        if !answered.is_empty() {
            return Ok(answered);
        }
        let why = if failed.is_empty() { "its name has no address here".into() } else { failed.join(", ") };
        Err(lacks(
            self.host,
            format!(
                "ssh reaches it, but its port for files does not answer ({why}); does a firewall there drop it?"
            ),
        ))
    }

    /// Until it has reported its end: `hear` sees what it reports, `is_over` is when it is to end. After Ctrl-C, which
    /// `stop` is, it ends as well.
    pub(super) fn follow(
        &mut self,
        stop: &Stop,
        is_over: impl Fn() -> bool,
        mut hear: impl FnMut(Message),
    ) -> Result<HalfEnd, NoEnd> {
        let (mut last_message, mut ends) = (clock::now(), None::<(Instant, Duration)>);
        loop {
            if self.here.is_some() && (stop.is_ended() || is_over()) {
                let patience = if stop.is_ended() { SHORT_PATIENCE } else { PATIENCE };
                (self.here, ends) = (None, Some((clock::now(), patience)));
            }
            match self.received.recv_timeout(POLL_INTERVAL) {
                Ok(Received::Message(Message::Ended(end))) => return Ok(*end),
                Ok(Received::Message(Message::Refused { status, sentence })) => {
                    return Err(NoEnd::Refused(refused(self.host, status, &sentence)));
                }
                Ok(Received::Message(message)) => {
                    last_message = clock::now();
                    hear(message);
                }
                Ok(_) => return Err(NoEnd::Lost("what it sends is not a message of linerate".into())),
                Err(RecvTimeoutError::Disconnected) => return Err(NoEnd::Lost(self.why_it_broke_off())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if clock::since(last_message) > SILENCE {
                let seconds = SILENCE.as_secs();
                let why = format!(
                    "no message came from there for {seconds} s: is the host up, and the network between?"
                );
                return Err(NoEnd::Lost(why));
            }
            if ends.is_some_and(|(since, patience)| clock::since(since) > patience) {
                return Err(NoEnd::Lost("no message of its end came".into()));
            }
        }
    }

    fn why_it_broke_off(&mut self) -> String {
        let status = self.program.ended_within(ENDING);
        let how = status.map_or("its output ended".to_string(), |status| format!("ssh ended with {status}"));
        how + &self.program.complaints()
    }
}

/// Of the other host's addresses those in a network of a NIC here; one of a network that both hosts have for themselves,
/// such as that of containers, is mostly this host's own as well.
fn near_addresses(theirs: &[IpAddr], own: &[InterfaceAddress]) -> Vec<IpAddr> {
    let is_own = |address: IpAddr| own.iter().any(|one| one.address == address);
    let is_near = |address: IpAddr| own.iter().any(|one| network_contains(one.address, one.prefix, address));
    theirs.iter().copied().filter(|address| !is_own(*address) && is_near(*address)).collect()
}

/// Those of these addresses that answer, in their order, and why the others do not. All are tried at once; those that are
/// far later than another are not waited for.
fn who_answers(all: &[SocketAddr]) -> (Vec<SocketAddr>, Vec<String>) {
    let (sender, answers) = channel();
    for address in all.iter().copied() {
        let sender = sender.clone();
        let try_it = move || {
            let _ = sender.send((address, TcpStream::connect_timeout(&address, CONNECT).map(drop)));
        };
        // Without a thread it is one that does not answer.
        let _ = std::thread::Builder::new().name("connect".into()).spawn(try_it);
    }
    drop(sender);
    let (mut answered, mut failures) = (Vec::new(), Vec::new());
    while let Ok((address, result)) =
        answers.recv_timeout(if answered.is_empty() { 2 * CONNECT } else { LATER })
    {
        match result {
            Ok(()) => answered.push(address),
            Err(error) => failures.push(format!("{address}: {error}")),
        }
    }
    (all.iter().copied().filter(|address| answered.contains(address)).collect(), failures)
}

/// What failed before it began.
pub(super) fn lacks(host: &SshHost, why: impl Display) -> Failure {
    Failure::Lacks(format!("{host}: {why}"))
}

/// In the words of the other half, with its exit status.
fn refused(host: &SshHost, status: u8, sentence: &str) -> Failure {
    let sentence = format!("{host}: {sentence}");
    match status {
        1 => Failure::Interrupted,
        2 => Failure::Usage(sentence),
        _ => Failure::Lacks(sentence),
    }
}

/// Sends what is wanted, and signs of life until what this gives is dropped: then the other end's input ends.
fn speak(mut stdin: ChildStdin, request: Vec<u8>) -> io::Result<Sender<()>> {
    let (here, over) = channel();
    let speak = move || {
        // What has ended already says why on its standard error.
        let mut sent = stdin.write_all(&request).and_then(|()| stdin.flush());
        while sent.is_ok() && over.recv_timeout(ALIVE) == Err(RecvTimeoutError::Timeout) {
            sent = stdin.write_all(b"\n").and_then(|()| stdin.flush());
        }
    };
    std::thread::Builder::new().name("ssh".into()).spawn(speak)?;
    Ok(here)
}

fn listen(stdout: ChildStdout) -> io::Result<Receiver<Received>> {
    let (sender, received) = sync_channel(WAITING_MESSAGES);
    let thread = std::thread::Builder::new().name("ssh".into());
    thread.spawn(move || read_lines(BufReader::new(stdout), &sender))?;
    Ok(received)
}

/// Ends where nobody wants them any more, or there are no more.
fn read_lines(mut input: impl BufRead, sender: &SyncSender<Received>) {
    let mut lines = (&mut input).take(LARGEST_GREETING_BYTES).split(b'\n').map_while(Result::ok);
    let greeting = lines.find_map(|line| Greeting::parse(&String::from_utf8_lossy(&line)));
    drop(lines);
    let Some(greeting) = greeting else {
        // Swallowed, so that it comes to its own end, which says more.
        let _ = io::copy(&mut input, &mut io::sink());
        return;
    };
    let mut sent = sender.send(Received::Greeting(greeting));
    let mut line = Vec::new();
    while sent.is_ok() {
        line.clear();
        if !matches!((&mut input).take(LARGEST_MESSAGE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        sent = match serde_json::from_slice(&line) {
            Ok(message) => sender.send(Received::Message(message)),
            // The last one may be half.
            Err(_) if line.last() != Some(&b'\n') => return,
            Err(_) => sender.send(Received::Unknown),
        };
    }
}

fn why_it_ended(end: SshEnd) -> String {
    match end {
        // Wrong use: it does not know the command.
        SshEnd::Status { status: 0 | 2, complaints } => {
            format!(
                "linerate there is another version, or another program{complaints}: install the same on both"
            )
        }
        end @ SshEnd::NotInstalled { .. } => {
            format!("{end}; or --bring takes it there for the time of the copy")
        }
        end => end.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(text: &str) -> Vec<Received> {
        let (sender, received) = sync_channel(100);
        read_lines(text.as_bytes(), &sender);
        drop(sender);
        received.iter().collect()
    }

    #[test]
    fn an_address_is_near_in_a_network_of_a_nic_here_and_not_this_hosts_own() {
        let one = |address: &str, prefix| InterfaceAddress {
            interface: "eth0".into(),
            address: address.parse().expect("an address"),
            prefix,
        };
        let own = [one("192.0.2.7", 24), one("172.17.0.1", 16), one("2001:db8::7", 64)];
        let theirs = ["198.51.100.9", "192.0.2.9", "172.17.0.1", "2001:db8::9", "2001:db8:1::9"];
        let theirs = theirs.map(|text| text.parse::<IpAddr>().expect("an address"));
        assert_eq!(near_addresses(&theirs, &own), [theirs[1], theirs[3]]);
        assert!(near_addresses(&theirs, &[]).is_empty());
    }

    #[test]
    fn what_comes_before_the_greeting_is_the_hosts_and_what_comes_after_has_to_be_ours() {
        let greeting = Greeting::own().line();
        let all = received(&format!(
            "Welcome!\n{greeting}\"alive\"\n{{\"refused\":{{\"status\":3,\"sentence\":\"why\"}}}}\n{{\"pri"
        ));
        assert_eq!(all.len(), 3, "half a message is none");
        assert!(matches!(all[0], Received::Greeting(_)));
        assert!(matches!(all[2], Received::Message(Message::Refused { status: 3, .. })));
        assert!(received("\"alive\"\n").is_empty(), "nothing without a greeting");
        assert!(matches!(received(&format!("{greeting}x\n"))[1], Received::Unknown));
    }

    #[test]
    fn a_message_without_an_end_takes_no_more_than_the_largest_one() {
        let (sender, received) = sync_channel(100);
        let text = Greeting::own().line();
        // Endless: a reader that wanted its end would never come back.
        let endless = io::repeat(b'x').take(3 * LARGEST_MESSAGE_BYTES);
        read_lines(BufReader::new(text.as_bytes().chain(endless)), &sender);
        drop(sender);
        assert_eq!(received.iter().count(), 1, "the greeting");
    }
}
