//! What the two halves of `linerate copy` send each other over ssh's standard streams: to the other host one line with what
//! is wanted of it, then an empty line now and then, as long as somebody is there; back a line with the version, then a
//! message a line.

use linerate_deliver::TransferProgress;
use linerate_facts::failure::Failure;
use linerate_measure::run::Run;
use linerate_transport::agent::OneTimeToken;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{BufRead, Read};
use std::net::IpAddr;
use std::time::Duration;

/// Of these messages; both ends have to speak the same.
const PROTOCOL: u32 = 3;
/// Before the protocol and the version, on the line that begins.
const GREETING: &str = "linerate copy-half speaks protocol ";
const VERSION: &str = " in version ";
/// The kernel gives a program at most this much of words (execve(2): a quarter of 24 MiB of stack), and a byte of them
/// takes four letters here at most.
const MOST_REQUEST_BYTES: u64 = 32 << 20;

/// What the other half is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HalfRequest {
    pub(super) role: HalfRole,
    /// That the fetching half shows to the serving one.
    pub(super) token: String,
    pub(super) is_encrypted: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HalfRole {
    Send(SendSpec),
    Receive {
        spec: ReceiveSpec,
        /// Of the certificate of the serving half.
        fingerprint: Option<String>,
        /// How often it says how far it is.
        every: Duration,
    },
}

/// What is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SendSpec {
    pub(super) paths: Vec<OsString>,
    /// Not the one folder, but what is in it.
    pub(super) is_contents: bool,
    /// With what names have beside their content, and links as such.
    pub(super) is_archive: bool,
}

/// Where it goes, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ReceiveSpec {
    pub(super) destination: OsString,
    /// The destination is a folder in any case: what comes is what is in one.
    pub(super) is_contents: bool,
    /// The destination is not a folder: what comes has no name of its own.
    pub(super) is_standard_input: bool,
    /// What names have beside their content is kept.
    pub(super) is_archive: bool,
    /// None: as many as the round trip asks for.
    pub(super) streams: Option<u32>,
    /// Bytes per second of all streams together.
    pub(super) rate_limit: Option<f64>,
    pub(super) excluded: Vec<OsString>,
    pub(super) replaces: bool,
    pub(super) is_dry_run: bool,
    pub(super) timeout: Duration,
}

/// Of what happens there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    /// Nothing: it is alive.
    Alive,
    /// It can be connected to.
    Ready(ReadyHalf),
    /// The fetching half wants a connection.
    Connect(OneTimeToken),
    Progress(TransferProgress),
    /// A line for standard error.
    Complaint(String),
    /// It did what it was there for; the last message.
    Ended(Box<HalfEnd>),
    /// It could not begin; the last message.
    Refused {
        status: u8,
        sentence: String,
    },
}

/// Where the other half listens.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReadyHalf {
    pub(super) port: u16,
    /// That ssh came to.
    pub(super) address: Option<IpAddr>,
    /// All by which others reach its NICs, the fastest first.
    pub(super) addresses: Vec<IpAddr>,
    /// Of the certificate of the serving half.
    pub(super) fingerprint: Option<String>,
}

/// What came of one half.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HalfEnd {
    pub(super) run: Run,
    /// All that failed was not there to begin with.
    pub(super) lacks: bool,
    /// Lines on what was left out, or would be copied.
    pub(super) notes: Vec<String>,
    pub(super) counts: FileCounts,
}

/// How many files had which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileCounts {
    pub(super) copied: u64,
    pub(super) already_there: u64,
    pub(super) unfinished: u64,
    pub(super) failed: u64,
}

/// What the program there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    protocol: u32,
    version: String,
}

impl Greeting {
    /// Of this program.
    pub(super) fn own() -> Self {
        Greeting { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").into() }
    }

    pub(super) fn line(&self) -> String {
        format!("{GREETING}{}{VERSION}{}\n", self.protocol, self.version)
    }

    /// None: a line of something else, such as the greeting of a login script.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (protocol, version) = line.trim().strip_prefix(GREETING)?.split_once(VERSION)?;
        Some(Greeting { protocol: protocol.parse().ok()?, version: version.into() })
    }

