//! What another program printed about a test by RDMA.

use linerate::perftest::PerftestFigure;

/// Any text as perftest's.
pub fn perftest(bytes: &[u8]) {
    match PerftestFigure::parse(&String::from_utf8_lossy(bytes)) {
        Ok(figure) => {
            assert!(figure.bytes_per_second.is_finite() && figure.bytes_per_second > 0.0, "{figure:?}");
            assert!(figure.messages > 0 && figure.message_bytes > 0, "{figure:?}");
            assert_ne!(figure.packet_bytes, Some(0), "{figure:?}");
        }
        Err(why) => assert!(!why.to_string().contains(char::is_control), "{why}"),
    }
}
