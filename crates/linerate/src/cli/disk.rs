//! `linerate disk`: the words made into a grid, the library called, the table printed and saved.

use super::commands::{colour, complain, print, summary, width};
use super::progress::Progress;
use super::stop::{Saved, end_what_hangs, stop_on_signals};
use super::words::DiskWords;
use crate::failure::Failure;
use crate::report::{self, Folder};
use crate::run::StageRun;
use crate::run::disk::{DiskOrder, conduct_disk};
use crate::sysroot::Sysroot;
use std::io::IsTerminal;

/// Length of a measurement where none is told: four cells, three visits, and the writing of the file take less than a minute.
const USUAL_SECONDS: f64 = 2.0;

/// Measures, prints, saves.
pub fn disk(words: &DiskWords) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let order = DiskOrder {
        name: words.name.clone(),
        grid: words.job.grid(USUAL_SECONDS),
        permissions: words.job.permissions(),
        repeats: words.repeats,
        rounds: words.rounds,
        steady_state: words.steady_state,
        scaling: words.scaling,
        drop_caches: words.drop_caches,
        discard: words.discard,
        fill: words.fill,
        io_uring: !words.job.no_io_uring,
    };
    if let Some(folder) = &words.output {
        Folder::check(Some(folder))?;
    }
    let saved = Saved::default();
    end_what_hangs(&stop, &saved)?;
    let mut folder: Option<Folder> = None;
    let mut save = |run: &StageRun| -> Result<(), Failure> {
        let Some(path) = &words.output else {
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
    let conducted = conduct_disk(&Sysroot::live(), &order, &stop, &mut progress, &mut save);
    progress.finish();
    let mut run = conducted?;
    let page = folder.as_ref().map(|folder| folder.save_report(&run));
    run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
    show(&run, words, folder.as_ref())
}

/// The table or the JSON on standard output; what failed on standard error.
fn show(run: &StageRun, words: &DiskWords, folder: Option<&Folder>) -> Result<u8, Failure> {
    if words.json {
        print(&report::json(run))?;
    } else {
        print(&report::access(run, width(), colour()))?;
        if let Some(folder) = folder {
            let path = folder.path().display();
            print(&format!("saved: {path}/run.json, {path}/report.html\n"))?;
        }
    }
    if let (Some(summary), true) = (summary(&run.errors), words.json || !std::io::stdout().is_terminal()) {
        complain(&summary);
    }
    Ok(u8::from(!run.errors.is_empty()))
}
