//! What an agent prints of iperf3's clients: a line for each test, on a thread of its own, for who reads our
//! output may have stopped to.

use super::output::Output;
use linerate_facts::units::show_bits_rate;
use linerate_system::clock;
use linerate_transport::iperf3::ServerEvent;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines that wait to be read; more are dropped.
const WAITING: usize = 64;
/// The last lines get this long to be written.
const FAREWELL: Duration = Duration::from_millis(300);

/// Writes lines that nobody need read.
pub(super) struct EventPrinter {
    lines: Option<SyncSender<String>>,
    /// None where no thread was to be had: nothing is printed then.
    writer: Option<JoinHandle<()>>,
}

impl EventPrinter {
    /// To standard output.
    pub(super) fn start(output: &Output) -> EventPrinter {
        let output = output.clone();
        EventPrinter::writing(move |line| {
            // Nobody may read it any more.
            let _ = output.print(line);
        })
    }

    fn writing(write: impl Fn(&str) + Send + 'static) -> EventPrinter {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let writer = std::thread::Builder::new().name("events".into());
        let writer = writer.spawn(move || waiting.iter().for_each(|line| write(&line)));
        EventPrinter { lines: Some(lines), writer: writer.ok() }
    }

    /// Tells of a test that ended, and of a client that got none.
    pub(super) fn print(&self, event: &ServerEvent) {
        if let (Some(lines), Some(line)) = (&self.lines, line(event)) {
            // Full: anyone who reads has not for a while.
            let _ = lines.try_send(line);
        }
    }
}

impl Drop for EventPrinter {
    fn drop(&mut self) {
        self.lines = None;
        let patience = clock::now() + FAREWELL;
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && clock::now() < patience {
            // The agent has ended: no stop shortens this.
            clock::sleep(Duration::from_millis(5));
        }
    }
}

fn line(event: &ServerEvent) -> Option<String> {
    match event {
        ServerEvent::Ended(outcome) => {
            let from = outcome.addresses.map_or_else(String::new, |(_, client)| format!(" of {client}"));
            let rate = |ours| show_bits_rate(outcome.received_bytes_per_second(ours));
            let error = outcome.error.as_ref().map_or_else(String::new, |why| format!("; {why}"));
            Some(format!("iperf3 test{from}: {} received, {} sent{error}\n", rate(false), rate(true)))
        }
        ServerEvent::Refused { client, why } => Some(format!("iperf3 client {client} refused: {why}\n")),
        ServerEvent::Started { .. } | ServerEvent::Progress(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    fn refused() -> ServerEvent {
        ServerEvent::Refused { client: ([192, 0, 2, 1], 5201).into(), why: "busy".into() }
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let written = Arc::new(AtomicUsize::new(0));
        let (writing, began) = (written.clone(), Instant::now());
        let printer = EventPrinter::writing(move |_| {
            writing.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(3600));
        });
        (0..10 * WAITING).for_each(|_| printer.print(&refused()));
        drop(printer);
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(written.load(Ordering::Relaxed) <= 1);
    }

    #[test]
    fn the_last_line_is_written() {
        let (sender, lines) = std::sync::mpsc::channel();
        let printer =
            EventPrinter::writing(move |line| sender.send(line.to_string()).expect("somebody listens"));
        printer.print(&refused());
        drop(printer);
        let line = lines.recv_timeout(Duration::from_secs(10)).expect("a line");
        assert_eq!(line, "iperf3 client 192.0.2.1:5201 refused: busy\n");
    }
}
