//! Lists of hosts as administrators write them: `a[1-8,10]`, names with commas, hostfiles of MPI; and names of such a
//! list that lead to several hosts, of which only one is measured.

use std::collections::HashSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, channel};

/// The most hosts of one fleet: more are a mistyped range.
pub(crate) const MOST_HOSTS: usize = 4096;

/// Why a text is not a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    #[error("it names no host; write names with commas, or a range such as a[1-8]")]
    Empty,
    #[error("it names {0} alone, and a fleet is two hosts at least: add another")]
    OneHost(String),
    #[error("it names {0} twice: remove one of them")]
    Twice(String),
    #[error("it names more than {MOST_HOSTS} hosts; is a range mistyped?")]
    TooMany,
    #[error("a bracket in “{0}” has no other end; write a range such as a[1-8]")]
    Unclosed(String),
    #[error("“{0}” is not a range of numbers; write one such as 1-8 or 01-12")]
    Range(String),
    #[error("“{name}” is not a name of a host: it has “{character}”")]
    Character { name: String, character: char },
}

/// Hosts of `--hosts`: names with commas, each with any number of ranges in brackets, as Slurm, pdsh and
/// ClusterShell write them.
pub fn parse_hosts(text: &str) -> Result<Vec<String>, HostListError> {
    checked(expand(text)?)
}

/// Some hosts of a fleet, one at least, each once.
pub fn parse_servers(text: &str) -> Result<Vec<String>, HostListError> {
    match checked(expand(text)?) {
        Err(HostListError::OneHost(only)) => Ok(vec![only]),
        servers => servers,
    }
}

/// Hosts of a hostfile: one word a line or a list, `#` begins a comment, Windows line ends are line ends. The
/// slots of Open MPI (`slots=4`) and of MPICH (`:4`) are read over: one process a host measures it.
pub fn parse_hostfile(text: &str) -> Result<Vec<String>, HostListError> {
    let mut hosts = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(word) = line.split_whitespace().next() else { continue };
        let has_slots = |(host, slots): &(&str, &str)| {
            !host.contains(':') && slots.bytes().all(|byte| byte.is_ascii_digit())
        };
        let word = word.rsplit_once(':').filter(has_slots).map_or(word, |(host, _)| host);
        hosts.extend(expand(word)?);
        if hosts.len() > MOST_HOSTS {
            return Err(HostListError::TooMany);
        }
    }
    checked(hosts)
}

fn checked(hosts: Vec<String>) -> Result<Vec<String>, HostListError> {
    let mut seen = HashSet::new();
    if let Some(twice) = hosts.iter().find(|host| !seen.insert(host.to_ascii_lowercase())) {
        return Err(HostListError::Twice(twice.clone()));
    }
    match hosts.as_slice() {
        [] => Err(HostListError::Empty),
        [only] => Err(HostListError::OneHost(only.clone())),
        _ => Ok(hosts),
    }
}

/// All names of a list, in its order.
pub(crate) fn expand(text: &str) -> Result<Vec<String>, HostListError> {
    let mut hosts = Vec::new();
    for part in outside_brackets(text)? {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let mut names = vec![String::new()];
        let mut rest = part;
        while let Some((before, after)) = rest.split_once('[') {
            let (ranges, behind) =
                after.split_once(']').ok_or_else(|| HostListError::Unclosed(part.into()))?;
            let numbers = numbers(ranges)?;
            if names.len().saturating_mul(numbers.len()) > MOST_HOSTS {
                return Err(HostListError::TooMany);
            }
            names = names
                .iter()
                .flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}")))
                .collect();
            rest = behind;
        }
        for name in names {
            hosts.push(named(name + rest)?);
        }
        if hosts.len() > MOST_HOSTS {
            return Err(HostListError::TooMany);
        }
    }
    Ok(hosts)
}

