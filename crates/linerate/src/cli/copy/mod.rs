//! `linerate copy`: files to another host or from it, by a route `SRC… [USER@]HOST:DST` or the other way. ssh
//! starts the other half of the copy there; the half that has the files serves them, the other one fetches
//! them, and what both show says what limited it.

mod copied;
mod halves;
mod message;
mod other_half;
mod there;

#[cfg(any(test, feature = "testing"))]
pub use message::written_again;
pub(super) use there::copy_half;

use super::arguments::CopyArgs;
use super::output::Output;
use super::progress::TransferLines;
use super::stop::{end_what_hangs, stop_on_signals};
use super::transfer::PATIENCE;
use copied::Copied;
use halves::{Sender, Source, in_text, receive, stored_standard_input};
use linerate_deliver::serve::BearerToken;
use linerate_deliver::{DialledConnections, served_run};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::ssh::SshHost;
use message::{HalfEnd, HalfRequest, HalfRole, Message, ReceiveSpec, SendSpec};
use other_half::{NoEnd, OtherHalf};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

/// How often the line of progress is renewed, where nothing else is said.
const EVERY: Duration = Duration::from_secs(1);

/// One copy.
struct Copy<'a> {
    route: CopyRoute,
    args: &'a CopyArgs,
    lines: TransferLines<'a>,
    output: &'a Output,
    token: BearerToken,
    stop: Arc<Stop>,
}

/// Copies, prints, and gives the exit status of the contract.
pub(super) fn copy(args: &CopyArgs, output: &Output) -> Result<u8, Failure> {
    let route = CopyRoute::parse(&args.source, &args.destination)?;
    let token = BearerToken::random().map_err(|error| Failure::Lacks(format!("no token: {error}")))?;
    let stop = stop_on_signals()?;
    let patience = PATIENCE + Duration::from_secs(2);
    end_what_hangs(&stop, patience, output, |output| {
        output.complain("interrupted; the same command goes on where it ended");
    })?;
    let started = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let lines = TransferLines::new("copy", output, &args.transfer);
    let copy = Copy { route, args, lines, output, token, stop };
    let ends = if copy.route.is_push { copy.push() } else { copy.pull() }?;
    drop(copy.lines);
    Copied::new(&copy.route, ends, started, args.dry_run).print(&args.transfer, output)
}

/// The end of the half here, and of the other one, or why that is not known.
type Ends = (HalfEnd, Result<HalfEnd, String>);

