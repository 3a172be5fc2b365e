//! What the two ends of `--on` send each other over ssh's standard streams.
//!
//! To the other host go the words of its command: how many, then each with a NUL behind it, which no word of a
//! command line has; then an empty line now and then, as long as somebody is there. Back comes one line with the
//! version, then a message a line.

use linerate_facts::failure::Failure;
use linerate_measure::run::Run;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Of these messages; both ends have to speak the same.
const PROTOCOL: u32 = 1;
/// Before the protocol and the version, on the line that begins.
const GREETING: &str = "linerate remote-command speaks protocol ";
const VERSION: &str = " in version ";
/// The kernel gives a program at most this much of words (execve(2): a quarter of 24 MiB of stack).
const MOST_BYTES_OF_WORDS: u64 = 8 << 20;
const MOST_WORDS: usize = 1 << 20;

/// Of what happens there.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    /// Nothing: it is alive.
    Alive,
    /// For the line of progress.
    Reached { how_far: String, seconds_left: Option<f64> },
    /// For standard output.
    Print(String),
    /// A line for standard error.
    Tell(String),
    /// For the kept results.
    Keep(Box<Run>),
    /// With its exit status; the last one.
    End { status: u8 },
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
            "linerate there is another version: {}, which speaks protocol {} of --on, and this one, {}, speaks protocol \
             {}; install the same on both",
            self.version, self.protocol, own.version, own.protocol
        ))
    }
}

/// Sends the words of the command.
pub(super) fn write_words(out: &mut impl Write, words: &[OsString]) -> io::Result<()> {
    writeln!(out, "{}", words.len())?;
    for word in words {
        out.write_all(word.as_bytes())?;
        out.write_all(&[0])?;
    }
    out.flush()
}

/// The words of the command that somebody wants done here.
pub(super) fn read_words(input: &mut impl BufRead) -> Result<Vec<OsString>, Failure> {
    let wrong = || {
        Failure::usage("remote-command reads its command from standard input; it is for linerate's own use")
    };
    let mut input = input.take(MOST_BYTES_OF_WORDS);
    let mut line = String::new();
    (&mut input).take(20).read_line(&mut line).map_err(|_| wrong())?;
    let count: usize = line.trim().parse().ok().filter(|count| *count <= MOST_WORDS).ok_or_else(wrong)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = Vec::new();
        input.read_until(0, &mut word).map_err(|_| wrong())?;
        if word.pop() != Some(0) {
            return Err(wrong());
        }
        words.push(OsString::from_vec(word));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_greeting_says_which_version_is_there() {
        let own = Greeting::own();
        assert_eq!(Greeting::parse(&own.line()).as_ref(), Some(&own));
        assert!(own.check().is_ok());
        let other = Greeting::parse("linerate remote-command speaks protocol 99 in version 7.1\n");
        let sentence = other.expect("a greeting").check().expect_err("another protocol");
        assert!(sentence.contains("another version: 7.1, which speaks protocol 99"), "{sentence}");
        for line in ["", "Welcome!", "linerate agent listens on 1", GREETING] {
            assert_eq!(Greeting::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn words_of_any_bytes_arrive_as_they_were(words in prop::collection::vec(prop::collection::vec(1u8.., 0..20), 0..9)) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            let mut sent = Vec::new();
            write_words(&mut sent, &words).expect("written");
            sent.extend(b"\n\n");
            let mut input = sent.as_slice();
            prop_assert_eq!(read_words(&mut input).expect("read"), words);
            prop_assert_eq!(input, b"\n\n");
        }

        #[test]
        fn no_bytes_make_it_panic_and_what_is_short_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_words(&mut bytes.as_slice());
            let short = [b"3\na\0b\0".as_slice(), b"1\nab", b"-1\n", b"999999999999\n", b""];
            prop_assert!(short.iter().all(|bytes| read_words(&mut &bytes[..]).is_err()));
        }
    }
}
