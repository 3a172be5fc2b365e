//! The pace of the sources: each has a thread of its own, is asked when it is due, and waited for only until
//! a deadline. One that hangs in the kernel (a sysfs file of a driver that is stuck) is named and not asked
//! again until it has answered; the others go on.

use linerate_system::clock;
use linerate_system::counters::{looked_on, thread_cpu};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A source is asked so seldom that it costs no more than 1/400 of a core.
const COST: u32 = 400;
/// Sources need little: what they read goes to the heap.
const STACK_BYTES: usize = 512 << 10;

/// A source has no thread.
#[derive(Debug, thiserror::Error)]
#[error("no thread to read {name} with: {error}")]
pub struct NoThread {
    name: &'static str,
    error: std::io::Error,
}

/// Something that is read again and again.
#[derive(Debug)]
pub struct PolledSource<T> {
    name: &'static str,
    /// At most this often.
    every: Duration,
    /// It costs so much that it is asked more seldom than `every`, where it must.
    sparing: bool,
    /// So many answers more cost what they cost: with them it learns what is there.
    learning: u32,
    /// Longer without an answer, and it is called slow.
    patience: Duration,
    questions: Sender<()>,
    answers: Receiver<(T, Duration)>,
    asked: Option<Instant>,
    due: Instant,
    latest: Option<Arc<T>>,
}

impl<T: Send + 'static> PolledSource<T> {
    /// Starts its thread, which ends with the source.
    pub fn start(
        name: &'static str,
        every: Duration,
        patience: Duration,
        mut read: impl FnMut() -> T + Send + 'static,
    ) -> Result<Self, NoThread> {
        let (questions, asked) = channel::<()>();
        let (answer, answers) = channel();
        let work = move || {
            while asked.recv().is_ok() {
                let before = thread_cpu();
                let read = read();
                let cost = thread_cpu().saturating_sub(before);
                looked_on(cost);
                if answer.send((read, cost)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(work);
        thread.map_err(|error| NoThread { name, error })?;
        Ok(PolledSource {
            name,
            every,
            sparing: false,
            learning: 0,
            patience,
            questions,
            answers,
            asked: None,
            due: clock::now(),
            latest: None,
        })
    }

    /// Asked more seldom than it might be, where it costs much.
    pub(crate) fn sparing(mut self) -> Self {
        self.sparing = true;
        self
    }

    /// What its first answers cost does not make it wait.
    pub(crate) fn learning(mut self, answers: u32) -> Self {
        self.learning = answers;
        self
    }

    /// Asks, where it is due and has answered what it was asked before.
    pub fn ask(&mut self, now: Instant) {
        self.take();
        // Half a tick early is on time: the sampler's own ticks are not exact.
        if self.asked.is_none() && now + self.every / 8 >= self.due && self.questions.send(()).is_ok() {
            self.asked = Some(now);
            self.due = now + self.every;
        }
    }

    /// Waits for its answer until then, where one is due.
    pub fn wait(&mut self, until: Instant) {
        while self.asked.is_some() {
            let left = until.saturating_duration_since(clock::now());
            match self.answers.recv_timeout(left) {
                Ok(answer) => self.answered(answer),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes an answer that has come.
    fn take(&mut self) {
        while let Ok(answer) = self.answers.try_recv() {
            self.answered(answer);
        }
    }

    fn answered(&mut self, (read, cost): (T, Duration)) {
        if self.learning > 0 {
            self.learning -= 1;
        } else if let (true, Some(asked)) = (self.sparing, self.asked) {
            self.due = self.due.max(asked + cost * COST);
        }
        self.asked = None;
        self.latest = Some(Arc::new(read));
    }

    /// The newest answer, if there is one yet.
    pub fn latest(&mut self) -> Option<Arc<T>> {
        self.take();
        self.latest.clone()
    }

    /// In words, where it keeps one waiting.
    pub fn slow(&self, now: Instant) -> Option<String> {
        let waited = now.saturating_duration_since(self.asked?);
        let words = match waited.as_secs() {
            0 => format!("{}: no answer for {} ms", self.name, waited.as_millis()),
            seconds => format!("{}: no answer for {seconds} s", self.name),
        };
        (waited >= self.patience).then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn one_that_answers_is_read_each_time_it_is_due() {
        let mut count = 0;
        let mut source = PolledSource::start("counter", Duration::ZERO, SHORT, move || {
            count += 1;
            count
        })
        .expect("a thread");
        for expected in 1..=5 {
            let now = Instant::now();
            source.ask(now);
            source.wait(now + Duration::from_secs(10));
            assert_eq!(source.latest().as_deref(), Some(&expected));
            assert_eq!(source.slow(Instant::now()), None);
        }
        source.every = Duration::from_secs(3600);
        source.ask(Instant::now());
        source.wait(Instant::now() + Duration::from_secs(10));
        source.ask(Instant::now());
        source.wait(Instant::now() + SHORT);
        assert_eq!(source.latest().as_deref(), Some(&6), "not due again");
    }

    #[test]
    fn one_that_hangs_is_named_and_left_alone_until_it_answers() {
        let hanging = Arc::new(Mutex::new(()));
        let (held, inside) = (hanging.lock().expect("a lock"), Arc::clone(&hanging));
        let mut count = 0;
        let mut source = PolledSource::start("hung", Duration::ZERO, SHORT, move || {
            drop(inside.lock());
            count += 1;
            count
        })
        .expect("a thread");
        for _ in 0..3 {
            let now = Instant::now();
            source.ask(now);
            source.wait(now + SHORT);
            assert!(now.elapsed() < Duration::from_secs(5), "it waited for what hangs");
            assert_eq!(source.latest(), None);
        }
        std::thread::sleep(SHORT);
        assert!(source.slow(Instant::now()).is_some_and(|words| words.starts_with("hung: no answer for ")));
        drop(held);
        source.wait(Instant::now() + Duration::from_secs(10));
        assert_eq!(source.latest().as_deref(), Some(&1), "asked once only");
        assert_eq!(source.slow(Instant::now()), None);
    }

    #[test]
    fn one_that_costs_much_is_asked_seldom() {
        let mut source = PolledSource::start("dear", SHORT, SHORT, || {
            let before = thread_cpu();
            while thread_cpu().saturating_sub(before) < SHORT {}
        })
        .expect("a thread")
        .sparing()
        .learning(1);
        let now = Instant::now();
        source.ask(now);
        source.wait(now + Duration::from_secs(10));
        assert!(source.due < now + SHORT * COST, "the first answer does not count");
        let now = now + SHORT;
        source.ask(now);
        source.wait(now + Duration::from_secs(10));
        assert!(source.due >= now + SHORT * COST, "10 ms of work is for 4 s");
    }
}
