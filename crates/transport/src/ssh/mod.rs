//! Programs that are started on another host over ssh and end with us: an agent for one run, a transfer that
//! runs there. Where to log in is `ssh://[USER@]HOST[:PORT]`, as words of ssh.

mod program;

pub use program::{BringError, SshEnd, SshProgram, SshProgramError, keep_last_lines};

use crate::address::{HostPort, HostPortError};
use std::fmt::{self, Display};
use std::process::Command;
use std::str::FromStr;

/// What marks a name as one of ssh.
const SSH_SCHEME: &str = "ssh://";
/// ssh itself gives up connecting after this, seconds.
const CONNECT_SECONDS: &str = "8";

/// Where to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHost {
    /// As the user wrote it.
    text: String,
    user: Option<String>,
    /// Name, address, or an alias of ssh's configuration.
    pub host: String,
    /// Port of ssh; none: as ssh's own configuration says.
    port: Option<u16>,
}

/// A text that names no host to log in to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {why}; write ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT")]
pub struct SshHostError {
    text: String,
    why: &'static str,
}

impl SshHost {
    /// Reads `ssh://[USER@]HOST[:PORT]`; none: it is not such a name.
    pub(crate) fn parse(text: &str) -> Result<Option<SshHost>, SshHostError> {
        text.starts_with(SSH_SCHEME).then(|| text.parse()).transpose()
    }

    /// ssh with its words: it logs in there and has the shell there run this.
    fn command(&self, there: &str) -> Command {
        let mut command = Command::new("ssh");
        // BatchMode: a question for a password would wait behind our screen for ever.
        command
            .args(["-T", "-x", "-o", "BatchMode=yes", "-o"])
            .arg(format!("ConnectTimeout={CONNECT_SECONDS}"));
        if let Some(port) = self.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &self.user {
            command.args(["-l", user]);
        }
        command.args(["--", &self.host, there]);
        command
    }
}

/// `[ssh://][USER@]HOST[:PORT]`
impl FromStr for SshHost {
    type Err = SshHostError;

    fn from_str(text: &str) -> Result<Self, SshHostError> {
        let rest = text.strip_prefix(SSH_SCHEME).unwrap_or(text);
        let wrong = |why| SshHostError { text: text.into(), why };
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let letter =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '@' | '\\');
        if user.is_some_and(|user| user.is_empty() || user.starts_with('-') || !user.chars().all(letter)) {
            return Err(wrong("that is not a user"));
        }
        let HostPort { host, port } = place.parse().map_err(|_: HostPortError| wrong("it is not a host"))?;
        if port == Some(0) {
            return Err(wrong("a port is a number from 1 to 65535"));
        }
        Ok(SshHost { text: text.into(), user: user.map(str::to_string), host, port })
    }
}

impl Display for SshHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COMMAND: &str = "linerate agent --own";

    fn words(text: &str) -> Vec<String> {
        let host = SshHost::parse(text).expect(text).expect("an ssh name");
        host.command(COMMAND).get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_become_words_of_ssh() {
        let plain = words("ssh://host");
        assert_eq!(plain[plain.len() - 3..], ["--", "host", COMMAND]);
        assert!(plain.contains(&"BatchMode=yes".to_string()) && !plain.contains(&"-p".to_string()));
        let all = words("ssh://a.user@host.example:2222").join(" ");
        assert!(all.contains("-p 2222 -l a.user -- host.example "), "{all}");
        let six = words("ssh://me@[2001:db8::7]:22").join(" ");
        assert!(six.contains("-p 22 -l me -- 2001:db8::7 "), "{six}");
        for text in ["ssh://[2001:db8::7]", "ssh://2001:db8::7"] {
            let six = words(text).join(" ");
            assert!(six.contains("-- 2001:db8::7 ") && !six.contains("-p"), "{six}");
        }
        assert_eq!(SshHost::parse("host:22"), Ok(None));
    }

    #[test]
    fn wrong_forms_and_options_in_disguise_are_refused() {
        let all = "ssh://|ssh://@host|ssh://-oProxyCommand=x|ssh://-F|ssh://-l@host|ssh://a b@host\
            |ssh://host/path|ssh://host:0|ssh://host:x|ssh://u;x@host|ssh://[::1";
        for text in all.split('|') {
            let why = SshHost::parse(text).expect_err(text);
            let why = why.to_string();
            assert!(why.contains(text) && why.contains("write ssh://HOST"), "{why}");
        }
    }

    #[test]
    fn an_option_that_is_only_for_ssh_needs_no_scheme() {
        for text in ["host", "me@host", "me@host:22", "[2001:db8::7]:22"] {
            let bare: SshHost = text.parse().expect(text);
            let named = SshHost::parse(&format!("ssh://{text}")).expect(text).expect("an ssh name");
            assert_eq!((bare.user, &bare.host, bare.port), (named.user, &named.host, named.port));
            assert_eq!(bare.text, text);
        }
        for text in ["http://host", "-host", "", "a b", "me@", "host:0"] {
            assert!(text.parse::<SshHost>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_name_becomes_an_option(rest in "\\PC{0,24}") {
            if let Ok(Some(host)) = SshHost::parse(&format!("ssh://{rest}")) {
                prop_assert!(!host.host.starts_with('-') && !host.host.is_empty());
                prop_assert!(host.user.is_none_or(|user| !user.starts_with('-') && !user.is_empty()));
            }
        }
    }
}
