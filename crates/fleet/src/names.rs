//! Names of the list that lead to several hosts, of which only one is measured.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, channel};

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