/// The parts between commas that are in no bracket.
fn outside_brackets(text: &str) -> Result<Vec<&str>, HostListError> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            '[' if inside => return Err(HostListError::Unclosed(text.into())),
            ']' if !inside => return Err(HostListError::Unclosed(text.into())),
            '[' | ']' => inside = !inside,
            ',' | ' ' | '\t' | '\n' | '\r' if !inside => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostListError::Unclosed(text.into()));
    }
    parts.push(&text[from..]);
    Ok(parts)
}

/// `1-3,07`: each number with the zeros that it is written with.
fn numbers(ranges: &str) -> Result<Vec<String>, HostListError> {
    let wrong = |range: &str| HostListError::Range(range.into());
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return Err(wrong(range));
        }
        let read = |text: &str| text.parse::<u64>().map_err(|_| wrong(range));
        let (low, high) = (read(first)?, read(last)?);
        if high < low {
            return Err(wrong(range));
        }
        if high - low >= MOST_HOSTS as u64 {
            return Err(HostListError::TooMany);
        }
        let wide = first.len();
        numbers.extend((low..=high).map(|number| format!("{number:0wide$}")));
        if numbers.len() > MOST_HOSTS {
            return Err(HostListError::TooMany);
        }
    }
    Ok(numbers)
}

/// A name that a launcher takes for a host, and never for an option of its own or for a shell's word.
fn named(name: String) -> Result<String, HostListError> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-._:@%".contains(character);
    let wrong = match name.chars().next() {
        Some(first @ ('-' | '.' | '%' | '@' | ':')) if !name.starts_with("::") => Some(first),
        _ => name.chars().find(|character| !allowed(*character)),
    };
    match wrong {
        Some(character) => Err(HostListError::Character { name, character }),
        None => Ok(name),
    }
}

/// Looks names up beside everything else: a name server that is slow delays nothing.
pub(crate) struct NameLookup(Option<Receiver<(String, Vec<IpAddr>)>>);

impl NameLookup {
    pub(crate) fn start(hosts: &[String]) -> NameLookup {
        let (sender, found) = channel();
        let hosts = hosts.to_vec();
        let look = move || {
            for name in hosts {
                let host = name.rsplit('@').next().unwrap_or(&name);
                let Ok(addresses) = (host, 0).to_socket_addrs() else { continue };
                let addresses = addresses.map(|address| address.ip()).collect();
                if sender.send((name, addresses)).is_err() {
                    return;
                }
            }
        };
        let started = std::thread::Builder::new().name("names".into()).spawn(look);
        NameLookup(started.is_ok().then_some(found))
    }

    /// A sentence for each of these members whose name leads to other hosts as well, as far as that is known by now.
    pub(crate) fn ambiguous<'a>(
        &self,
        members: impl Iterator<Item = (&'a str, &'a [IpAddr])>,
    ) -> Vec<String> {
        let resolved: Vec<(String, Vec<IpAddr>)> = self.0.iter().flat_map(Receiver::try_iter).collect();
        let sentence = |(name, own): (&str, &[IpAddr])| {
            let (_, resolved) = resolved.iter().find(|(other, _)| other == name)?;
            ambiguous(name, resolved, own)
        };
        members.filter_map(sentence).collect()
    }
}

