//! A URL as a user gives it, its path percent-decoded once, into names of files that lead nowhere else, and
//! where a server's `Location` leads from there.

use linerate_facts::printable::foreign;
use linerate_transport::address::{HostPort, HostPortError};
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use thiserror::Error;

/// `http://HOST[:PORT]/PATH`, or `https://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// Under TLS.
    pub secure: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// With its query, without a fragment; begins with a slash.
    pub target: String,
}

/// A URL that cannot be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    #[error("there is no scheme: write http://HOST/PATH")]
    NoScheme,
    #[error("linerate speaks HTTP only, not {0}: write http://HOST/PATH or https://HOST/PATH")]
    Scheme(String),
    #[error(
        "a password in a URL is seen by every user of this host: write the token into a file for --token-file"
    )]
    Password,
    #[error(transparent)]
    Host(#[from] HostPortError),
    #[error("it leads from TLS to plain HTTP, where anyone on the way can read and change it")]
    Downgrade,
    #[error("a port is a number from 1 to 65535")]
    Port,
    #[error("a URL has no blanks and no control characters: write them as %20")]
    Letters,
}

impl FromStr for HttpUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err(UrlError::Letters);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NoScheme)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => return Err(UrlError::Scheme(foreign(other))),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::Password);
        }
        let HostPort { host, port } = authority.parse()?;
        if port == Some(0) {
            return Err(UrlError::Port);
        }
        let port = port.unwrap_or(usual_port(secure));
        Ok(HttpUrl { secure, host, port, target: target_of(target) })
    }
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// As it goes onto the wire: letters beyond ASCII are encoded.
fn target_of(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    let slash = if text.starts_with('/') { "" } else { "/" };
    let letters = text.bytes().map(|byte| match byte {
        b'!'..=b'~' => (byte as char).to_string(),
        byte => format!("%{byte:02X}"),
    });
    slash.chars().map(String::from).chain(letters).collect()
}

impl HttpUrl {
    /// `HOST:PORT` as the `Host` line has it.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == usual_port(self.secure) { host } else { format!("{host}:{}", self.port) }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The same server, another target.
    pub fn with_target(&self, target: &str) -> Self {
        HttpUrl { target: target_of(target), ..self.clone() }
    }

    /// Where a `Location` line leads (RFC 3986 section 5.2, without dot segments, which no server sends).
    pub fn joined(&self, location: &str) -> Result<Self, UrlError> {
        let location = location.trim();
        if let Some(rest) = location.strip_prefix("//") {
            return format!("{}://{rest}", self.scheme()).parse();
        }
        let scheme = location.find("://").filter(|at| !location[..*at].contains(['/', '?', '#']));
        if scheme.is_some() {
            let next: HttpUrl = location.parse()?;
            return if self.secure && !next.secure { Err(UrlError::Downgrade) } else { Ok(next) };
        }
        if location.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err(UrlError::Letters);
        }
        let folder = self.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        Ok(match location.as_bytes().first() {
            Some(b'/') => self.with_target(location),
            Some(b'?') => self.with_target(&format!("{}{location}", self.path())),
            _ => self.with_target(&format!("{folder}/{location}")),
        })
    }
}

/// Without what follows the path, which may be a key to the file: this is what errors, logs and results have.
impl Display for HttpUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.path())
    }
}

/// The longest way down.
pub const MOST_SEGMENTS: usize = 256;

/// A path that names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    #[error("a path begins with “/”")]
    NoSlash,
    #[error("a “%” is followed by two hexadecimal digits")]
    Percent,
    #[error("“.” and “..” are not names")]
    Dots,
    #[error("no name holds a zero byte or a “/”")]
    NoName,
    #[error("the path is deeper than {MOST_SEGMENTS} folders")]
    TooDeep,
}

/// The names on the way, and whether the path ends with a slash. What follows `?` or `#` is not part of it.
pub fn segments(target: &str) -> Result<(Vec<Vec<u8>>, bool), PathError> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let rest = path.strip_prefix('/').ok_or(PathError::NoSlash)?;
    let is_folder = rest.is_empty() || rest.ends_with('/');
    let mut names = Vec::new();
    for segment in rest.split('/').filter(|segment| !segment.is_empty()) {
        names.push(name(segment)?);
        if names.len() > MOST_SEGMENTS {
            return Err(PathError::TooDeep);
        }
    }
    Ok((names, is_folder))
}

/// One name, decoded: never `.` or `..`, without a slash.
pub fn name(segment: &str) -> Result<Vec<u8>, PathError> {
    let decoded = decoded(segment)?;
    if decoded == b"." || decoded == b".." {
        return Err(PathError::Dots);
    }
    if decoded.is_empty() || decoded.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(PathError::NoName);
    }
    Ok(decoded)
}

/// Percent-decoded once, whatever it holds then.
pub(crate) fn decoded(segment: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = segment.bytes();
    let mut out = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        let (high, low) = (digit().ok_or(PathError::Percent)?, digit().ok_or(PathError::Percent)?);
        out.push((high * 16 + low) as u8);
    }
    Ok(out)
}

