//! What is said of a long path: the rate, the arithmetic, what to change.

use super::{CongestionControl, LongPath, LongPathSpec, StreamWindow};
use crate::verdict::LimitKind;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_facts::wording::capitalised;

impl LongPath {
    pub(super) fn words(&self, spec: &LongPathSpec, segment: f64, link: Option<f64>) -> Vec<String> {
        let mut sentences = vec![self.first_sentence(spec)];
        sentences.extend(self.why(spec, segment));
        sentences.extend(self.remedy(spec, link));
        if let Some(seconds) = self.slow_start_seconds.filter(|seconds| *seconds >= 0.1) {
            sentences.push(format!(
                "A stream that begins needs about {seconds:.1} s until it has that: short transfers are slower."
            ));
        }
        sentences
    }

    fn first_sentence(&self, spec: &LongPathSpec) -> String {
        let trip = milliseconds(self.round_trip_seconds);
        let who = match self.streams {
            1 => "One stream".to_string(),
            many => format!("{many} streams"),
        };
        let carry = if self.streams == 1 { "carries" } else { "carry" };
        let Some(rate) = self.bytes_per_second else {
            return format!(
                "What {} carries over {trip} is unknown: neither a rate nor a window is known (--window gives one).",
                who.to_lowercase()
            );
        };
        let rate = match self.interval {
            Some([low, high]) => {
                format!("{} ({} to {})", show_bits_rate(rate), show_bits_rate(low), show_bits_rate(high))
            }
            None => show_bits_rate(rate),
        };
        let lossy = spec.loss.filter(|loss| *loss > 0.0);
        let lossy = lossy.map_or(String::new(), |loss| format!(" with a loss of {} %", percent(loss)));
        if self.by_window.is_none() && self.kind != LimitKind::Loss {
            return format!("The rest of the flow allows {rate} over {trip}{lossy}; the window is unknown.");
        }
        let limit = match self.kind {
            LimitKind::Window => "the window is the limit",
            LimitKind::Loss => "the loss is the limit",
            _ => "the way is not the limit",
        };
        format!("{who} {carry} {rate} over {trip}{lossy}: {limit}.")
    }

    /// The arithmetic.
    fn why(&self, spec: &LongPathSpec, segment: f64) -> Option<String> {
        let trip = milliseconds(self.round_trip_seconds);
        let streams = f64::from(self.streams);
        let each = |rate: f64| show_bits_rate(rate / streams);
        match self.kind {
            LimitKind::Window => {
                let (window, rate) = (spec.window?, self.by_window?);
                Some(format!(
                    "{} lets {} of a stream be under way, which is {} in a round trip of {trip}.",
                    capitalised(&window.words()),
                    show_size(window.usable_bytes() as u64),
                    each(rate)
                ))
            }
            LimitKind::Loss => {
                let (how, rate) = (spec.congestion_control.as_ref()?, self.by_loss?);
                let segments = rate / streams * self.round_trip_seconds / segment;
                Some(format!(
                    "{} keeps {segments:.0} segments of {segment:.0} bytes under way on the average, which is {} of \
                     a stream (RFC 9438's response function).",
                    capitalised(how.name()),
                    each(rate)
                ))
            }
            _ => None,
        }
    }

    fn remedy(&self, spec: &LongPathSpec, link: Option<f64>) -> Option<String> {
        let link = link?;
        let trip = milliseconds(self.round_trip_seconds).replace(' ', "");
        let streams = match self.streams_to_fill {
            Some(count) if count > self.streams => format!("{count} streams like these"),
            _ => "more streams".to_string(),
        };
        let other_control = || match &spec.congestion_control {
            Some(CongestionControl::Other(_)) | None => "",
            Some(_) => ", or bbr, which loss like this does not slow",
        };
        match self.kind {
            LimitKind::Window => {
                let ([send, receive], window) = (self.buffers_to_fill_bytes?, self.window_to_fill_bytes?);
                let tune = match spec.window {
                    Some(StreamWindow::Given(_)) => String::new(),
                    _ => format!("; linerate tune apply --rtt {trip} sets them on both hosts"),
                };
                Some(format!(
                    "{} would flow with {} under way of each stream (largest buffers: {} to send, {} to receive{tune}), \
                     or with {streams}.",
                    show_bits_rate(link),
                    show_size(window),
                    show_size(send),
                    show_size(receive),
                ))
            }
            LimitKind::Loss => {
                Some(format!("{} would flow with {streams}{}.", show_bits_rate(link), other_control()))
            }
            _ if self.by_window.is_none() => {
                let ([send, receive], window) = (self.buffers_to_fill_bytes?, self.window_to_fill_bytes?);
                Some(format!(
                    "It takes {} under way of each stream: the largest buffers have to be {} to send \
                     (net.ipv4.tcp_wmem) and {} to receive (net.ipv4.tcp_rmem), or there have to be more streams \
                     (--streams). --window SIZE says what a window carries.",
                    show_size(window),
                    show_size(send),
                    show_size(receive),
                ))
            }
            _ => {
                let unknown = spec.loss.is_some_and(|loss| loss > 0.0) && self.by_loss.is_none();
                let name = spec.congestion_control.as_ref().map_or("congestion control", |how| how.name());
                unknown.then(|| format!("What this loss does to {name} is not known: --congestion-control cubic says it of cubic."))
            }
        }
    }
}

fn milliseconds(seconds: f64) -> String {
    let milliseconds = (seconds * 1e6).round() / 1e3;
    format!("{milliseconds} ms")
}

fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}
