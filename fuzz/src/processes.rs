//! What the kernel says of processes: `/proc/PID/io`, `/proc/PID/stat`, sock_diag's dump of connections.

use linerate::counters::{parse_process_io, parse_process_stat};
use linerate_system::tcp_sockets;

/// All of the input is each of them.
pub fn processes(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(io) = parse_process_io(&text) {
        let again = format!("read_bytes: {}\nwrite_bytes: {}\n", io.read_bytes, io.written_bytes);
        assert_eq!(parse_process_io(&again), Some(io));
    }
    if let Some(found) = parse_process_stat(&text) {
        assert!(found.name.chars().count() <= 64, "{found:?}");
    }
    let mut found = Vec::new();
    if let Err(error) = tcp_sockets::parse(input, &mut found) {
        assert!(error.raw_os_error().is_some_and(|number| (1..=4095).contains(&number)), "{error}");
    }
    assert!(found.len() <= input.len() / 88 + 1, "{}", found.len());
}
