//! What came of `linerate get` and `put`: kept, and printed as text or as the run that is kept.

use super::arguments::TransferArgs;
use super::output::Output;
use super::saving::{keep, summary};
use linerate_deliver::TransferEnd;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::counted;
use linerate_measure::measure::Stage;
use linerate_measure::run::{Run, TransferFile, TransferNic, TransferOutcome};
use linerate_report as report;

/// So many files and failures are printed; the rest is counted, and in the JSON.
const MOST_PRINTED: usize = 10;

/// Keeps it, prints it, and gives the exit status of the contract. `left_out`: a line on what is no file.
pub(super) fn ended(
    mut end: TransferEnd,
    started: String,
    args: &TransferArgs,
    left_out: Option<String>,
    output: &Output,
) -> Result<u8, Failure> {
    end.run.started = started;
    let (status, errors) = (end.exit_status(), end.run.errors.clone());
    let nics = end.run.transfer.iter().flat_map(|transfer| &transfer.nics);
    nics.filter_map(|nic| nic.left_out.as_deref()).for_each(|line| output.complain(line));
    let text = if args.json { report::json(&end.run) } else { text_of(&end.run, left_out) };
    if !args.keeping.no_save {
        keep(&end.kept(), output);
    }
    output.print(&text)?;
    complain_of(&errors, args.json, output);
    Ok(status)
}

/// What failed; in a sentence where the JSON has all of it.
pub(super) fn complain_of(errors: &[String], json: bool, output: &Output) {
    if json {
        return summary(errors).iter().for_each(|sentence| output.complain(sentence));
    }
    errors.iter().take(MOST_PRINTED).for_each(|error| output.complain(error));
    let more = errors.len().saturating_sub(MOST_PRINTED);
    if more > 0 {
        output.complain(&format!("{} more failed; --json lists them all", counted(more as u64, "file")));
    }
}

/// What was moved, and what limited it, last.
fn text_of(run: &Run, left_out: Option<String>) -> String {
    let Some(transfer) = &run.transfer else { return String::new() };
    let is_get = run.stage == Some(Stage::Get);
    let of = |outcome| transfer.files.iter().filter(move |file| file.outcome == outcome);
    let count = |outcome| of(outcome).count() as u64;
    let mut text = not_moved([
        count(TransferOutcome::AlreadyThere),
        count(TransferOutcome::Unfinished),
        count(TransferOutcome::Failed),
    ]);
    text.extend(left_out.map(|line| line + "\n"));
    let moved = of(if is_get { TransferOutcome::Fetched } else { TransferOutcome::Put });
    for file in moved.clone().take(MOST_PRINTED) {
        let name = if is_get { file.path.display().to_string() } else { file.url.clone() };
        text.push_str(&format!("{}: {}{}\n", printable(&name), show_size(file.bytes), comparison(file)));
    }
    let moved = moved.count() as u64;
    if moved > MOST_PRINTED as u64 {
        text.push_str(&format!("{} in all\n", counted(moved, "file")));
    }
    if transfer.repeated_bytes > 0 {
        let repeated = show_size(transfer.repeated_bytes);
        text.push_str(&format!("{repeated} differed from the server's and came twice\n"));
    }
    for TransferNic { nic, bytes, bytes_per_second, .. } in &transfer.nics {
        let (size, rate) = (show_size(*bytes), show_bytes_rate(*bytes_per_second));
        text.push_str(&format!("{size} by {}, {rate}\n", printable(nic)));
    }
    let limit = run.bottleneck();
    if let (Some(measured), Some(limit)) = (run.measurements.first(), limit) {
        let (size, rate) = (show_size(transfer.moved_bytes), measured.bytes_per_second);
        let (bytes_rate, bits_rate) = (show_bytes_rate(rate), show_bits_rate(rate));
        let seconds = measured.seconds;
        text.push_str(&format!("{size} in {seconds:.1} s: {bytes_rate} ({bits_rate}), {}\n", limit.sentence));
    }
    text
}

/// How many files were there already, are unfinished, and failed.
pub(super) fn not_moved(counts: [u64; 3]) -> String {
    let whats = [
        "there already, with the same size and time",
        "unfinished: the same command goes on where it ended",
        "failed",
    ];
    let lines = counts.into_iter().zip(whats).filter(|(count, _)| *count > 0);
    lines.map(|(count, what)| format!("{} {what}\n", counted(count, "file"))).collect()
}

/// What the content of a file was compared by, behind its size.
fn comparison(file: &TransferFile) -> String {
    if file.verified.is_empty() {
        return match file.kept_not_compared_bytes {
            _ if file.outcome == TransferOutcome::Put => String::new(),
            0 => ", not compared".into(),
            already_there => {
                format!(", {} kept from an earlier start, not compared", show_size(already_there))
            }
        };
    }
    let already_there = match file.kept_bytes {
        0 => String::new(),
        already_there => format!(", of which {} were there", show_size(already_there)),
    };
    format!("{already_there}, verified by {}", file.verified.join(" and "))
}
