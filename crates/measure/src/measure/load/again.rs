//! A step that fails is taken once more: one error of a device shall not end a search of minutes, and shall
//! not be hidden either.

use super::{LoadEnd, LoadPoint};

/// What takes steps, and is told of those that failed.
pub trait Taker {
    /// A step: its point, and what failed in it.
    fn once(&mut self) -> Result<(LoadPoint, Vec<String>), LoadEnd>;

    /// It failed, and is taken again.
    fn failed(&mut self, error: &str);

    /// It failed, and went well when it was taken again.
    fn went_well(&mut self, error: &str);
}

/// The point of a step in which nothing failed: the first, or the second. What failed in the second as well
/// ends the search.
pub fn twice(taker: &mut impl Taker) -> Result<LoadPoint, LoadEnd> {
    let (point, errors) = taker.once()?;
    let Some(error) = errors.into_iter().next() else { return Ok(point) };
    taker.failed(&error);
    let (point, errors) = taker.once()?;
    match errors.into_iter().next() {
        Some(again) => Err(LoadEnd::Failed(again)),
        None => {
            taker.went_well(&error);
            Ok(point)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::super::{Keep, Offer, RequestServer, Searched, Statistic, closed, highest_rate};
    use super::*;

    /// A simulated device that fails in some of its steps, counted from 1.
    struct Failing {
        device: Simulated,
        fails_in: Vec<u32>,
        taken: u32,
        messages: Vec<String>,
    }

    impl Failing {
        fn in_steps(fails_in: &[u32]) -> Self {
            let device = Simulated { noise: 0.0, ..Simulated::new(5000.0, 0.002, 7) };
            Failing { device, fails_in: fails_in.to_vec(), taken: 0, messages: Vec::new() }
        }

        fn search(&mut self) -> Searched {
            closed(self, Keep { of: Statistic::Mean, limit: 0.02 }, 256)
        }
    }

    struct Step<'a>(&'a mut Failing, Offer);

    impl Taker for Step<'_> {
        fn once(&mut self) -> Result<(LoadPoint, Vec<String>), LoadEnd> {
            let Step(failing, offer) = self;
            failing.taken += 1;
            let mut point = failing.device.step(*offer)?;
            if !failing.fails_in.contains(&failing.taken) {
                return Ok((point, Vec::new()));
            }
            // What a step with an error measured is not to be believed.
            point.operations_per_second = 1.0;
            Ok((point, vec![format!("EIO in step {}", failing.taken), "and another".into()]))
        }

        fn failed(&mut self, error: &str) {
            self.0.messages.push(format!("again: {error}"));
        }

        fn went_well(&mut self, error: &str) {
            self.0.messages.push(format!("well: {error}"));
        }
    }

    impl RequestServer for Failing {
        fn step(&mut self, offer: Offer) -> Result<LoadPoint, LoadEnd> {
            twice(&mut Step(self, offer))
        }
    }

    fn rates(searched: &Searched) -> Vec<(u32, f64)> {
        searched.curve.points.iter().map(|point| (point.workers, point.operations_per_second)).collect()
    }

    #[test]
    fn one_error_is_reported_and_changes_nothing() {
        let without = Failing::in_steps(&[]).search();
        assert!(rates(&without).len() > 4 && without.ended.is_none(), "{without:?}");
        for step in [1, 2, 4] {
            let mut failing = Failing::in_steps(&[step]);
            let searched = failing.search();
            assert_eq!(rates(&searched), rates(&without));
            assert_eq!(searched.ended, None);
            let error = format!("EIO in step {step}");
            assert_eq!(failing.messages, [format!("again: {error}"), format!("well: {error}")]);
        }
    }

    #[test]
    fn an_error_that_comes_again_ends_the_search_with_what_was_measured() {
        let without = rates(&Failing::in_steps(&[]).search());
        let mut failing = Failing::in_steps(&[3, 4]);
        let searched = failing.search();
        assert_eq!(searched.ended, Some(LoadEnd::Failed("EIO in step 4".into())));
        let kept = rates(&searched);
        assert!(!kept.is_empty() && kept.len() < without.len(), "{searched:?}");
        assert!(kept.iter().all(|point| without.contains(point)), "{searched:?}");
        assert_eq!(failing.messages, ["again: EIO in step 3"]);
        assert_eq!(failing.taken, 4);
    }

    #[test]
    fn a_stop_in_the_second_try_is_a_stop() {
        let mut failing = Failing::in_steps(&[1]);
        failing.device.ends_after = Some(1);
        let searched = highest_rate(&mut failing, Keep { of: Statistic::P99, limit: 0.02 }, 256);
        assert_eq!(searched.ended, Some(LoadEnd::Stopped));
        assert!(searched.curve.points.is_empty());
    }
}
