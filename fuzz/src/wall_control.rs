//! What comes over the control channel of a wall.

use super::Bytes;
use linerate::wall::control::fuzzing;

/// A byte tells which: 0 the text of a message; 1 bytes of somebody without the channel's keys; else messages
/// of somebody who has them, each led by its length (two bytes), cut into pieces by the first byte.
pub fn wall_control(input: &[u8]) {
    let mut bytes = Bytes(input);
    match bytes.byte() {
        0 => fuzzing::message(bytes.0),
        1 => fuzzing::garbage(bytes.0),
        piece => {
            let mut texts = Vec::new();
            while !bytes.is_empty() {
                let length = usize::from(u16::from_le_bytes(bytes.array()));
                texts.push(bytes.slice(length));
            }
            fuzzing::frames(&texts, &[usize::from(piece); 64]);
        }
    }
}
