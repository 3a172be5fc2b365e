//! `linerate copy`: files to another host or from it. ssh starts the other half of the copy there; the half that has the
//! files serves them, the other one fetches them, and what both show says what limited it.

mod copied;
mod halves;
mod message;
mod other_half;
mod route;
mod standard_input;
mod there;

use super::arguments::CopyArgs;
use super::get::PATIENCE;
use super::output::Output;
use super::progress::TransferLines;
use super::stop::{end_what_hangs, stop_on_signals};
use copied::Copied;
use halves::{Sender, Source, in_text, receive};
use linerate_deliver::serve::BearerToken;
use linerate_deliver::{DialledConnections, served_run};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
#[cfg(any(test, feature = "testing"))]
pub use message::written_again;
use message::{HalfEnd, HalfRequest, HalfRole, Message, ReceiveSpec, SendSpec};
use other_half::{NoEnd, OtherHalf};
use route::CopyRoute;
use standard_input::stored_standard_input;
use std::sync::Arc;
use std::time::Duration;
pub(super) use there::copy_half;

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
        let addresses = other.reachable(&ready)?;
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
        let (dialled, tokens) = DialledConnections::to(other.reachable(&ready)?);
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
