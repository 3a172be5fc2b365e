//! The readers of what comes over the channel, without a socket: for the targets in `fuzz/` and for the
//! replay of what they found. No part of the library's interface.

use super::hub::MAGIC;
use super::{ControlMessage, ControlRequest, REQUEST_BYTES};
use linerate_transport::agent::fuzzing::pair;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The text of a message, in either direction: what is understood can be said again.
pub fn message(text: &[u8]) {
    fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &[u8]) {
        let Ok(message) = serde_json::from_slice::<T>(text) else { return };
        let said = serde_json::to_vec(&message).expect("a message is JSON");
        let heard: T = serde_json::from_slice(&said).expect("what was said is understood");
        assert_eq!(heard, message);
    }
    again::<ControlRequest>(text);
    again::<ControlMessage>(text);
}

/// What somebody who holds the key sends, cut into pieces of these lengths: whole messages within the limit
/// come out, in order.
pub fn frames(texts: &[&[u8]], pieces: &[usize]) {
    let (mut client, mut server) = pair(&MAGIC);
    let mut wire = Vec::new();
    for text in texts {
        wire.extend(client.sender.encrypt(text).expect("a message within the limit of all"));
    }
    let mut pieces = pieces.iter().copied().map(|piece| piece.max(1)).chain(std::iter::repeat(usize::MAX));
    let mut rest = wire.as_slice();
    let mut texts = texts.iter();
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(pieces.next().unwrap_or(usize::MAX).min(rest.len()));
        server.receiver.push(piece);
        rest = later;
        loop {
            match server.receiver.pop(REQUEST_BYTES) {
                Ok(Some(text)) => assert_eq!(Some(text.as_slice()), texts.next().copied()),
                Ok(None) => break,
                // One above the limit ends the connection.
                Err(_) => return assert!(texts.next().is_some_and(|text| text.len() > REQUEST_BYTES / 2)),
            }
        }
    }
    assert!(texts.next().is_none());
}

/// What somebody without the channel's keys sends in its place: never a message.
pub fn garbage(bytes: &[u8]) {
    let (_, mut server) = pair(&MAGIC);
    server.receiver.push(bytes);
    assert!(!matches!(server.receiver.pop(REQUEST_BYTES), Ok(Some(_))), "a message without the key");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        // Each case makes a channel, which costs some milliseconds in a debug build.
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn any_pieces_give_the_messages_again(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6),
            pieces in prop::collection::vec(1usize..4000, 0..20), long in 0usize..90_000,
        ) {
            let mut texts = texts;
            texts.push(vec![b'x'; long]);
            let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            super::frames(&texts, &pieces);
        }

        #[test]
        fn garbage_is_no_message(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            super::garbage(&bytes);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_understood_or_refused(text in "\\PC{0,200}", kind in 0..4) {
            let text = match kind {
                0 => text,
                1 => format!("{{\"do\":\"pan\",{text}}}"),
                2 => format!("{{\"do\":\"seek\",\"frame\":{text}}}"),
                _ => format!("{{\"is\":\"show\",\"tick\":{text}}}"),
            };
            super::message(text.as_bytes());
        }
    }
}
