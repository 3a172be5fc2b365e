//! Man pages, one for each command: what clap knows of it, then examples, exit status, files and what to read
//! next, in man-pages(7)'s order.

use super::definition::definition;
use super::examples::examples_of;
use clap::Command;
use clap_mangen::Man;
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

const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Done."),
    ("1", "Measured, but something failed on the way; partial results are saved and say so."),
    ("2", "Wrong use."),
    ("3", "The machine lacks what was asked for: a source, a peer, a permission."),
    ("4", "Slower than usual, of linerate check only."),
];

/// Writes all pages into a folder that exists.
pub(super) fn write_to(folder: &Path) -> io::Result<()> {
    let mut whole = definition().disable_help_subcommand(true);
    whole.build();
    write_below(&whole, "", folder)
}

fn write_below(command: &Command, words: &str, folder: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    write_page(command, words, &mut page)?;
    std::fs::write(folder.join(format!("{}.1", page_name(words))), page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_below(sub, format!("{words} {}", sub.get_name()).trim(), folder)?;
    }
    Ok(())
}

/// `linerate-plan-raid` of `plan raid`.
fn page_name(words: &str) -> String {
    std::iter::once("linerate").chain(words.split_whitespace()).collect::<Vec<_>>().join("-")
}

fn write_page(command: &Command, words: &str, page: &mut dyn Write) -> io::Result<()> {
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
    let examples = examples_of(words);
    if !examples.is_empty() {
        writeln!(page, ".SH EXAMPLES")?;
        for (what, line) in examples {
            writeln!(page, ".PP\n{}\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE", escaped(what), escaped(line))?;
        }
    }
    write_list(page, "EXIT STATUS", &EXIT_STATUS)?;
    write_list(page, "FILES", &FILES)?;
    writeln!(page, ".SH SEE ALSO\n{}", see_also(words, &below))
}

fn write_list(page: &mut dyn Write, head: &str, items: &[(&str, &str)]) -> io::Result<()> {
    writeln!(page, ".SH {head}")?;
    items.iter().try_for_each(|(name, text)| writeln!(page, ".TP\n{}\n{}", escaped(name), escaped(text)))
}

/// The page above, those below, and those of the tools that know a part each.
fn see_also(words: &str, below: &[&str]) -> String {
    let above = words.rsplit_once(' ').map_or("", |(above, _)| above);
    let mut pages: Vec<String> = below.iter().map(|name| page_name(&format!("{words} {name}"))).collect();
    if !words.is_empty() {
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
