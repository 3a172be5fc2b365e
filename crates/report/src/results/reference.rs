//! How a result is named on every command line: `@-1` is the newest that is kept, `@-2` the one before, `@disk-1` the
//! newest of `linerate disk`, `@12` the one of that number; all else is a file, or a folder that holds a `run.json`.

use super::store::{KeptFile, ResultHead, ResultStore};
use crate::json;
use linerate_facts::failure::Failure;
use linerate_facts::printable::{printable, shortened};
use linerate_measure::run::Run;
use std::path::Path;

/// What a kept result is asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// From 1, the newest.
    FromEnd(usize),
    /// The same among those of one command.
    OfCommand(&'static str, usize),
    Number(u64),
}

/// Commands whose results are kept.
const COMMANDS: [&str; 8] = ["run", "disk", "load", "memory", "network", "get", "put", "fleet"];

/// Reads the result that a word of the command line names.
pub fn read(word: &Path) -> Result<Run, Failure> {
    let Some(reference) = reference(word)? else { return json::read(word) };
    let store = ResultStore::of_user().map_err(|why| unreadable(&why))?;
    of_reference(&store, reference)
}

pub(super) fn unreadable(why: &super::KeepError) -> Failure {
    Failure::Lacks(format!("kept results cannot be read: {why}"))
}

/// None: it is a file.
fn reference(word: &Path) -> Result<Option<Reference>, Failure> {
    let Some(number) = word.to_str().and_then(|text| text.strip_prefix('@')) else { return Ok(None) };
    let command = COMMANDS.into_iter().find(|command| number.starts_with(&format!("{command}-")));
    let number = command.and_then(|command| number.strip_prefix(command)).unwrap_or(number);
    let digits = number.strip_prefix('-').unwrap_or(number);
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    // More than any number is out of reach, not wrong.
    let value = plain.then(|| digits.parse().unwrap_or(u64::MAX)).filter(|value| *value > 0);
    match value {
        Some(value) if number == digits => Ok(Some(Reference::Number(value))),
        Some(value) => {
            let back = usize::try_from(value).unwrap_or(usize::MAX);
            let of = |command| Reference::OfCommand(command, back);
            Ok(Some(command.map_or(Reference::FromEnd(back), of)))
        }
        None => {
            let shown = shortened(&printable(&word.to_string_lossy()), 40);
            Err(Failure::Usage(format!(
                "{shown} is not a kept result: @-1 is the newest, @-2 the one before, @disk-1 the newest of `linerate \
                 disk`, as `linerate list` shows them; a file of that name is ./{shown}"
            )))
        }
    }
}

fn of_reference(store: &ResultStore, reference: Reference) -> Result<Run, Failure> {
    let files = store.files().map_err(|why| unreadable(&why))?;
    let found = match reference {
        Reference::FromEnd(back) => files.len().checked_sub(back).map(|at| &files[at]),
        Reference::OfCommand(command, back) => {
            let head = |file: &&KeptFile| ResultHead::of(&store.text(file).ok()?);
            files
                .iter()
                .rev()
                .filter(|file| head(file).is_some_and(|head| head.command() == command))
                .nth(back - 1)
        }
        Reference::Number(number) => files.iter().find(|file| file.number == number),
    };
    let file = found.ok_or_else(|| Failure::Lacks(absent(reference, &files)))?;
    parse(store, file, &store.path_of(file))
}

/// `name` is what errors call it.
pub(super) fn parse(store: &ResultStore, file: &KeptFile, name: &Path) -> Result<Run, Failure> {
    json::parse(&store.text(file).map_err(|why| unreadable(&why))?, name)
}

fn absent(reference: Reference, files: &[KeptFile]) -> String {
    let asked = match reference {
        Reference::FromEnd(back) => format!("@-{back}"),
        Reference::OfCommand(command, back) => {
            return format!(
                "@{command}-{back}: fewer results of `linerate {command}` are kept; `linerate list --all` shows them"
            );
        }
        Reference::Number(number) => format!("@{number}"),
    };
    match (files.len(), files.first()) {
        (_, None) => format!(
            "{asked}: no result is kept; those of linerate's `{}` are kept unless --no-save is given",
            COMMANDS.join("`, `")
        ),
        (1, Some(_)) => format!("{asked}: 1 result is kept, @-1; `linerate list` shows it"),
        (count, Some(_)) => {
            format!("{asked}: {count} results are kept, @-{count} to @-1; `linerate list` shows them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::store::testing::{run, store};
    use linerate_measure::measure::Stage;

    #[test]
    fn words_of_the_command_line() {
        let of = |word: &str| reference(Path::new(word)).ok().flatten();
        assert_eq!(of("@-1"), Some(Reference::FromEnd(1)));
        assert_eq!(of("@12"), Some(Reference::Number(12)));
        assert_eq!(of("@run-1"), Some(Reference::OfCommand("run", 1)));
        assert_eq!(of("@memory-12"), Some(Reference::OfCommand("memory", 12)));
        assert_eq!(of("@-99999999999999999999999"), Some(Reference::FromEnd(usize::MAX)));
        for file in ["run.json", "./@-1", "folder/@2", "-1"] {
            assert_eq!(reference(Path::new(file)).expect("a file"), None);
        }
        let wrong = "@run @run-0 @run1 @run--1 @runs-1 @ @0 @-0 @- @--1 @+1 @1.5 @newest @\u{1b}[2J";
        for wrong in wrong.split(' ').chain(["@1 "]) {
            let error = reference(Path::new(wrong)).expect_err(wrong);
            assert_eq!(error.exit_status(), 2);
            let text = error.to_string();
            assert!(text.contains("@-1 is the newest") && !text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn the_newest_of_a_command_is_not_another_ones() {
        let (_state, store) = store(9);
        let of = |stage, name: &str| Run { stage, ..run(name) };
        for (stage, name) in [(None, "a"), (Some(Stage::Disk), "b"), (None, "c"), (Some(Stage::Get), "d")] {
            store.keep(&of(stage, name)).expect("kept");
        }
        let name =
            |command, back| of_reference(&store, Reference::OfCommand(command, back)).map(|run| run.name);
        assert_eq!(name("run", 1).expect("kept"), "c");
        assert_eq!(name("run", 2).expect("kept"), "a");
        assert_eq!(name("disk", 1).expect("kept"), "b");
        let absent = name("disk", 2).expect_err("one is kept").to_string();
        assert!(absent.starts_with("@disk-2: ") && absent.contains("`linerate disk`"), "{absent}");
    }
}
