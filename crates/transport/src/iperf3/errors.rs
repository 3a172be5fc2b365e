//! iperf3's numbers of errors in words, with what to do about those that a user can change.

/// What a server means by SERVER_ERROR.
pub(crate) fn server_error(number: i32, errno: i32) -> String {
    let words = error_text(number);
    let kernel = match errno {
        0 => String::new(),
        errno => format!(" ({})", std::io::Error::from_raw_os_error(errno)),
    };
    match words {
        Some(words) => format!("the iperf3 server refuses: {words}{kernel}"),
        None => format!("the iperf3 server refuses with its error {number}{kernel}"),
    }
}

fn error_text(number: i32) -> Option<&'static str> {
    Some(match number {
        5 => "the test is longer than it allows; ask for fewer seconds",
        6 => "more streams than it allows; ask for fewer",
        7 => "the block size is beyond its bounds; ask for a smaller one",
        8 => "the socket buffer is larger than it allows; ask for a smaller one",
        10 => "the segment size is larger than it allows",
        11 => "the warm-up is longer than it allows",
        13 => "something that was asked for is not implemented there",
        20 => "the datagram size is beyond its bounds",
        24 => "reverse and bidirectional at once",
        27 => "the rate is above its limit (`--server-bitrate-limit`); ask for less",
        106 => "it did not get the whole cookie",
        107 | 108 => "its control connection failed",
        109 => "the control connection was closed",
        110 | 112 => "it got a control message that it does not know",
        114 => "it could not read the parameters",
        116 | 117 => "the results could not be exchanged",
        118 => "its select failed",
        120 => "it was terminated",
        121 => "it is busy with another test; try again later",
        122 => "it could not switch off Nagle's algorithm",
        123 => "it could not set the segment size",
        124 | 141 => {
            "it could not set the socket buffers; ask for a smaller window or raise net.core.{r,w}mem_max \
             there"
        }
        125..=127 => "it could not set the type of service or the flow label",
        128 | 136 => "it could not set up its listening socket",
        129 => "it could not make a socket non-blocking",
        130 => "it could not set the window",
        131 => "it does not know the protocol",
        134 => {
            "it does not have the congestion control that was asked for; `sysctl \
             net.ipv4.tcp_available_congestion_control` there"
        }
        140 => "it could not set the pacing",
        142 => "it wants a user and a password, which linerate does not send to an iperf3 server",
        144 => "it received nothing for too long",
        145 => "it could not forbid fragments",
        200 | 201 => "it could not make a stream",
        202 => "it could not listen for streams; is its port in use by another program?",
        203 | 204 => "a stream could not be opened",
        205 | 206 => "a stream could not be written to or read from",
        207 => "a stream closed unexpectedly",
        208 => "a stream has a number that it does not know",
        300 | 301 => "it could not make a timer",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_words_or_their_number() {
        assert!(server_error(134, 2).contains("congestion control"), "{}", server_error(134, 2));
        assert!(server_error(134, 2).contains("No such file"));
        assert!(server_error(27, 0).ends_with("ask for less"));
        assert!(server_error(-7, 0).contains("error -7"));
        for number in -10..400 {
            assert!(!server_error(number, -1).is_empty());
        }
    }
}
