//! iperf3's control connection: what any stranger sends to a server of our own, and any server to a client of
//! ours.

use super::Bytes;
use linerate::iperf3::fuzzing;

/// The first byte chooses what is read: parameters, results, a cookie.
pub fn iperf3(input: &[u8]) {
    let mut bytes = Bytes(input);
    match bytes.byte() {
        0 => fuzzing::parameters(bytes.0),
        1 => fuzzing::results(bytes.0),
        _ => fuzzing::cookie(bytes.0),
    }
}
