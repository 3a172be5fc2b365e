//! `linerate disk`: the words made into a grid, the library called, the table printed and saved.

use super::commands::{colour, complain, summary, width};
use super::fio_job::{self, joined};
use super::output::FormatWord;
use super::progress::Progress;
use super::stop::{Saved, end_what_hangs, stop_on_signals};
use super::words::DiskWords;
use crate::failure::Failure;
use crate::report::{self, Folder};
use crate::run::StageRun;
use crate::run::disk::{DiskOrder, Grid, conduct_disk};
use crate::sysroot::Sysroot;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

/// Length of a measurement where none is told: four cells, three visits, and the writing of the file take less than a minute.
const USUAL_SECONDS: f64 = 2.0;

/// Measures, prints, saves.
pub fn disk(words: &DiskWords) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let parts = parts(words)?;
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
    let conducted = conduct_all(&parts, &stop, &mut progress, &mut save);
    progress.finish();
    let mut run = conducted?;
    let page = folder.as_ref().map(|folder| folder.save_report(&run));
    run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
    show(&run, words, folder.as_ref())
}

/// What is done one after the other: the grid of the command line, or each section of a job file under its name.
fn parts(words: &DiskWords) -> Result<Vec<(Option<String>, DiskOrder)>, Failure> {
    let Some(file) = &words.fio_job else {
        return Ok(vec![(None, order(words, words.job.grid(USUAL_SECONDS)))]);
    };
    let mut parts = Vec::new();
    for job in fio_job::read(file)? {
        job.notes.iter().for_each(|note| complain(&format!("[{}] {note}", job.name)));
        let mut order = order(words, fio_job::grid(&job, &words.job));
        order.name = order.name.or_else(|| Some(file.file_stem()?.to_string_lossy().into_owned()));
        parts.push((Some(job.name), order));
    }
    Ok(parts)
}

fn order(words: &DiskWords, grid: Grid) -> DiskOrder {
    DiskOrder {
        name: words.name.clone(),
        grid,
        permissions: words.job.permissions(),
        repeats: words.repeats,
        rounds: words.rounds,
        steady_state: words.steady_state,
        scaling: words.scaling,
        drop_caches: words.drop_caches,
        discard: words.discard,
        fill: words.fill,
        io_uring: !words.job.no_io_uring,
    }
}

/// All parts into one result. What fails after the first figure is told in it.
fn conduct_all(
    parts: &[(Option<String>, DiskOrder)],
    stop: &AtomicBool,
    progress: &mut Progress,
    save: &mut dyn FnMut(&StageRun) -> Result<(), Failure>,
) -> Result<StageRun, Failure> {
    let mut whole: Option<StageRun> = None;
    for (section, order) in parts {
        let section = section.as_deref();
        let before = whole.clone();
        let mut save_all = |run: &StageRun| save(&joined(before.as_ref(), run, section));
        match (conduct_disk(&Sysroot::live(), order, stop, progress, &mut save_all), &mut whole) {
            (Ok(run), _) => whole = Some(joined(before.as_ref(), &run, section)),
            (Err(failure), None) => return Err(failure),
            (Err(failure), Some(whole)) => {
                whole.errors.push(
                    section.map_or_else(String::new, |name| format!("[{name}] ")) + &failure.to_string(),
                );
                break;
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    whole.ok_or(Failure::Interrupted)
}

/// The result on standard output; what failed on standard error.
fn show(run: &StageRun, words: &DiskWords, folder: Option<&Folder>) -> Result<u8, Failure> {
    words.output.print(run, folder, || report::access(run, width(), colour()))?;
    let read_by_a_program = words.output.format() != FormatWord::Text;
    if let (Some(summary), true) =
        (summary(&run.errors), read_by_a_program || !std::io::stdout().is_terminal())
    {
        complain(&summary);
    }
    Ok(u8::from(!run.errors.is_empty()))
}
