//! `linerate load`: the words made into a search, the library called, the curve printed and saved.

use super::commands::{colour, complain, summary, width};
use super::output::FormatWord;
use super::progress::Progress;
use super::stop::{Saved, end_what_hangs, stop_on_signals};
use super::words::LoadWords;
use crate::failure::Failure;
use crate::measure::access::Permissions;
use crate::report::{self, Folder};
use crate::run::StageRun;
use crate::run::load::{LoadOrder, Search, conduct_load};
use crate::sysroot::Sysroot;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Most users in a closed loop, most requests in flight in an open one, where none is told.
const USUAL_WORKERS: (u32, u32) = (4096, 256);

/// Measures, prints, saves.
pub fn load(words: &LoadWords) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let order = order(words)?;
    if let Some(folder) = words.output.folder() {
        Folder::check(Some(folder))?;
    }
    let saved = Saved::default();
    end_what_hangs(&stop, &saved)?;
    let mut folder: Option<Folder> = None;
    let mut save = |run: &StageRun| -> Result<(), Failure> {
        let Some(path) = words.output.folder() else {
            // From here on Ctrl-C ends with what was measured.
            saved.lock().get_or_insert_with(Default::default);
            return Ok(());
        };
        if let Some(folder) = &folder {
            return folder.save(run);
        }
        let mut place = saved.lock();
        let new = Folder::begin(Some(path), run)?;
        *place = Some(new.path().to_path_buf());
        folder = Some(new);
        Ok(())
    };
    let mut progress = Progress::new();
    let conducted = conduct_load(&Sysroot::live(), &order, &stop, &mut progress, &mut save);
    progress.finish();
    let mut run = conducted?;
    let page = folder.as_ref().map(|folder| folder.save_report(&run));
    run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
    show(&run, words, folder.as_ref())
}

fn order(words: &LoadWords) -> Result<LoadOrder, Failure> {
    if words.amount < words.transfer {
        return Err(Failure::Usage(format!(
            "--amount {}: smaller than one request of {} bytes; give a larger --amount or a smaller --transfer",
            words.amount, words.transfer
        )));
    }
    let search = match (words.rate, words.find_rate) {
        (Some(rate), _) => Search::Rate(rate),
        (None, true) => Search::HighestRate,
        (None, false) => Search::Users,
    };
    let usual = if search == Search::Users { USUAL_WORKERS.0 } else { USUAL_WORKERS.1 };
    Ok(LoadOrder {
        name: words.name.clone(),
        sources: if words.source.is_empty() { vec![PathBuf::from(".")] } else { words.source.clone() },
        search,
        keep: words.keep,
        transfer_bytes: words.transfer,
        read_share: words.read_share / 100.0,
        order: words.pattern,
        file_bytes: words.amount,
        workers: words.workers.unwrap_or(usual),
        direct: !words.buffered,
        seconds: words.seconds,
        repeats: words.repeats,
        seed: words.seed,
        permissions: Permissions {
            destroy_data: words.destroy_data.clone(),
            keep: false,
            shorten_after: None,
        },
        io_uring: !words.no_io_uring,
    })
}

/// The result on standard output; what failed on standard error.
fn show(run: &StageRun, words: &LoadWords, folder: Option<&Folder>) -> Result<u8, Failure> {
    words.output.print(run, folder, || report::stage_terminal(run, width(), colour()))?;
    let read_by_a_program = words.output.format() != FormatWord::Text;
    if let (Some(summary), true) =
        (summary(&run.errors), read_by_a_program || !std::io::stdout().is_terminal())
    {
        complain(&summary);
    }
    Ok(u8::from(!run.errors.is_empty()))
}
