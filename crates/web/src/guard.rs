//! Whose requests are served, by what a browser says of itself: no page of another site reaches us through a
//! visitor's browser.
//!
//! A name that an attacker owns may be made to lead to this host (DNS rebinding); then the browser takes the
//! attacker's page for ours. So only names that nobody else owns are served: addresses, `localhost` and this
//! host's own name. And a WebSocket, which browsers open from any page to anywhere, must come from a page of
//! ours (RFC 6455, section 10.2).

use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use linerate_facts::sysroot::Sysroot;
use std::net::{IpAddr, Ipv6Addr};

/// Why a request is not served, for who reads it in a browser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignRequest {
    /// `own`: which names are served beside addresses.
    #[error(
        "This page does not answer to that name, because another site could own it; open it with an address \
         in place of the name{own}."
    )]
    Name { own: String },
    #[error("A page of another site may not use this one.")]
    Page,
}

/// Who may be called.
#[derive(Debug)]
pub struct Guard {
    /// This host's own, then those that its user gave it.
    names: Vec<String>,
}

impl Guard {
    /// With this host's name.
    pub fn of_this_host() -> Guard {
        let hostname = Sysroot::live().text("/proc/sys/kernel/hostname").ok();
        let hostname = hostname.map(|name| name.trim().to_string()).filter(|name| !name.is_empty());
        Guard { names: hostname.into_iter().collect() }
    }

    /// With names that its user says are this host's, too.
    pub fn with_names(mut self, names: &[String]) -> Guard {
        self.names.extend_from_slice(names);
        self
    }

    /// The host that a request is for, as the browser wrote it.
    pub fn host<'h>(&self, headers: &'h HeaderMap) -> Result<&'h str, ForeignRequest> {
        let host = only(headers, &HOST).unwrap_or_default();
        self.check_host(host).map(|()| host)
    }

    /// The same of a host that was read already.
    pub fn check_host(&self, host: &str) -> Result<(), ForeignRequest> {
        if self.is_ours(host) {
            return Ok(());
        }
        let own = self.names.split_last().map(|(last, others)| {
            let others: String = others.iter().map(|name| format!(", {name}")).collect();
            format!(", localhost{others} or {last}")
        });
        Err(ForeignRequest::Name { own: own.unwrap_or_default() })
    }

    /// The request comes from a page of our own, or from no page at all.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        let host = self.host(headers)?;
        match headers.contains_key(ORIGIN) {
            false => Ok(()),
            true => match only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://")) {
                Some(origin) if origin.eq_ignore_ascii_case(host) => Ok(()),
                _ => Err(ForeignRequest::Page),
            },
        }
    }

    /// `HOST` or `HOST:PORT`.
    fn is_ours(&self, host: &str) -> bool {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((v6, port)) => {
                    return v6.parse::<Ipv6Addr>().is_ok() && is_port(port.strip_prefix(':'), port);
                }
                None => return false,
            },
            None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
        };
        let own = self.names.iter().any(|own| own.eq_ignore_ascii_case(name));
        let known = own || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
        known && is_port(port, "")
    }
}

fn is_port(port: Option<&str>, rest: &str) -> bool {
    port.map_or(rest.is_empty(), |port| port.parse::<u16>().is_ok())
}

/// A header that is there once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => one.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().expect("a value"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn only_names_that_nobody_else_owns_are_served() {
        let guard = Guard { names: vec!["Wall-1".into()] };
        for host in
            "127.0.0.1:7413 127.0.0.1 [::1]:7413 [::1] localhost:1 LOCALHOST wall-1:7413 192.0.2.7:7413"
                .split(' ')
        {
            assert_eq!(guard.host(&headers(host, None)), Ok(host));
        }
        for host in " evil.example evil.example:7413 wall-1.evil.example localhost.evil.example 127.0.0.1.evil.example".split(' ') {
            assert!(guard.host(&headers(host, None)).is_err(), "{host}");
        }
        for host in
            "127.0.0.1: 127.0.0.1:x 127.0.0.1:99999 [::1 [localhost]:1 [::1]x ::1 a@127.0.0.1".split(' ')
        {
            assert!(guard.host(&headers(host, None)).is_err(), "{host}");
        }
        assert!(guard.host(&HeaderMap::new()).is_err());
        let mut two = headers("127.0.0.1", None);
        two.append(HOST, "127.0.0.1".parse().expect("a value"));
        assert!(guard.host(&two).is_err(), "twice");
    }

    #[test]
    fn names_that_the_user_gave_are_served_and_named_in_the_refusal() {
        let guard = Guard { names: vec!["wall-1".into()] }.with_names(&["files.example".into()]);
        assert_eq!(guard.check_host("Files.example:80"), Ok(()));
        let refused = guard.check_host("www.files.example").expect_err("refused").to_string();
        assert!(refused.ends_with("in place of the name, localhost, wall-1 or files.example."), "{refused}");
    }

    #[test]
    fn another_sites_page_is_refused() {
        let guard = Guard { names: Vec::new() };
        let origin = |origin| guard.check_origin(&headers("127.0.0.1:7413", origin));
        assert!(origin(None).is_ok() && origin(Some("http://127.0.0.1:7413")).is_ok());
        for other in
            "http://evil.example https://127.0.0.1:7413 http://127.0.0.1:80 http://127.0.0.1 null file:// "
                .split(' ')
        {
            assert!(origin(Some(other)).is_err(), "{other}");
        }
    }
}
