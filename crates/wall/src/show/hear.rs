//! What the server says to a screen, and what the screen asks of it.

use super::check::{Against, Checker, ServerSums};
use super::gate::Expected;
use super::screen::{Origin, Screen};
use crate::control::{Assignment, ControlMessage, ControlRequest};
use crate::timeline::Timeline;

impl Screen {
    /// What the server says.
    pub fn hear(&mut self, message: ControlMessage, now: i64) {
        match message {
            ControlMessage::Assignment(assignment) => self.assign(assignment),
            ControlMessage::Timeline(timeline) => self.follow(timeline),
            // For servers that follow.
            ControlMessage::Lead(_) => {}
            ControlMessage::Show { tick } => self.released = self.released.max(Some(tick)),
            ControlMessage::Sums { from, sums, .. } => {
                if let Some(checker) = &mut self.checker {
                    checker.take_sums(from, &sums);
                }
            }
            ControlMessage::Refused { why } => self.tally.problem(format!("the server says: {why}")),
            ControlMessage::Done | ControlMessage::Status(_) | ControlMessage::Movies { .. } => {}
        }
        if let Some(checker) = &mut self.checker {
            checker.look_again(self.timeline.as_ref(), now);
        }
    }

    fn assign(&mut self, assignment: Assignment) {
        let Assignment { tile, size, ssrc, from, timeline, stamped } = assignment;
        self.tile = Some(tile);
        self.tally.assigned = true;
        self.gate.expect(Expected { ssrc, from });
        if self.order.rate.is_none() || self.order.rate == Some(timeline.frames_per_second) {
            self.set_rate(timeline.frames_per_second, Origin::Server);
        }
        if size.width == 0 || size.height == 0 || self.order.size.is_some_and(|expected| expected != size) {
            self.tally.problem(format!("the server sends {size}, another size was given here: that is kept"));
        } else if self.size.is_none_or(|(known, _)| known != size) {
            self.set_size(size, Origin::Server);
        }
        if self.order.verify && self.checker.as_ref().is_none_or(|checker| checker.by() == "stamp") {
            let server = || Against::Server(ServerSums::default());
            let fresh = self.checker.as_ref().is_none_or(|checker| checker.proven + checker.wrong == 0);
            if !stamped && fresh {
                self.checker = Some(Checker::new(server(), size, Some(tile)));
            }
        }
        self.timeline = Some(timeline);
    }

    fn follow(&mut self, timeline: Timeline) {
        if self.timeline.as_ref().is_some_and(|known| known.generation != timeline.generation)
            && let Some(checker) = &mut self.checker
        {
            checker.forget_sums();
        }
        self.timeline = Some(timeline);
    }

    /// What is to be said to the server.
    pub fn requests(&mut self) -> impl Iterator<Item = ControlRequest> + use<'_> {
        if let (Some(checker), Some(tile)) = (&mut self.checker, self.tile) {
            self.requests.extend(checker.wants().map(|(from, count)| ControlRequest::Sums {
                tile,
                from,
                count,
            }));
        }
        self.requests.drain(..)
    }

    /// What has waited too long for news is judged now.
    pub(crate) fn look_again(&mut self, now: i64) {
        if let Some(checker) = self.checker.as_mut().filter(|checker| checker.is_waiting()) {
            checker.look_again(self.timeline.as_ref(), now);
        }
    }
}
