//! `--on HOST`: the command is done on another host, where ssh starts it. What it prints, says, shows and keeps comes
//! here; Ctrl-C here ends it there.

mod message;
pub(super) mod terminal;
mod there;

use super::arguments::Command;
use super::output::Output;
use super::progress::Progress;
use super::saving::keep;
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::ssh::{SshEnd, SshHost, SshProgram};
use message::{Greeting, Message, write_words};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};
pub(super) use there::remote_command;

/// What runs there.
const COMMAND: &str = "linerate remote-command";
/// The option.
const ON: &str = "--on";
/// Logging in and starting the program may take so long in all.
const START: Duration = Duration::from_secs(15);
/// The other host says something each second: after this long it is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// How often it hears of us.
const ALIVE: Duration = Duration::from_secs(5);
/// After Ctrl-C it has this long to say what became of it; a `put` that aborts its uploads the longer one.
const PATIENCE: Duration = Duration::from_secs(2);
const PUT_PATIENCE: Duration = Duration::from_secs(6);
/// ssh has this long to end once nothing comes from it any more.
const ENDING: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
/// A greeting of the host may come before ours, at most this much.
const LARGEST_GREETING_BYTES: u64 = 64 << 10;
/// A result has 64 MiB at most, and its text some more in a message.
const LARGEST_MESSAGE_BYTES: u64 = 160 << 20;
/// Messages that wait for the terminal here.
const WAITING_MESSAGES: usize = 16;

/// Where the command is to be done instead, and what it is called.
pub(super) fn asked_for(command: &Command) -> Option<(&SshHost, &'static str)> {
    let (on, name) = match command {
        Command::Get(args) => (&args.transfer.on, "get"),
        Command::Put(args) => (&args.transfer.on, "put"),
        Command::Serve(args) => (&args.on, "serve"),
        _ => return None,
    };
    on.as_ref().map(|host| (host, name))
}

/// Has the command of this process done on that host; its exit status.
pub(super) fn run_on(host: &SshHost, name: &'static str, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let (mut program, stdin, stdout) = SshProgram::start(host, COMMAND).map_err(|why| lacks(host, why))?;
    let no_thread = |error: io::Error| lacks(host, format!("no thread to talk to ssh: {error}"));
    let here = speak(stdin, words_without_on(std::env::args_os().skip(1))).map_err(no_thread)?;
    let received = listen(stdout).map_err(no_thread)?;
    await_greeting(host, &mut program, &received, &stop)?;
    RemoteRun { host, name, output, program, here: Some(here), progress: None }.follow(&received, &stop)
}

/// What failed before it began, with what else the user can do.
fn lacks(host: &SshHost, why: impl Display) -> Failure {
    Failure::Lacks(format!("{ON} {host}: {why}; or log in there and start the command yourself"))
}

/// The words of this process, to be done there.
fn words_without_on(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut options, mut follows) = (Vec::new(), true, false);
    for word in args {
        let is_value = std::mem::take(&mut follows);
        let with_value = word.as_bytes().starts_with(b"--on=");
        options &= word != OsStr::new("--");
        follows = options && !is_value && word == OsStr::new(ON);
        if !(is_value || follows || options && with_value) {
            kept.push(word);
        }
    }
    kept
}

/// Sends the words, and signs of life until what this gives is dropped: then the other end's input ends.
fn speak(mut stdin: ChildStdin, args: Vec<OsString>) -> io::Result<Sender<()>> {
    let (here, over) = channel();
    let speak = move || {
        // What has ended already says why on its standard error.
        let mut sent = write_words(&mut stdin, &args);
        while sent.is_ok() && over.recv_timeout(ALIVE) == Err(RecvTimeoutError::Timeout) {
            sent = stdin.write_all(b"\n").and_then(|()| stdin.flush());
        }
    };
    std::thread::Builder::new().name("ssh".into()).spawn(speak)?;
    Ok(here)
}

/// A line from there.
enum Received {
    Greeting(Greeting),
    Message(Message),
    /// It is none of ours.
    Unknown,
}

fn listen(stdout: ChildStdout) -> io::Result<Receiver<Received>> {
    let (tell, told) = sync_channel(WAITING_MESSAGES);
    let thread = std::thread::Builder::new().name("ssh".into());
    thread.spawn(move || read_lines(BufReader::new(stdout), &tell))?;
    Ok(told)
}

