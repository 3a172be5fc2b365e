//! What reveals a machine by its form, anywhere in a text: hardware addresses, GUIDs, UUIDs, IPv6
//! addresses; and what was noted elsewhere: hosts, serials, IPv4 addresses.

use super::names::{NameKind, Names};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Names {
    /// The text with everything replaced.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut rewritten = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            // Long runs are tried once, at their start.
            let started = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if let Some((length, name)) =
                self.starting(text, at).map(|(length, name)| (length, name.to_string()))
            {
                rewritten.push_str(&name);
                at += length;
            } else if let Some((length, name)) = started.then(|| self.form(&text[at..])).flatten() {
                rewritten.push_str(&name);
                at += length;
            } else {
                rewritten.push(next);
                at += next.len_utf8();
            }
        }
        rewritten
    }

    /// The text with every IPv4 address replaced, whether noted elsewhere or not: where four numbers are
    /// never a version.
    pub(crate) fn dotted(&mut self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let mut rewritten = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
            rewritten.push_str(&rest[..start]);
            match rest[start..end].parse::<Ipv4Addr>() {
                Ok(address) => rewritten.push_str(&self.address(address.into()).to_string()),
                Err(_) => rewritten.push_str(&rest[start..end]),
            }
            rest = &rest[end..];
        }
        rewritten + rest
    }

    /// The owner's words in a sentence or a path.
    pub(crate) fn words_in(&self, text: &str) -> String {
        let is_part = |c: char| c.is_alphanumeric() || "-_.@+".contains(c);
        let mut rewritten = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
            let word = &rest[start..end];
            rewritten.push_str(&rest[..start]);
            rewritten.push_str(self.known(NameKind::Word, word).unwrap_or(word));
            rest = &rest[end..];
        }
        rewritten + rest
    }

    /// The whole text is a thing that is replaced for what it is, wherever it is.
    pub(crate) fn is_other(&mut self, text: &str) -> bool {
        let form = self.form(text).is_some_and(|(length, _)| length == text.len());
        form || self.has(NameKind::Host, text) || self.has(NameKind::Serial, text)
    }

    /// A thing that the text begins with: its length, and what replaces it.
    fn form(&mut self, text: &str) -> Option<(usize, String)> {
        let run = |of: fn(u8) -> bool| text.bytes().take_while(|byte| of(*byte)).take(64).count();
        let hex = &text[..run(|byte| byte.is_ascii_hexdigit() || byte == b':')];
        if let Some(found) = self.colons(hex.trim_end_matches(':')).or_else(|| self.colons(hex)) {
            return Some(found);
        }
        let uuid = &text[..run(|byte| byte.is_ascii_hexdigit() || byte == b'-')];
        if uuid.len() == 36 && uuid.split('-').map(str::len).eq([8, 4, 4, 4, 12]) {
            return is_telling(uuid).then(|| (36, self.of(NameKind::Uuid, uuid)));
        }
        let bare = &text[..run(|byte| byte.is_ascii_alphanumeric())];
        if let Some(found) = self.bare_mac(bare) {
            return Some(found);
        }
        let quad = text[..run(|byte| byte.is_ascii_digit() || byte == b'.')].trim_end_matches('.');
        let address = IpAddr::V4(quad.parse::<Ipv4Addr>().ok()?);
        Some((quad.len(), self.known_address(address)?.to_string()))
    }

    /// `00:1b:21:…` (six bytes or more), `0011:7500:0077:cfc8`, an IPv6 address.
    fn colons(&mut self, text: &str) -> Option<(usize, String)> {
        let groups = || text.split(':');
        let count = groups().count();
        let all = |length: usize| groups().all(|group| group.len() == length);
        if count >= 6 && all(2) {
            return is_telling(text).then(|| (text.len(), self.of(NameKind::Mac, text)));
        }
        if count == 4 && all(4) {
            return is_telling(text).then(|| (text.len(), self.of(NameKind::Guid, text)));
        }
        let address = text.parse::<Ipv6Addr>().ok().filter(|_| count > 2 && text.len() > 2)?;
        Some((text.len(), self.address(address.into()).to_string()))
    }

    /// A hardware address without colons, at the end of an interface's name (`enx001b216ab2c1`), if it was
    /// noted with them.
    fn bare_mac(&mut self, text: &str) -> Option<(usize, String)> {
        let start = text.len().checked_sub(12)?;
        let digits = &text[start..];
        let colons: Vec<&str> = (0..6).filter_map(|byte| digits.get(byte * 2..byte * 2 + 2)).collect();
        let name = self.known(NameKind::Mac, &colons.join(":"))?;
        Some((text.len(), format!("{}{}", &text[..start], name.replace(':', ""))))
    }
}

/// All zeros and all ones are nobody's.
fn is_telling(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_alphanumeric);
    let first = digits.next();
    !matches!(first, Some(b'0' | b'f' | b'F')) || digits.any(|digit| Some(digit) != first)
}
