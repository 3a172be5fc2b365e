//! The control connection: what strangers send to an agent and to a client, and what somebody who holds the
//! key can say.

use super::Bytes;
use linerate::agent::fuzzing;

/// The first byte chooses who speaks. An insider's input is cut into frames, each led by its length (two
/// bytes).
pub fn control(input: &[u8]) {
    let mut bytes = Bytes(input);
    match bytes.byte() {
        0 => fuzzing::stranger(bytes.0),
        1 => fuzzing::impostor(bytes.0),
        2 => {
            let mut frames = Vec::new();
            while !bytes.is_empty() {
                let length = usize::from(u16::from_be_bytes(bytes.array()));
                frames.push(bytes.slice(length));
            }
            fuzzing::insider(&frames);
        }
        _ => fuzzing::message(bytes.0),
    }
}
