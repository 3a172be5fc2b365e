//! `start`: who talked to whom, and what was asked for.

use super::{Ends, socket};
use serde_json::{Map, Value, json};

pub(super) fn start(ends: &Ends) -> Value {
    let mut keys = Map::new();
    let mut put = |key: &str, value: Value| drop(keys.insert(key.into(), value));
    put("connected", Value::Array(connected(ends)));
    put("version", json!(format!("linerate {}", env!("CARGO_PKG_VERSION"))));
    put("system_info", json!(ends.system_info));
    put("timestamp", json!({ "time": http_date(ends.started), "timesecs": ends.started }));
    if let Some(peer) = ends.peer {
        let who = if ends.client { "connecting_to" } else { "accepted_connection" };
        put(who, json!({ "host": peer.ip().to_string(), "port": peer.port() }));
    }
    put("cookie", json!(ends.cookie));
    if !ends.udp {
        put("tcp_mss_default", json!(ends.segment_bytes));
    }
    put("target_bitrate", json!(ends.bits_per_second));
    put("sock_bufsize", json!(ends.window_bytes));
    put("sndbuf_actual", json!(ends.buffer_bytes.0));
    put("rcvbuf_actual", json!(ends.buffer_bytes.1));
    put(
        "test_start",
        json!({
            "protocol": if ends.udp { "UDP" } else { "TCP" },
            "num_streams": ends.parallel,
            "blksize": ends.block_bytes,
            "omit": ends.omit_seconds,
            "duration": ends.seconds,
            "bytes": ends.bytes,
            "blocks": 0,
            "reverse": u8::from(ends.reverse),
            "tos": 0,
            "target_bitrate": ends.bits_per_second,
        }),
    );
    Value::Object(keys)
}

fn connected(ends: &Ends) -> Vec<Value> {
    let known =
        ends.streams.iter().enumerate().filter_map(|(place, stream)| Some((place, stream.addresses?)));
    known
        .map(|(place, (local, remote))| {
            json!({
                "socket": socket(place),
                "local_host": local.ip().to_string(),
                "local_port": local.port(),
                "remote_host": remote.ip().to_string(),
                "remote_port": remote.port(),
            })
        })
        .collect()
}

/// `Sun, 22 Nov 2026 01:54:17 GMT` (RFC 9110 5.6.7).
fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let weekday = DAYS[(seconds / 86_400 % 7) as usize];
    // `2026-11-22T01:54:17Z`
    let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.min(253_402_300_799));
    let text = humantime::format_rfc3339_seconds(moment).to_string();
    let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap_or((&text, ""));
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let month = month.and_then(|month| month.parse::<usize>().ok()).unwrap_or(1);
    let month = MONTHS[month.clamp(1, 12) - 1];
    format!("{weekday}, {} {month} {} {time} GMT", day.unwrap_or_default(), year.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_iperf3() {
        assert_eq!(http_date(1_795_312_457), "Sun, 22 Nov 2026 01:54:17 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert!(http_date(u64::MAX).ends_with("9999 23:59:59 GMT"));
    }
}