impl Copy<'_> {
    fn request(&self, role: HalfRole) -> HalfRequest {
        HalfRequest { role, token: self.token.secret().into(), is_encrypted: !self.args.no_encryption }
    }

    fn send_spec(&self) -> SendSpec {
        SendSpec {
            paths: self.route.sources.clone(),
            is_contents: self.route.is_contents(),
            is_archive: self.args.archive,
        }
    }

    fn receive_spec(&self) -> ReceiveSpec {
        ReceiveSpec {
            destination: self.route.destination.clone(),
            is_contents: self.route.is_contents(),
            is_standard_input: self.route.is_standard_input(),
            is_archive: self.args.archive,
            streams: self.args.streams,
            rate_limit: self.args.transfer.rate_limit,
            excluded: self.args.exclude.clone(),
            replaces: self.args.replace,
            is_dry_run: self.args.dry_run,
            timeout: self.args.transfer.timeout,
        }
    }

    fn every(&self) -> Duration {
        self.args.transfer.interval.unwrap_or(EVERY)
    }

    /// From the other host, which serves.
    fn pull(&self) -> Result<Ends, Failure> {
        let request = self.request(HalfRole::Send(self.send_spec()));
        let (mut other, ready) = OtherHalf::start(&self.route.host, self.args.bring, &request, &self.stop)?;
        if request.is_encrypted != ready.fingerprint.is_some() {
            return Err(other_half::lacks(&self.route.host, "it does not encrypt as it was asked to"));
        }
        let addresses = other.reachable(&ready, &self.stop)?;
        let source =
            Source { addresses, token: self.token.clone(), fingerprint: ready.fingerprint, awaited: None };
        // The other half's death ends this one.
        let ends = Stop::new();
        let (own, other) = std::thread::scope(|scope| {
            let fetch = || {
                let show = |progress: &_| self.lines.show(progress);
                receive(&self.receive_spec(), source, (self.every(), &show), &ends)
            };
            let own = scope.spawn(fetch);
            let hear = |message| self.hear(message, &|_| {});
            let followed = other.follow(&self.stop, || own.is_finished(), hear);
            ends.end();
            (own.join().unwrap_or(Err(Failure::Interrupted)), followed)
        });
        match (own, other) {
            (Ok(own), other) => Ok((own, other.map_err(|why| self.unknown(why)))),
            (Err(Failure::Interrupted), Err(NoEnd::Refused(refused))) => Err(refused),
            (Err(Failure::Interrupted), Err(NoEnd::Lost(why))) if !self.stop.is_ended() => {
                Err(other_half::lacks(&self.route.host, why))
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// To the other host, which fetches over connections that this one opens.
    fn push(&self) -> Result<Ends, Failure> {
        let settings = (self.token.clone(), !self.args.no_encryption);
        let spec = self.send_spec();
        let tree =
            if self.route.is_standard_input() { stored_standard_input(&self.stop) } else { spec.tree() }?;
        let sender = Sender::new(tree, &spec, &[], settings)?;
        let fingerprint = sender.fingerprint.clone();
        let role = HalfRole::Receive { spec: self.receive_spec(), fingerprint, every: self.every() };
        let request = self.request(role);
        let (mut other, ready) = OtherHalf::start(&self.route.host, self.args.bring, &request, &self.stop)?;
        let (dialled, tokens) = DialledConnections::to(other.reachable(&ready, &self.stop)?);
        let over = Stop::new();
        let (served, followed) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| sender.server.serve_dialled(&dialled, &over));
            // One that asks for more than it may gets none.
            let hear = |message| self.hear(message, &|token| drop(tokens.try_send(token)));
            let followed = other.follow(&self.stop, || false, hear);
            over.end();
            (serving.join().unwrap_or_default(), followed)
        });
        let run = served_run(&sender.paths, sender.machine, served, self.args.transfer.rate_limit);
        let own = HalfEnd { run: in_text(run), lacks: false, notes: Vec::new(), counts: Default::default() };
        match followed {
            Err(NoEnd::Refused(_)) if self.stop.is_ended() => Err(Failure::Interrupted),
            Err(NoEnd::Refused(failure)) => Err(failure),
            followed => Ok((own, followed.map_err(|why| self.unknown(why)))),
        }
    }

    fn hear(&self, message: Message, connect: &dyn Fn(linerate_transport::agent::OneTimeToken)) {
        match message {
            Message::Connect(token) => connect(token),
            Message::Progress(progress) => self.lines.show(&progress),
            Message::Complaint(line) => self.output.tell(&line),
            Message::Alive | Message::Ready(_) | Message::Ended(_) | Message::Refused { .. } => {}
        }
    }

    fn unknown(&self, why: NoEnd) -> String {
        let host = &self.route.host;
        match why {
            NoEnd::Refused(failure) => failure.to_string(),
            NoEnd::Lost(why) => format!("{host}: the half of the copy there broke off: {why}"),
        }
    }
}

/// In the place of a source.
const STANDARD_INPUT: &str = "-";

/// Which files go where.
#[derive(Debug, PartialEq, Eq)]
struct CopyRoute {
    host: SshHost,
    /// Files go to the host; else they come from it.
    is_push: bool,
    sources: Vec<OsString>,
    destination: OsString,
}

/// A file or folder, here or at another host.
#[derive(Debug, PartialEq, Eq)]
struct CopyEnd {
    host: Option<SshHost>,
    path: OsString,
}

impl CopyRoute {
    fn parse(sources: &[OsString], destination: &OsStr) -> Result<CopyRoute, Failure> {
        let to = CopyEnd::parse(destination)?;
        let from = sources.iter().map(|source| CopyEnd::parse(source)).collect::<Result<Vec<_>, _>>()?;
        let first = from.first().and_then(|place| place.host.clone());
        if from.iter().any(|place| place.host != first) {
            return Err(Failure::usage(
                "the sources are of several hosts: copy from one host after the other",
            ));
        }
        if sources.iter().any(|source| source == STANDARD_INPUT) && (sources.len() > 1 || to.host.is_none()) {
            return Err(Failure::usage(
                "- is standard input, which goes to one file of another host: write it alone, as in `tar c set | linerate \
                 copy - HOST:set.tar` (./- is a file of that name)",
            ));
        }
        let sources: Vec<OsString> = from.into_iter().map(|place| place.path).collect();
        let ends_at_slash = |path: &OsString| path.as_bytes().ends_with(b"/");
        if sources.len() > 1 && sources.iter().any(ends_at_slash) {
            return Err(Failure::usage(
                "a source with a slash at its end means what is in the folder, and is copied alone: leave the slash \
                 away, or copy one after the other",
            ));
        }
        match (first, to.host) {
            (None, Some(host)) => Ok(CopyRoute { host, is_push: true, sources, destination: to.path }),
            (Some(host), None) => Ok(CopyRoute { host, is_push: false, sources, destination: to.path }),
            (None, None) => Err(Failure::usage(
                "both ends are this host, which cp copies to; write [USER@]HOST:PATH for the other one (./NAME is a file \
                 here whose name has a colon)",
            )),
            (Some(_), Some(host)) => Err(Failure::Usage(format!(
                "neither end is this host: log in to one of them, and start the command there, such as ssh {} linerate \
                 copy …",
                host.host
            ))),
        }
    }

