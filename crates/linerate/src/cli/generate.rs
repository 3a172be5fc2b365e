//! `linerate generate`: man pages and completions, for packages.
//!
//! A man page for each command: what clap knows of it, then examples, exit status, files and what to read next, in
//! man-pages(7)'s order.

use super::arguments::Generate;
use super::definition::{definition, wall_definition};
use super::help::{examples_of, written_for};
use super::output::Output;
use clap::Command;
use clap_mangen::Man;
use linerate_facts::failure::Failure;
use std::io::{self, Write};
use std::path::Path;

const FILES: [(&str, &str); 3] = [
    (
        "$XDG_CONFIG_HOME/linerate/key, ~/.config/linerate/key",
        "The key that an agent and its clients share, where no other is named. Only its owner may read it.",
    ),
    (
        "$XDG_STATE_HOME/linerate/results, ~/.local/state/linerate/results",
        "What was measured, for linerate list, check, compare and plan.",
    ),
    ("/var/lib/linerate", "The journal of linerate tune: the values from before it changed them."),
];

const ENVIRONMENT: [(&str, &str); 6] = [
    ("LINERATE_KEY", "The digits of the key of agents and walls, where no file is named."),
    ("LINERATE_LOG", "How much is logged: error, warn, info, debug, trace, off, or CRATE=LEVEL."),
    ("LINERATE_IO_URING", "0: io_uring is not used, even where it is allowed."),
    (
        "LINERATE_POWER_COMMAND",
        "Reads a power meter: run with sh -c again and again; the first number that it prints is watts. A line for each \
         meter of this machine, whose sum counts.",
    ),
    ("TERM", "dumb: nothing is drawn on the terminal while linerate works."),
    ("NO_COLOR", "No colours."),
];

const EXIT_STATUS: [(&str, &str); 6] = [
    ("0", "Done."),
    ("1", "Measured, but something failed on the way; partial results are saved and say so."),
    ("2", "Wrong use."),
    ("3", "The machine lacks what was asked for: a source, a peer, a permission."),
    ("4", "Slower than usual, of linerate check only."),
    ("5, 6", "Of --expect: a rule failed, or one cannot be judged."),
];

/// Writes or prints them.
pub(super) fn generate(what: &Generate, output: &Output) -> Result<u8, Failure> {
    match what {
        Generate::Man { folder } => write_pages(folder).map_err(|error| {
            Failure::Lacks(format!("man pages in {}: {error}; name a folder that exists", folder.display()))
        })?,
        Generate::Completions { shell, program } => {
            let mut text = Vec::new();
            let mut whole = if program == "linerate" { definition() } else { wall_definition() };
            clap_complete::generate(*shell, &mut whole, program, &mut text);
            output.print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(0)
}

/// Writes all pages into a folder that exists.
fn write_pages(folder: &Path) -> io::Result<()> {
    // The pages of the wall are written again as those of its own program.
    for (whole, command_path) in [(definition(), ""), (wall_definition(), "wall")] {
        let mut whole = whole.disable_help_subcommand(true);
        whole.build();
        write_below(&whole, command_path, folder)?;
    }
    Ok(())
}

fn write_below(command: &Command, command_path: &str, folder: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    write_page(command, command_path, &mut page)?;
    std::fs::write(folder.join(format!("{}.1", page_name(command_path))), page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_below(sub, format!("{command_path} {}", sub.get_name()).trim(), folder)?;
    }
    Ok(())
}

/// `linerate-plan-raid` of the command path `plan raid`.
fn page_name(command_path: &str) -> String {
    std::iter::once("linerate").chain(command_path.split_whitespace()).collect::<Vec<_>>().join("-")
}

fn write_page(command: &Command, command_path: &str, page: &mut dyn Write) -> io::Result<()> {
    let source = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("linerate");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    let below: Vec<&str> =
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
    if !below.is_empty() {
        man.render_subcommands_section(page)?;
    }
    let examples = examples_of(command_path);
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES")?;
        for (what, line) in examples {
            let line = escaped(&written_for("linerate-wall", line));
            writeln!(page, ".PP\n{}\n.PP\n.RS 4\n.nf\n{line}\n.fi\n.RE", escaped(what))?;
        }
    }
    write_list(page, "EXIT STATUS", &EXIT_STATUS)?;
    write_list(page, "ENVIRONMENT", &ENVIRONMENT)?;
    write_list(page, "FILES", &FILES)?;
    writeln!(page, ".SH SEE ALSO\n{}", see_also(command_path, &below))
}

fn write_list(page: &mut dyn Write, head: &str, items: &[(&str, &str)]) -> io::Result<()> {
    writeln!(page, ".SH {head}")?;
    items.iter().try_for_each(|(name, text)| writeln!(page, ".TP\n{}\n{}", escaped(name), escaped(text)))
}

/// The page above, those below, and those of the tools that know a part each.
fn see_also(command_path: &str, below: &[&str]) -> String {
    let above = command_path.rsplit_once(' ').map_or("", |(above, _)| above);
    let mut pages: Vec<String> =
        below.iter().map(|name| page_name(&format!("{command_path} {name}"))).collect();
    if !command_path.is_empty() {
        pages.insert(0, page_name(above));
    }
    pages.extend(["fio", "iperf3", "lstopo"].map(String::from));
    pages.iter().map(|name| format!("\\fB{}\\fR(1)", escaped(name))).collect::<Vec<_>>().join(", ")
}

/// Text as roff takes it: hyphens that stay hyphens, and no line that is a request by accident.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
