//! Whether a screen is there: what its host, the network and itself have answered to what was sent.
//!
//! A screen may come after the server and leave before it, so what was true is not what is: each answer has
//! its time, and what a screen says itself overrules what its host said before.

use std::time::Duration;

/// After it was refused last a screen counts as one that does not listen for so long: a host tells of it once
/// a second only (<https://www.kernel.org/doc/html/latest/networking/ip-sysctl.html>, icmp_ratelimit).
const REFUSED: Duration = Duration::from_secs(2);
/// The same for what the network says: a neighbour that does not answer is given up after three seconds, and
/// asked again.
const UNTAKEN: Duration = Duration::from_secs(4);
/// Samples that lie farther apart are no look at the last second but the account at the end.
const ACCOUNT: f64 = 2.0;

/// What has come back. Times are nanoseconds since 1970, 0 is never.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Times that the host said that nobody listens, between the samples.
    pub refusals: u64,
    pub refused_at: u64,
    /// When the screen told last of datagrams that it got.
    pub heard_at: u64,
    /// Why the network did not take something, and when.
    pub network: Option<(String, u64)>,
    /// The screen has told something once, and then nothing for so long that it is to be named.
    pub silent: Option<Duration>,
}

impl Answers {
    /// What is wrong with the way to this screen now; of samples `seconds` apart that are the account at the
    /// end: what was.
    pub(crate) fn problem(&self, screen: &str, seconds: f64, now: u64) -> Option<String> {
        let within = |at: u64, time: Duration| at > 0 && u128::from(now.saturating_sub(at)) < time.as_nanos();
        let account = seconds >= ACCOUNT;
        if within(self.refused_at, REFUSED) && self.heard_at <= self.refused_at {
            return Some(format!("screen {screen} does not listen: its host refuses what is sent there"));
        }
        if let Some((why, at)) = &self.network
            && (account || within(*at, UNTAKEN))
        {
            let now = within(*at, UNTAKEN);
            let what = if now { "refuses what is sent" } else { "refused for a time what was sent" };
            return Some(format!("the network {what}: {why}"));
        }
        if let Some(silent) = self.silent {
            let seconds = silent.as_secs();
            return Some(format!("screen {screen} has reported nothing for {seconds} s: did it end?"));
        }
        (account && self.refusals > 0).then(|| {
            format!(
                "screen {screen} did not listen all the time: its host refused what was sent there meanwhile"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1_700_000_000 * SECOND;

    fn told(answers: &Answers, seconds: f64) -> String {
        answers.problem("here:5004", seconds, NOW).unwrap_or_default()
    }

    #[test]
    fn a_screen_that_came_later_is_forgiven() {
        let absent = Answers { refusals: 9, refused_at: NOW - SECOND, ..Answers::default() };
        assert!(told(&absent, 1.0).contains("does not listen"));
        assert!(told(&absent, 60.0).contains("does not listen"), "it is not there at the end either");
        let came = Answers { heard_at: NOW - SECOND / 2, ..absent };
        assert_eq!(told(&came, 1.0), "", "it tells itself that it hears");
        assert!(told(&came, 60.0).contains("did not listen all the time"));
        let stock = Answers { refusals: 9, refused_at: NOW - 3 * SECOND, ..Answers::default() };
        assert_eq!(told(&stock, 1.0), "", "a stock receiver tells nothing, but is not refused any more");
        let left = Answers { heard_at: NOW - SECOND, refused_at: NOW - SECOND / 2, ..Answers::default() };
        assert!(told(&left, 1.0).contains("does not listen"));
        assert_eq!(told(&Answers::default(), 60.0), "");
    }

    #[test]
    fn what_the_network_did_not_take_is_named_while_it_lasts_and_at_the_end() {
        let of = |at: u64| Answers { network: Some(("no route".into(), at)), ..Answers::default() };
        assert_eq!(told(&of(NOW - 2 * SECOND), 1.0), "the network refuses what is sent: no route");
        assert_eq!(told(&of(NOW - 9 * SECOND), 1.0), "");
        assert_eq!(
            told(&of(NOW - 9 * SECOND), 60.0),
            "the network refused for a time what was sent: no route"
        );
    }

    #[test]
    fn one_that_fell_silent_is_named() {
        let silent = Answers { silent: Some(Duration::from_secs(7)), ..Answers::default() };
        assert!(told(&silent, 1.0).contains("has reported nothing for 7 s"));
    }
}