    /// Whether both ends understand each other; the sentence where not.
    pub(super) fn check(&self) -> Result<(), String> {
        let own = Greeting::own();
        if self.protocol == own.protocol {
            return Ok(());
        }
        Err(format!(
            "linerate there is another version: {}, whose copy speaks protocol {}, and this one, {}, speaks protocol {}; \
             install the same on both",
            self.version, self.protocol, own.version, own.protocol
        ))
    }
}

impl HalfRequest {
    /// What somebody wants of this half.
    pub(super) fn read(input: &mut impl BufRead) -> Result<Self, Failure> {
        let wrong = || {
            Failure::usage(
                "copy-half reads what is wanted of it from standard input; it is for linerate's own use",
            )
        };
        let mut line = Vec::new();
        input.take(MOST_REQUEST_BYTES).read_until(b'\n', &mut line).map_err(|_| wrong())?;
        serde_json::from_slice(&line).map_err(|_| wrong())
    }
}

/// What the other end of ssh sends, as either half understands it, written once more; none: it is refused. For what looks
/// for bytes that break it.
#[cfg(any(test, feature = "testing"))]
pub fn written_again(line: &[u8]) -> Option<Vec<u8>> {
    let mut input = line;
    if let Ok(request) = HalfRequest::read(&mut input) {
        return serde_json::to_vec(&request).ok();
    }
    match serde_json::from_slice::<Message>(line) {
        Ok(message) => serde_json::to_vec(&message).ok(),
        Err(_) => Greeting::parse(&String::from_utf8_lossy(line)).map(|greeting| greeting.line().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_greeting_says_which_version_is_there() {
        let own = Greeting::own();
        assert_eq!(Greeting::parse(&own.line()).as_ref(), Some(&own));
        assert!(own.check().is_ok());
        let other = Greeting::parse("linerate copy-half speaks protocol 99 in version 7.1\n");
        let sentence = other.expect("a greeting").check().expect_err("another protocol");
        assert!(sentence.contains("another version: 7.1, whose copy speaks protocol 99"), "{sentence}");
        for line in ["", "Welcome!", "linerate agent listens on 1", GREETING] {
            assert_eq!(Greeting::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn paths_of_any_bytes_arrive_as_they_were(paths in prop::collection::vec(prop::collection::vec(1u8.., 0..20), 0..9)) {
            let paths: Vec<OsString> = paths.into_iter().map(OsString::from_vec).collect();
            let role = HalfRole::Send(SendSpec { paths, is_contents: true, is_archive: true });
            let sent = HalfRequest { role, token: "t".into(), is_encrypted: true };
            let mut line = serde_json::to_vec(&sent).expect("JSON");
            line.extend(b"\n\n");
            let mut input = line.as_slice();
            prop_assert_eq!(HalfRequest::read(&mut input).expect("read"), sent);
            prop_assert_eq!(input, b"\n");
        }

        #[test]
        fn what_is_understood_is_understood_again(
            port in any::<u16>(),
            address in any::<Option<IpAddr>>(),
            addresses in any::<Vec<IpAddr>>(),
            fingerprint in any::<Option<String>>(),
            status in any::<u8>(),
            sentence in any::<String>(),
        ) {
            for message in [
                Message::Ready(ReadyHalf { port, address, addresses, fingerprint }),
                Message::Complaint(sentence.clone()),
                Message::Refused { status, sentence },
            ] {
                let line = serde_json::to_vec(&message).expect("JSON");
                prop_assert!(!line.contains(&b'\n'), "a message is a line");
                prop_assert_eq!(written_again(&line), Some(line));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(HalfRequest::read(&mut bytes.as_slice()).is_err());
        }
    }
}
