//! A benchmark of one stage from its first figure to its end: saved as it goes where that was asked for, printed, what failed told.

use super::commands::{colour, complain, summary, width};
use super::output::{FormatWord, OutputWords};
use super::stop::{Saved, end_what_hangs};
use crate::failure::Failure;
use crate::report::{self, Folder};
use crate::run::StageRun;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where the results go.
pub struct Saving<'a> {
    words: &'a OutputWords,
    saved: Saved,
    folder: Option<Folder>,
}

impl<'a> Saving<'a> {
    /// Refuses a folder that cannot be written, before anything is measured; from now on a Ctrl-C ends what hangs.
    pub fn begin(words: &'a OutputWords, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        if let Some(folder) = words.folder() {
            Folder::check(Some(folder))?;
        }
        let saved = Saved::default();
        end_what_hangs(stop, &saved)?;
        Ok(Saving { words, saved, folder: None })
    }

    /// All that is known after each figure; the folder is made with the first.
    pub fn save(&mut self, run: &StageRun) -> Result<(), Failure> {
        let Some(path) = self.words.folder() else {
            // From here on Ctrl-C ends with what was measured.
            self.saved.lock().get_or_insert_with(Default::default);
            return Ok(());
        };
        if let Some(folder) = &self.folder {
            return folder.save(run);
        }
        let mut place = self.saved.lock();
        let new = Folder::begin(Some(path), run)?;
        *place = Some(new.path().to_path_buf());
        self.folder = Some(new);
        Ok(())
    }

    /// The page beside it, the result on standard output, what failed on standard error; the exit status.
    pub fn finish(self, mut run: StageRun) -> Result<u8, Failure> {
        let page = self.folder.as_ref().map(|folder| folder.save_report(&run));
        run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
        let screen = || report::stage_terminal(&run, width(), colour());
        self.words.print(&run, self.folder.as_ref(), screen)?;
        let read_by_a_program = self.words.format() != FormatWord::Text;
        if let (Some(summary), true) =
            (summary(&run.errors), read_by_a_program || !std::io::stdout().is_terminal())
        {
            complain(&summary);
        }
        Ok(u8::from(!run.errors.is_empty()))
    }
}