/// A name that has addresses which its member does not have may be several hosts, of which one was measured.
fn ambiguous(name: &str, resolved: &[IpAddr], own: &[IpAddr]) -> Option<String> {
    let other = resolved.iter().find(|address| !own.contains(address) && !address.is_loopback())?;
    let measured = resolved.iter().find(|address| own.contains(address))?;
    Some(format!(
        "{name} has the addresses {measured} and {other}, and the host that came has only the first: name each by its \
         address"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> Vec<String> {
        parse_hosts(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn ranges_are_written_out_in_order_with_their_zeros() {
        assert_eq!(list("a[1-3,10]"), ["a1", "a2", "a3", "a10"]);
        assert_eq!(list("n[08-11].example"), ["n08.example", "n09.example", "n10.example", "n11.example"]);
        assert_eq!(list("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(list(" x, root@y,10.0.0.1 fe80::1 "), ["x", "root@y", "10.0.0.1", "fe80::1"]);
    }

    #[test]
    fn hostfiles_of_other_tools_are_read() {
        let text = "\u{feff}# the rack\r\nha slots=4\r\n\r\nhb:2 # two\r\nh[c-d]\r\n";
        assert_eq!(parse_hostfile(text), Err(HostListError::Range("c-d".into())));
        let text = "\u{feff}# the rack\r\nha slots=4\r\n\r\nhb:2 # two\r\nhc[1-2]\r\nfe80::2\r\n";
        assert_eq!(parse_hostfile(text).expect("hosts"), ["ha", "hb", "hc1", "hc2", "fe80::2"]);
        assert_eq!(parse_hostfile("\r\n# nobody\r\n"), Err(HostListError::Empty));
        assert_eq!(parse_hostfile("ha\nHA slots=2\n"), Err(HostListError::Twice("HA".into())));
    }

    #[test]
    fn each_wrong_list_has_a_sentence_that_names_the_word() {
        for (text, why) in [
            ("", "no host"),
            (" , ,", "no host"),
            ("a1", "a1 alone"),
            ("a,b,a", "a twice"),
            ("a[1-2],a2", "a2 twice"),
            ("a[1-", "no other end"),
            ("a1-2]", "no other end"),
            ("a[[1]]", "no other end"),
            ("a[2-1],b", "“2-1”"),
            ("a[x],b", "“x”"),
            ("a[],b", "“”"),
            ("a[1-99999999]", "mistyped"),
            ("a[1-4000]b[1-4000]", "mistyped"),
            ("-oProxyCommand=x,b", "“-”"),
            ("a;reboot,b", "“;”"),
            ("a$(id),b", "“$”"),
        ] {
            let sentence = parse_hosts(text).expect_err(text).to_string();
            assert!(sentence.contains(why), "{text}: {sentence}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_gives_a_dangerous_name(text in "\\PC{0,60}") {
            for hosts in [parse_hosts(&text), parse_hostfile(&text)].into_iter().flatten() {
                prop_assert!(hosts.len() >= 2 && hosts.len() <= MOST_HOSTS);
                for host in hosts {
                    prop_assert!(!host.is_empty() && !host.starts_with('-'), "{}", host);
                    prop_assert!(!host.contains([' ', ';', '$', '`', '\'', '"', '|', '&', '<', '>']), "{}", host);
                }
            }
        }

        #[test]
        fn a_range_has_as_many_names_as_numbers(low in 0u32..500, more in 1u32..300, wide in 0usize..5) {
            let high = low + more;
            let text = format!("n[{low:0wide$}-{high}]");
            let hosts = parse_hosts(&text).expect("a range");
            prop_assert_eq!(hosts.len() as u32, more + 1);
            prop_assert_eq!(&hosts[0], &format!("n{low:0wide$}"));
            // Written out with commas, and as a file with Windows line ends, it is the same list.
            prop_assert_eq!(parse_hosts(&hosts.join(",")).expect("names"), hosts.clone());
            prop_assert_eq!(parse_hostfile(&hosts.join("\r\n")).expect("lines"), hosts);
        }
    }

    #[test]
    fn a_name_of_two_hosts_is_reported_and_a_host_of_two_addresses_is_not() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let both = [ip("10.0.0.1"), ip("10.0.0.2")];
        assert_eq!(ambiguous("a", &both, &both), None);
        let sentence = ambiguous("a", &both, &both[..1]).expect("a sentence");
        assert!(sentence.contains("a has the addresses 10.0.0.1 and 10.0.0.2"), "{sentence}");
        assert_eq!(ambiguous("a", &both, &[ip("192.168.0.1")]), None, "behind another name");
        assert_eq!(ambiguous("a", &[ip("127.0.1.1"), both[0]], &both[..1]), None, "Debian's own name");
    }
}
