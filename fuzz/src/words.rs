//! Short texts that a user or the kernel writes: sizes, rates, lists of CPUs, peers, addresses, keys.

use linerate::agent::{Key, fuzzing};
use linerate::probe::cpu_list;
use linerate::units;

/// Sizes and rates; what was read can be shown, and a size means the same when it is read again.
pub fn units(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(bytes) = units::parse_size(text) {
        assert!(!units::show_size(bytes).is_empty());
        // Exact up to 2⁵³, beyond which a size passes through a number that has no place for its last digits.
        if bytes <= 1 << 53 {
            assert_eq!(units::parse_size(&bytes.to_string()), Ok(bytes), "{text:?}");
        }
    }
    let _ = units::parse_duration(text);
    if let Ok(rate) = units::parse_rate(text) {
        assert!(rate.is_finite() && rate > 0.0, "{text:?} is {rate}");
        assert!(!units::show_bits_rate(rate).is_empty() && !units::show_bytes_rate(rate).is_empty());
    }
}

/// fio's job files: jobs that can be done, or short reasons, each with a line that is there.
pub fn fio_job(input: &[u8]) {
    use linerate::measure::access::fio_job;
    let Ok(text) = std::str::from_utf8(input) else { return };
    match fio_job::parse(text) {
        Ok(jobs) => {
            assert!(!jobs.is_empty());
            for job in jobs {
                assert!(job.workers > 0 && job.queue_depth > 0 && job.transfer_bytes > 0, "{job:?}");
                assert!(!job.sources.is_empty() && job.amount_bytes != Some(0), "{job:?}");
                let rates = [job.seconds, job.requests_per_second, job.limit_bytes_per_second];
                assert!(rates.into_iter().flatten().all(|value| value.is_finite() && value > 0.0), "{job:?}");
            }
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            for error in errors.0 {
                assert!(error.line >= 1 && error.line <= text.lines().count().max(1), "{error}");
                let said = error.to_string();
                assert!(!said.chars().any(char::is_control) && said.chars().count() < 500, "{said:?}");
            }
        }
    }
}

/// CPU lists and masks, peers, addresses to listen on, keys.
pub fn words(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for ids in [cpu_list::parse_list(text), cpu_list::parse_mask(text)].into_iter().flatten() {
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{text:?}: ascending, each once");
        assert!(ids.last().is_none_or(|last| *last <= 65_535), "{text:?}");
        assert_eq!(cpu_list::parse_list(&cpu_list::show(&ids)), Some(ids), "{text:?}");
    }
    if let Some((host, port)) = fuzzing::peer_form(text) {
        assert!(port > 0 && !host.is_empty() && host.len() <= 253, "{text:?}");
        assert!(
            !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c)),
            "{text:?}"
        );
    }
    if let Ok(key) = Key::from_hex(text) {
        assert_eq!(key.to_hex(), text.trim().to_ascii_lowercase());
    }
    let _ = linerate::address::listen_address(text, std::net::Ipv6Addr::UNSPECIFIED.into(), Some(7411));
}