/// Ends where nobody wants them any more, or there are no more.
fn read_lines(mut input: impl BufRead, tell: &SyncSender<Received>) {
    let mut lines = (&mut input).take(LARGEST_GREETING_BYTES).split(b'\n').map_while(Result::ok);
    let greeting = lines.find_map(|line| Greeting::parse(&String::from_utf8_lossy(&line)));
    drop(lines);
    let Some(greeting) = greeting else {
        // Swallowed, so that it comes to its own end, which says more.
        let _ = io::copy(&mut input, &mut io::sink());
        return;
    };
    let mut sent = tell.send(Received::Greeting(greeting));
    let mut line = Vec::new();
    while sent.is_ok() {
        line.clear();
        if !matches!((&mut input).take(LARGEST_MESSAGE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        sent = match serde_json::from_slice(&line) {
            Ok(message) => tell.send(Received::Message(message)),
            // The last one may be half.
            Err(_) if line.last() != Some(&b'\n') => return,
            Err(_) => tell.send(Received::Unknown),
        };
    }
}

fn await_greeting(
    host: &SshHost,
    program: &mut SshProgram,
    received: &Receiver<Received>,
    stop: &Stop,
) -> Result<(), Failure> {
    let began = clock::now();
    while clock::since(began) < START {
        let ended = program.ended();
        match received.recv_timeout(LOOK) {
            Ok(Received::Greeting(greeting)) => return greeting.check().map_err(|why| lacks(host, why)),
            Ok(_) => break,
            Err(_) => {}
        }
        if let Some(status) = ended {
            return Err(lacks(host, why_it_ended(program.why_it_ended(status))));
        }
        if stop.is_ended() {
            return Err(Failure::Interrupted);
        }
    }
    let (seconds, complaints) = (START.as_secs(), program.complaints());
    Err(lacks(
        host,
        format!(
            "linerate there did not answer within {seconds} s{complaints}; does ssh, or a login script there, wait for \
             something? Try `ssh -o BatchMode=yes {} linerate --version`",
            host.host
        ),
    ))
}

fn why_it_ended(end: SshEnd) -> String {
    match end {
        // Wrong use: it does not know the command.
        SshEnd::Status { status: 0 | 2, complaints } => {
            format!(
                "linerate there is another version, or another program{complaints}: install the same on both"
            )
        }
        end => end.to_string(),
    }
}

/// A command that is done there.
struct RemoteRun<'a> {
    host: &'a SshHost,
    name: &'static str,
    output: &'a Output,
    program: SshProgram,
    /// Dropped, the input there ends, and with it the command.
    here: Option<Sender<()>>,
    progress: Option<Progress>,
}

impl RemoteRun<'_> {
    /// Until it ends, is ended, or is lost.
    fn follow(mut self, received: &Receiver<Received>, stop: &Stop) -> Result<u8, Failure> {
        let patience = if self.name == "put" { PUT_PATIENCE } else { PATIENCE };
        let (mut heard, mut stopped) = (clock::now(), None);
        loop {
            if stop.is_ended() && stopped.is_none() {
                (self.here, stopped) = (None, Some(clock::now()));
            }
            match received.recv_timeout(LOOK) {
                Ok(Received::Message(message)) => {
                    heard = clock::now();
                    if let Some(status) = self.hear(message)? {
                        return Ok(status);
                    }
                }
                Ok(_) => return Ok(self.lost("what it sends is no message of linerate", stopped)),
                Err(RecvTimeoutError::Disconnected) => {
                    let why = self.why_it_broke_off();
                    return Ok(self.lost(&why, stopped));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if clock::since(heard) > SILENCE {
                let why = format!(
                    "nothing was heard from there for {} s: is the host up, and the network between?",
                    SILENCE.as_secs()
                );
                return Ok(self.lost(&why, stopped));
            }
            if stopped.is_some_and(|since| clock::since(since) > patience) {
                return Ok(self.lost("interrupted, and nothing was heard of its end", None));
            }
        }
    }

    /// Shows what came; the exit status, once it has ended.
    fn hear(&mut self, message: Message) -> Result<Option<u8>, Failure> {
        match message {
            Message::Alive => {}
            Message::Reached { how_far, seconds_left } => {
                let progress = self.progress.get_or_insert_with(|| Progress::line(self.name, self.output));
                progress.reached(printable(&how_far), seconds_left);
            }
            Message::Print(text) => {
                self.progress = None;
                self.output.print(&shown(text))?;
            }
            Message::Tell(line) => self.output.tell(&line),
            Message::Keep(run) => drop(keep(&run, self.output)),
            Message::End { status } => return Ok(Some(status)),
        }
        Ok(None)
    }

    fn why_it_broke_off(&mut self) -> String {
        let patience = clock::now() + ENDING;
        let status = loop {
            match self.program.ended() {
                None if clock::now() < patience => clock::sleep(LOOK),
                status => break status,
            }
        };
        let how = status.map_or("its output ended".to_string(), |status| format!("ssh ended with {status}"));
        how + &self.program.complaints()
    }

    /// Nothing more comes; after Ctrl-C that is as it was asked for.
    fn lost(&mut self, why: &str, stopped: Option<Instant>) -> u8 {
        self.progress = None;
        if stopped.is_none() {
            let again = match self.name {
                "get" => "the same command goes on where it ended",
                "put" => "the same command puts what is not there yet",
                _ => "start it again",
            };
            let sentence = format!("{ON} {}: the {} there broke off: {why}; {again}", self.host, self.name);
            self.output.complain(&sentence);
        }
        1
    }
}

/// As this terminal can show it, whatever the other host sends; a file or a pipe gets it as it is.
fn shown(text: String) -> String {
    if !io::stdout().is_terminal() {
        return text;
    }
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => printable(line) + "\n",
            None => printable(line),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_goes_and_all_other_words_stay() {
        for (args, kept) in [
            ("get --on h http://x/f --output o", "get http://x/f --output o"),
            ("--log f get http://x/f --on=h", "--log f get http://x/f"),
            ("put --on --on-h --only f http://x/", "put --only f http://x/"),
            ("put --on h -- --on --on=x http://x/", "put -- --on --on=x http://x/"),
        ] {
            let split = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(words_without_on(split(args).into_iter()), split(kept), "{args}");
        }
    }

    fn received(text: &str) -> Vec<Received> {
        let (tell, told) = sync_channel(100);
        read_lines(text.as_bytes(), &tell);
        drop(tell);
        told.iter().collect()
    }

    #[test]
    fn what_comes_before_the_greeting_is_the_hosts_and_what_comes_after_has_to_be_ours() {
        let greeting = Greeting::own().line();
        let all = received(&format!("Welcome!\n{greeting}\"alive\"\n{{\"end\":{{\"status\":3}}}}\n{{\"pri"));
        assert_eq!(all.len(), 3, "half a message is none");
        assert!(matches!(all[0], Received::Greeting(_)));
        assert!(matches!(all[2], Received::Message(Message::End { status: 3 })));
        assert!(received("\"alive\"\n").is_empty(), "nothing without a greeting");
        assert!(matches!(received(&format!("{greeting}x\n"))[1], Received::Unknown));
    }
}
