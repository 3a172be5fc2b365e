//! Who may come: `--allow` names the addresses that are answered, everybody else is dropped before a byte is
//! sent; a token is shown as `Authorization: Bearer TOKEN` (RFC 6750).

use super::secret::{Key, SECRET_BYTES, random, same, to_hex};
use linerate_facts::failure::Failure;
use linerate_facts::secret_file::{SecretFileError, read_secret_file};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

/// Networks whose hosts may connect; none: every host may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Network>);

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl AllowList {
    /// Only hosts of these networks; none: every host.
    pub fn new(networks: impl IntoIterator<Item = Network>) -> Self {
        AllowList(networks.into_iter().collect())
    }

    /// May this address come in?
    pub fn admits(&self, address: IpAddr) -> bool {
        self.0.is_empty() || self.0.iter().any(|network| network.holds(address.to_canonical()))
    }
}

impl Network {
    fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same_bits(own.to_bits().into(), other.to_bits().into(), 32 - self.prefix)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                same_bits(own.to_bits(), other.to_bits(), 128 - self.prefix)
            }
            _ => false,
        }
    }
}

/// Equal but for the last bits.
fn same_bits(left: u128, right: u128, free: u8) -> bool {
    (left ^ right).checked_shr(free.into()).unwrap_or(0) == 0
}

/// A text that is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("“{text}”: {why}; write ADDRESS or ADDRESS/PREFIX, such as 192.0.2.0/24")]
pub struct NetworkError {
    text: String,
    why: &'static str,
}

impl FromStr for Network {
    type Err = NetworkError;

    /// `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`. Bits beyond the prefix must be 0: else one of the two is
    /// a slip.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = |why| NetworkError { text: text.into(), why };
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| wrong("that is not an IP address"))?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) => digits.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(|| {
                wrong(if bits == 32 { "a prefix is 0 to 32 bits" } else { "a prefix is 0 to 128 bits" })
            })?,
        };
        let network = Network { address, prefix };
        let beyond = match address {
            IpAddr::V4(v4) => v4.to_bits().checked_shl(prefix.into()).unwrap_or(0) != 0,
            IpAddr::V6(v6) => v6.to_bits().checked_shl(prefix.into()).unwrap_or(0) != 0,
        };
        // An IPv4 address in IPv6 clothes would never match: addresses are compared as what they are.
        if address.to_canonical() != address {
            return Err(wrong("write the IPv4 address itself"));
        }
        if beyond {
            return Err(wrong("it has bits beyond its prefix"));
        }
        Ok(network)
    }
}

/// The least and the most letters of a token.
const TOKEN_LETTERS: std::ops::RangeInclusive<usize> = 16..=512;

/// Nothing longer is read.
const MOST_FILE_BYTES: u64 = 4096;

/// A secret text; it never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerToken")
    }
}