    /// What is copied comes from standard input.
    fn is_standard_input(&self) -> bool {
        self.is_push && self.sources.iter().any(|source| source == STANDARD_INPUT)
    }

    /// The one source stands for what is in it.
    fn is_contents(&self) -> bool {
        self.sources.iter().any(|source| source.as_bytes().ends_with(b"/"))
    }
}

impl CopyEnd {
    /// A colon before any slash ends the name of a host, as with scp.
    fn parse(text: &OsStr) -> Result<CopyEnd, Failure> {
        let bytes = text.as_bytes();
        let local = || Ok(CopyEnd { host: None, path: text.into() });
        let (host, path) = if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            (&bytes[..b"ssh://".len() + slash], &rest[slash..])
        } else {
            let slash = bytes.iter().position(|byte| *byte == b'/').unwrap_or(bytes.len());
            // An address of IPv6 is in brackets, for it has colons of its own.
            let from = bytes[..slash].iter().position(|byte| *byte == b']').unwrap_or(0);
            let Some(colon) = bytes[from..slash].iter().position(|byte| *byte == b':') else {
                return local();
            };
            (&bytes[..from + colon], &bytes[from + colon + 1..])
        };
        let host = OsStr::from_bytes(host);
        let no_host = || Failure::Usage(format!("{}: that is not a host", host.to_string_lossy()));
        let host = host.to_str().ok_or_else(no_host)?.parse();
        let host: SshHost = host.map_err(|why| Failure::Usage(format!("{why}")))?;
        // As with scp: nothing is the home of the user there, where `~/` leads as well.
        let path = path.strip_prefix(b"~/").unwrap_or(path);
        let path = if path.is_empty() { b"." } else { path };
        Ok(CopyEnd { host: Some(host), path: OsStr::from_bytes(path).into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(words: &str) -> Result<CopyRoute, String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let (destination, sources) = words.split_last().expect("words");
        CopyRoute::parse(sources, destination).map_err(|failure| failure.to_string())
    }

    #[test]
    fn one_end_is_a_host() {
        for (words, host, is_push, sources, destination) in [
            ("a b host:c", "host", true, vec!["a", "b"], "c"),
            ("me@host:/a/b: .", "me@host", false, vec!["/a/b:"], "."),
            ("./a:b host:", "host", true, vec!["./a:b"], "."),
            ("a [2001:db8::7]:~/b", "[2001:db8::7]", true, vec!["a"], "b"),
            ("ssh://me@host:22/a b", "ssh://me@host:22", false, vec!["/a"], "b"),
            ("host:a/ b", "host", false, vec!["a/"], "b"),
            ("- host:b", "host", true, vec!["-"], "b"),
        ] {
            let found = route(words).expect(words);
            assert_eq!((found.host.to_string().as_str(), found.is_push), (host, is_push), "{words}");
            assert_eq!(
                (found.sources, found.destination.as_os_str()),
                (sources.iter().map(OsString::from).collect(), OsStr::new(destination)),
                "{words}"
            );
        }
        for (words, why) in [
            ("a b", "both ends are this host"),
            ("h:a h:b", "neither end is this host"),
            ("g:a h:b c", "several hosts"),
            ("a h:b c", "several hosts"),
            ("a/ b h:c", "a slash at its end"),
            ("a -oProxyCommand=x:b", "not a host"),
            ("a :b", "not a host"),
            ("- a h:b", "standard input"),
            ("- b", "standard input"),
        ] {
            let refused = route(words).expect_err(words);
            assert!(refused.contains(why), "{words}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn no_text_becomes_an_option_of_ssh(text in "\\PC{0,24}") {
            if let Ok(CopyEnd { host: Some(host), .. }) = CopyEnd::parse(OsStr::new(&text)) {
                prop_assert!(!host.host.starts_with('-') && !host.host.is_empty());
            }
        }
    }
}
