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
/// A screen that is started with its server may take so long; until then it is not called absent.
pub(crate) const STARTING: Duration = Duration::from_secs(5);

/// What has come back. Times are nanoseconds since 1970, 0 is never.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// When the server began.
    pub began_at: u64,
    /// When the host said last that nobody listens.
    pub refused_at: u64,
    /// When the screen told last of datagrams that it got.
    pub heard_at: u64,
    /// Why the network did not take something, and when.
    pub network: Option<(String, u64)>,
    /// The screen has told something once, and then nothing for so long that it is to be named.
    pub silent: Option<Duration>,
}

impl Answers {
    /// What is wrong with the way to this screen now; in the account at the end: what was.
    pub(crate) fn problem(&self, screen: &str, account: bool, now: u64) -> Option<String> {
        let within = |at: u64, time: Duration| at > 0 && u128::from(now.saturating_sub(at)) < time.as_nanos();
        // The end of the play ends the time to start, too: who was not there then, missed it.
        let starting = self.heard_at == 0 && within(self.began_at, STARTING) && !account;
        if within(self.refused_at, REFUSED) && self.heard_at <= self.refused_at && !starting {
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
        let had_started = self.began_at.saturating_add(STARTING.as_nanos() as u64);
        (account && self.refused_at > had_started).then(|| {
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

    /// While it plays.
    fn live(answers: &Answers) -> String {
        answers.problem("here:5004", false, NOW).unwrap_or_default()
    }

    /// At the end.
    fn account(answers: &Answers) -> String {
        answers.problem("here:5004", true, NOW).unwrap_or_default()
    }

    #[test]
    fn a_screen_that_came_later_is_forgiven() {
        let absent = Answers { refused_at: NOW - SECOND, ..Answers::default() };
        assert!(live(&absent).contains("does not listen"));
        assert!(account(&absent).contains("does not listen"), "it is not there at the end either");
        let came = Answers { heard_at: NOW - SECOND / 2, ..absent };
        assert_eq!(live(&came), "", "it tells itself that it hears");
        assert!(account(&came).contains("did not listen all the time"));
        let stock = Answers { refused_at: NOW - 3 * SECOND, ..Answers::default() };
        assert_eq!(live(&stock), "", "a stock receiver tells nothing, but is not refused any more");
        let left = Answers { heard_at: NOW - SECOND, refused_at: NOW - SECOND / 2, ..Answers::default() };
        assert!(live(&left).contains("does not listen"));
        assert_eq!(account(&Answers::default()), "");
    }

    #[test]
    fn a_screen_has_time_to_start_until_the_play_ends() {
        let begun = |seconds: u64| Answers {
            began_at: NOW - seconds * SECOND,
            refused_at: NOW - SECOND / 2,
            ..Answers::default()
        };
        assert_eq!(live(&begun(3)), "", "it may be starting");
        assert!(account(&begun(3)).contains("does not listen"), "the play is over without it");
        assert!(live(&begun(6)).contains("does not listen"));
        let left = Answers { heard_at: NOW - SECOND, ..begun(3) };
        assert!(live(&left).contains("does not listen"), "it was there and has left");
        let came = Answers { refused_at: NOW - 57 * SECOND, heard_at: NOW, ..begun(60) };
        assert_eq!(account(&came), "", "it came within the time to start");
        let late = Answers { refused_at: NOW - 50 * SECOND, heard_at: NOW, ..begun(60) };
        assert!(account(&late).contains("did not listen all the time"));
        let short = Answers { refused_at: NOW - SECOND, heard_at: NOW, ..begun(2) };
        assert_eq!(account(&short), "", "it came, and the play was short");
    }

    #[test]
    fn what_the_network_did_not_take_is_named_while_it_lasts_and_at_the_end() {
        let of = |at: u64| Answers { network: Some(("no route".into(), at)), ..Answers::default() };
        assert_eq!(live(&of(NOW - 2 * SECOND)), "the network refuses what is sent: no route");
        assert_eq!(live(&of(NOW - 9 * SECOND)), "");
        assert_eq!(account(&of(NOW - 9 * SECOND)), "the network refused for a time what was sent: no route");
    }

    #[test]
    fn one_that_fell_silent_is_named() {
        let silent = Answers { silent: Some(Duration::from_secs(7)), ..Answers::default() };
        assert!(live(&silent).contains("has reported nothing for 7 s"));
    }
}
