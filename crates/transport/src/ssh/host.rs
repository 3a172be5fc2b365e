//! `ssh://[USER@]HOST[:PORT]`: where to log in, as words of ssh.

use crate::address::{HostPort, HostPortError};
use linerate_facts::failure::Failure;
use std::process::Command;

/// What runs there. Quoted: to some shells brackets are a pattern.
const COMMAND: &str = "linerate agent --own --listen '[::]:0'";
/// ssh itself gives up connecting after this, seconds.
const CONNECT_SECONDS: &str = "8";
/// Where to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshHost {
    /// As the user wrote it.
    text: String,
    user: Option<String>,
    /// Name or address.
    pub host: String,
    /// Port of ssh; none: as ssh's own configuration says.
    port: Option<u16>,
}

impl SshHost {
    /// Reads `ssh://[USER@]HOST[:PORT]`; none: it is no such name. The error is a sentence.
    pub(crate) fn parse(text: &str) -> Result<Option<SshHost>, String> {
        let Some(rest) = text.strip_prefix("ssh://") else { return Ok(None) };
        let wrong = |why: &str| {
            format!("--peer {text}: {why}; write ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT")
        };
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let letter =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '@' | '\\');
        if user.is_some_and(|user| user.is_empty() || user.starts_with('-') || !user.chars().all(letter)) {
            return Err(wrong("that is no user"));
        }
        let HostPort { host, port } = place.parse().map_err(|_: HostPortError| wrong("that is no host"))?;
        if port == Some(0) {
            return Err(wrong("a port is a number from 1 to 65535"));
        }
        Ok(Some(SshHost { text: text.into(), user: user.map(str::to_string), host, port }))
    }

    /// ssh with its words: it logs in there and starts an agent that ends with its standard input.
    pub(crate) fn command(&self) -> Command {
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
        command.args(["--", &self.host, COMMAND]);
        command
    }

    /// What failed on the way there, with what else the user can do.
    pub(crate) fn lacks(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Lacks(format!(
            "--peer {}: {why}; or start `linerate agent` there yourself and give --peer {}",
            self.text, self.host
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        let host = SshHost::parse(text).expect(text).expect("an ssh name");
        host.command().get_args().map(|word| word.to_string_lossy().into_owned()).collect()
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
        for text in [
            "ssh://",
            "ssh://@host",
            "ssh://-oProxyCommand=x",
            "ssh://-F",
            "ssh://-l@host",
            "ssh://a b@host",
            "ssh://host/path",
            "ssh://host:0",
            "ssh://host:x",
            "ssh://u;x@host",
            "ssh://[::1",
        ] {
            let why = SshHost::parse(text).expect_err(text);
            assert!(why.contains(text) && why.contains("write ssh://HOST"), "{why}");
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