/// One name as a URL has it.
pub fn encoded(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        match byte {
            // RFC 3986 section 2.3.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte as char),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// `/a/b` of names.
pub fn joined(names: &[Vec<u8>]) -> String {
    names.iter().map(|name| format!("/{}", encoded(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_as_users_write_them() {
        for (text, shown) in [
            ("http://h", "http://h/"),
            ("HTTP://h:8080/a%20b", "http://h:8080/a%20b"),
            ("http://192.0.2.7:80/x?y#z", "http://192.0.2.7/x"),
            ("http://[2001:db8::7]:81/", "http://[2001:db8::7]:81/"),
            ("https://h:443/a", "https://h/a"),
            ("HTTPS://h:80/", "https://h:80/"),
            ("http://h:443/", "http://h:443/"),
            ("http://h?q", "http://h/"),
            ("http://h/é", "http://h/%C3%A9"),
        ] {
            assert_eq!(text.parse::<HttpUrl>().expect(text).to_string(), shown, "{text}");
        }
        let scheme = |text: &str| Err(UrlError::Scheme(text.into()));
        assert_eq!("ftp://h/".parse::<HttpUrl>(), scheme("ftp"));
        assert_eq!("h/a".parse::<HttpUrl>(), Err(UrlError::NoScheme));
        assert_eq!("http://a:b@h/".parse::<HttpUrl>(), Err(UrlError::Password));
        assert_eq!("http://h/a b".parse::<HttpUrl>(), Err(UrlError::Letters));
        assert_eq!("http://h/a\r\nX: y".parse::<HttpUrl>(), Err(UrlError::Letters));
        assert_eq!("http://h:0/".parse::<HttpUrl>(), Err(UrlError::Port));
        assert!(matches!("http:///a".parse::<HttpUrl>(), Err(UrlError::Host(_))));
    }

    #[test]
    fn what_may_be_a_key_goes_onto_the_wire_and_is_not_shown() {
        let url: HttpUrl = "http://h/file?signature=secret".parse().expect("a URL");
        assert_eq!(
            (url.to_string().as_str(), url.target.as_str()),
            ("http://h/file", "/file?signature=secret")
        );
    }

    #[test]
    fn locations_lead_on() {
        let from: HttpUrl = "http://h:81/a/b?c".parse().expect("a URL");
        let whole = |url: HttpUrl| format!("{}://{}{}", url.scheme(), url.authority(), url.target);
        let to = |location| from.joined(location).map(whole);
        assert_eq!(to("/x"), Ok("http://h:81/x".into()));
        assert_eq!(to("x/"), Ok("http://h:81/a/x/".into()));
        assert_eq!(to("?d"), Ok("http://h:81/a/b?d".into()));
        assert_eq!(to("//other/x"), Ok("http://other/x".into()));
        assert_eq!(to("http://other:82/x"), Ok("http://other:82/x".into()));
        assert_eq!(to("/x?u=http://y"), Ok("http://h:81/x?u=http://y".into()));
        assert_eq!(to("https://other/"), Ok("https://other/".into()));
        let secure: HttpUrl = "https://h/a".parse().expect("a URL");
        assert_eq!(secure.joined("http://h/a"), Err(UrlError::Downgrade));
        assert_eq!(secure.joined("//other/x").map(|url| url.to_string()), Ok("https://other/x".into()));
        assert_eq!(to("/a\u{1}b"), Err(UrlError::Letters));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_no_line_is_added(text in "(https?://)?.{0,40}", location in ".{0,30}") {
            if let Ok(url) = text.parse::<HttpUrl>() {
                prop_assert!(url.target.starts_with('/') && url.target.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert_eq!(url.to_string().parse::<HttpUrl>(), Ok(url.with_target(url.path())));
                if let Ok(next) = url.joined(&location) {
                    prop_assert!(next.target.bytes().all(|byte| byte.is_ascii_graphic()));
                }
            }
        }
    }

    #[test]
    fn names_are_decoded_once() {
        let of = |target| segments(target).map(|(names, is_folder)| (names.concat(), names.len(), is_folder));
        assert_eq!(of("/"), Ok((vec![], 0, true)));
        assert_eq!(of("/a%20b/c?d=/e#f"), Ok((b"a bc".to_vec(), 2, false)));
        assert_eq!(of("//a///b/"), Ok((b"ab".to_vec(), 2, true)));
        assert_eq!(of("/%252e%252e"), Ok((b"%2e%2e".to_vec(), 1, false)));
        assert_eq!(of("/%FF%fe"), Ok((vec![0xff, 0xfe], 1, false)));
        assert_eq!(of("/..."), Ok((b"...".to_vec(), 1, false)));
    }

    #[test]
    fn ways_out_are_refused() {
        for target in ["/..", "/../etc/passwd", "/a/../../b", "/%2e%2e/x", "/.%2E", "/a/%2e", "/."] {
            assert_eq!(segments(target), Err(PathError::Dots), "{target}");
        }
        for target in ["/a%00b", "/a%2fb", "/%2Fetc%2Fpasswd", "/..%2f..%2fetc"] {
            assert_eq!(segments(target), Err(PathError::NoName), "{target}");
        }
        for target in ["/%", "/%1", "/%zz", "/a%+1"] {
            assert_eq!(segments(target), Err(PathError::Percent), "{target}");
        }
        for target in ["", "a", "*", "etc/passwd", "?x"] {
            assert_eq!(segments(target), Err(PathError::NoSlash), "{target}");
        }
        assert_eq!(segments(&"/a".repeat(MOST_SEGMENTS + 1)), Err(PathError::TooDeep));
    }

    proptest! {
        #[test]
        fn any_name_goes_there_and_back(bytes in proptest::collection::vec(1u8.., 1..40)) {
            prop_assume!(!bytes.contains(&b'/') && bytes != b"." && bytes != b"..");
            let target = joined(&[bytes.clone(), bytes.clone()]);
            prop_assert_eq!(segments(&target), Ok((vec![bytes.clone(), bytes], false)));
        }

        #[test]
        fn no_path_leads_up(target in "/[a./%2eEfF0-9\\\\]{0,30}") {
            for name in segments(&target).map(|(names, _)| names).unwrap_or_default() {
                prop_assert!(name != b".." && name != b"." && !name.contains(&b'/') && !name.contains(&0));
            }
        }
    }
}
