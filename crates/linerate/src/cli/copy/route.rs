//! From where to where: `SRC… [USER@]HOST:DST`, or the other way.

use linerate_facts::failure::Failure;
use linerate_transport::ssh::SshHost;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// In the place of a source.
const STANDARD_INPUT: &str = "-";

/// Which files go where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CopyRoute {
    pub(super) host: SshHost,
    /// Files go to the host; else they come from it.
    pub(super) is_push: bool,
    pub(super) sources: Vec<OsString>,
    pub(super) destination: OsString,
}

/// A file or folder, here or at another host.
#[derive(Debug, PartialEq, Eq)]
struct CopyEnd {
    host: Option<SshHost>,
    path: OsString,
}

impl CopyRoute {
    pub(super) fn parse(sources: &[OsString], destination: &OsStr) -> Result<CopyRoute, Failure> {
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
    pub(super) fn is_standard_input(&self) -> bool {
        self.is_push && self.sources.iter().any(|source| source == STANDARD_INPUT)
    }

    /// The one source stands for what is in it.
    pub(super) fn is_contents(&self) -> bool {
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