impl BearerToken {
    /// The first line of a file that is for its owner alone.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let remedy = format!("make one with: (umask 77; openssl rand -hex 32 >{shown})");
        let bytes = read_secret_file(path, MOST_FILE_BYTES).map_err(|error| {
            Failure::Lacks(match error {
                SecretFileError::Unreadable(error) => format!("--token-file {shown}: {error}; {remedy}"),
                error => format!("--token-file {shown}: {error}"),
            })
        })?;
        // What is not text has no line of such letters either.
        let text = String::from_utf8_lossy(&bytes);
        let token = text.lines().next().unwrap_or_default().trim();
        BearerToken::parse(token).ok_or_else(|| {
            Failure::Lacks(format!(
                "--token-file {shown}: its first line must be {} to {} characters without spaces; {remedy}",
                TOKEN_LETTERS.start(),
                TOKEN_LETTERS.end()
            ))
        })
    }

    /// The digits of a key.
    pub fn of(key: &Key) -> Self {
        BearerToken(key.to_hex())
    }

    /// One that nobody can guess.
    pub fn random() -> io::Result<Self> {
        Ok(BearerToken(to_hex(&random::<SECRET_BYTES>()?)))
    }

    /// As another process of ours has it; none: it is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = TOKEN_LETTERS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| BearerToken(text.into()))
    }

    /// For another process of ours.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// As a header line has it.
    pub fn header(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.0)
    }

    /// Whether an `Authorization` line shows it.
    pub fn is_shown_by(&self, value: Option<&str>) -> bool {
        let shown = value.and_then(|value| value.split_once(' '));
        shown.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && self.is(token.trim()))
    }

    /// Whether this text is it.
    pub fn is(&self, text: &str) -> bool {
        same(text.as_bytes(), self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admits(list: &[&str], address: &str) -> bool {
        let networks = list.iter().map(|text| text.parse().expect("a network"));
        AllowList::new(networks).admits(address.parse().expect("an address"))
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        assert!(admits(&[], "192.0.2.1"));
        for (list, inside, outside) in [
            (["192.0.2.7"].as_slice(), "192.0.2.7", "192.0.2.6"),
            (&["192.0.2.0/24"], "192.0.2.255", "192.0.3.0"),
            (&["192.0.2.0/24"], "::ffff:192.0.2.9", "2001:db8::1"),
            (&["2001:db8::/32"], "2001:db8:ffff::1", "2001:db9::"),
            (&["10.0.0.0/8", "::1"], "::1", "192.0.2.1"),
            (&["0.0.0.0/0"], "203.0.113.1", "::1"),
            (&["::/0"], "::1", "203.0.113.1"),
        ] {
            assert!(admits(list, inside), "{list:?} {inside}");
            assert!(!admits(list, outside), "{list:?} {outside}");
        }
    }

    #[test]
    fn slips_are_named() {
        for text in
            " here 192.0.2.1/33 192.0.2.1/24 ::1/129 ::1/ 2001:db8::1/32 ::ffff:192.0.2.0/120 1.2.3.4/+8x"
                .split(' ')
        {
            let why = text.parse::<Network>().expect_err(text).to_string();
            assert!(why.contains("192.0.2.0/24"), "{why}");
        }
    }

    proptest! {
        #[test]
        fn every_address_is_in_its_own_network(bits: u128, other: u128, prefix in 0..=128u8) {
            let masked = bits & u128::MAX.checked_shl(u32::from(128 - prefix)).unwrap_or(0);
            let own = std::net::Ipv6Addr::from_bits(masked);
            prop_assume!(IpAddr::V6(own).to_canonical() == IpAddr::V6(own));
            let network: Network = format!("{own}/{prefix}").parse().expect("a network");
            prop_assert!(network.holds(IpAddr::V6(own)));
            let equal = (masked ^ other).leading_zeros() >= u32::from(prefix);
            prop_assert_eq!(network.holds(std::net::Ipv6Addr::from_bits(other).into()), equal);
        }
    }

    #[test]
    fn only_the_token_opens() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef \nmore\n").expect("written");
        let token = BearerToken::read(file.path()).expect("a token");
        assert!(token.is_shown_by(Some("Bearer 0123456789abcdef")));
        assert!(token.is_shown_by(Some("bearer  0123456789abcdef")));
        for wrong in ["Bearer 0123456789abcde", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer", ""] {
            assert!(!token.is_shown_by(Some(wrong)), "{wrong}");
        }
        assert!(!token.is_shown_by(None));
        assert_eq!(format!("{token:?}"), "BearerToken");
        for wrong in ["", "short", "0123456789 abcdef0", "0123456789abcdef\u{7f}"] {
            std::fs::write(file.path(), wrong).expect("written");
            assert_eq!(BearerToken::read(file.path()).expect_err(wrong).exit_status(), 3, "{wrong}");
        }
        assert_eq!(BearerToken::read(Path::new("/nonexistent")).expect_err("absent").exit_status(), 3);
    }

    #[test]
    fn a_token_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef\n").expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).expect("a mode");
        let refused = BearerToken::read(file.path()).expect_err("refused");
        assert_eq!(refused.exit_status(), 3);
        let (said, path) = (refused.to_string(), file.path().display());
        assert!(said.starts_with("--token-file ") && said.contains(&format!("chmod 600 {path}")), "{said}");
    }
}
