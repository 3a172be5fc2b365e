//! A tree of lines and the strokes that join them; things that differ in their names only become one line.

use linerate_facts::wording::counted;
use linerate_machine::probe::cpu_list;
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a line; longer ones go on in the next.
pub(super) const WIDTH: usize = 100;
/// Alike things from this number on are one line.
const ALIKE: usize = 3;

/// One entry with what hangs below it.
#[derive(Debug, Clone, Default)]
pub(super) struct Branch {
    /// Names of the things that this line is about; none for a line of another kind.
    names: Vec<String>,
    /// The line after the name.
    rest: String,
    more: Vec<String>,
    /// Slots that the things are in: alike things may differ in these.
    slots: BTreeSet<u32>,
    /// Interrupts and the CPUs that take them: alike things may differ in these.
    interrupts: (usize, BTreeSet<u32>),
    below: Vec<Branch>,
}

impl Branch {
    pub(super) fn new(line: impl Into<String>) -> Self {
        Branch { rest: line.into(), ..Branch::default() }
    }

    /// A thing with a name; `rest` follows it at once.
    pub(super) fn named(name: impl Into<String>, rest: impl Into<String>) -> Self {
        Branch { names: vec![name.into()], rest: rest.into(), ..Branch::default() }
    }

    /// A further line of the same entry; an empty one is none.
    pub(super) fn more(&mut self, line: impl Into<String>) {
        self.more.extend(Some(line.into()).filter(|line| !line.trim().is_empty()));
    }

    /// The slot that the thing is in.
    pub(super) fn slot(&mut self, slot: Option<u32>) {
        self.slots = slot.into_iter().collect();
    }

    /// Interrupts of the thing.
    pub(super) fn interrupts(&mut self, count: usize, cpus: BTreeSet<u32>) {
        self.interrupts = (count, cpus);
    }

    pub(super) fn push(&mut self, branch: Branch) {
        self.below.push(branch);
    }

    pub(super) fn extend(&mut self, branches: impl IntoIterator<Item = Branch>) {
        self.below.extend(branches);
    }

    /// A titled group; nothing where it is empty.
    pub(super) fn push_section(&mut self, title: &str, branches: Vec<Branch>) {
        if !branches.is_empty() {
            self.below.push(Branch { rest: title.into(), below: branches, ..Branch::default() });
        }
    }

    /// The whole tree as text.
    pub(super) fn show(&self) -> String {
        let mut text = String::new();
        for line in self.lines() {
            push_line(&mut text, "", "", &line);
        }
        show_below(&self.below, "", &mut text);
        text
    }

    fn lines(&self) -> Vec<String> {
        let name = match self.names.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first, .., last] => format!("{} × {first} … {last}", self.names.len()),
        };
        let slots: Vec<u32> = self.slots.iter().copied().collect();
        let slots = match slots.as_slice() {
            [] => String::new(),
            [one] => format!(" in slot {one}"),
            many => format!(" in slots {}", cpu_list::show(many)),
        };
        let mut lines = vec![format!("{name}{slots}{}", self.rest)];
        lines.extend(self.more.iter().cloned());
        let (count, cpus) = &self.interrupts;
        if *count > 0 {
            let cpus: Vec<u32> = cpus.iter().copied().collect();
            let on =
                if cpus.is_empty() { String::new() } else { format!(" on cpus {}", cpu_list::show(&cpus)) };
            lines.push(format!("{}{on}", counted(*count, "interrupt")));
        }
        lines
    }

    /// All that alike things have in common.
    fn shape(&self) -> String {
        let below: Vec<String> = self.below.iter().map(Branch::shape).collect();
        format!("{}\u{0}{}\u{0}{:?}\u{1}{}\u{2}", self.names.len(), self.rest, self.more, below.join("\u{3}"))
    }

    fn take_in(&mut self, other: Branch) {
        self.names.extend(other.names);
        self.slots.extend(other.slots);
        self.interrupts.0 += other.interrupts.0;
        self.interrupts.1.extend(other.interrupts.1);
        for (own, other) in self.below.iter_mut().zip(other.below) {
            own.take_in(other);
        }
    }
}

/// Three and more branches that differ in names only become one, at the place of the first.
pub(super) fn grouped(branches: Vec<Branch>) -> Vec<Branch> {
    let shapes: Vec<String> = branches.iter().map(Branch::shape).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for shape in &shapes {
        *count.entry(shape).or_default() += 1;
    }
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut grouped: Vec<Branch> = Vec::new();
    for (branch, shape) in branches.into_iter().zip(&shapes) {
        let many = !branch.names.is_empty() && count.get(shape.as_str()).is_some_and(|count| *count >= ALIKE);
        match first.get(shape.as_str()).filter(|_| many).and_then(|at| grouped.get_mut(*at)) {
            Some(other) => other.take_in(branch),
            None => {
                first.insert(shape, grouped.len());
                grouped.push(branch);
            }
        }
    }
    grouped
}

fn show_below(branches: &[Branch], indent: &str, text: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        let deeper = format!("{indent}{}", if last { "   " } else { "│  " });
        for (number, line) in branch.lines().iter().enumerate() {
            let stroke = if last { "└─ " } else { "├─ " };
            let before = if number == 0 { format!("{indent}{stroke}") } else { deeper.clone() };
            push_line(text, &before, &deeper, line);
        }
        show_below(&branch.below, &deeper, text);
    }
}

/// A line, and where it is too long its rest below it, broken between its parts. Names that come from outside
/// must not steer the terminal: control characters are shown as `?`.
fn push_line(text: &mut String, indent: &str, deeper: &str, line: &str) {
    let line: String = line.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let hanging = " ".repeat(hanging(&line));
    let mut rest = line.as_str();
    let mut before = indent.to_string();
    loop {
        // However deep the tree, a line has room for a few words.
        let room = WIDTH.saturating_sub(before.chars().count()).max(24);
        let Some(end) = break_at(rest, room) else { break };
        text.push_str(&before);
        text.push_str(rest[..end].trim_end());
        text.push('\n');
        rest = rest[end..].trim_start_matches([' ', '·']);
        before = format!("{deeper}{hanging}");
    }
    text.push_str(&before);
    text.push_str(rest);
    text.push('\n');
}

/// Where a line that is too long ends: before the last ` · ` that fits, else at a space, else in a word.
fn break_at(line: &str, room: usize) -> Option<usize> {
    let (limit, _) = line.char_indices().nth(room)?;
    let fits = &line[..limit];
    let leading = line.len() - line.trim_start().len();
    let between =
        [" · ", " "].iter().find_map(|mark| fits.rfind(mark).filter(|at| *at > leading.max(room / 3)));
    Some(between.unwrap_or(limit))
}

/// Columns by which the rest of a long line stands in: to the text after a label (`CPU      …`), else a
/// little.
fn hanging(line: &str) -> usize {
    let leading = line.chars().take_while(|c| *c == ' ').count();
    if leading > 1 {
        return leading;
    }
    let label = line
        .find("  ")
        .filter(|at| *at > 0 && *at < 9)
        .map(|at| line[at..].chars().take_while(|c| *c == ' ').count() + at);
    label.unwrap_or(leading + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strokes() {
        let mut top = Branch::new("top");
        let mut first = Branch::new("a");
        first.more("  a again");
        first.push(Branch::new("b\u{1b}[2J"));
        top.push(first);
        top.push_section("empty", Vec::new());
        top.push_section("section", vec![Branch::new("c"), Branch::new("d")]);
        assert_eq!(top.show(), "top\n├─ a\n│    a again\n│  └─ b?[2J\n└─ section\n   ├─ c\n   └─ d\n");
    }

    #[test]
    fn alike_things_are_one() {
        let thing = |name: &str, rest: &str, cpu: u32, child: &str| {
            let mut thing = Branch::named(name, format!(" {rest}"));
            thing.interrupts(2, BTreeSet::from([cpu]));
            thing.push(Branch::named(child, " 7 TiB"));
            thing
        };
        let mut top = Branch::new("top");
        top.extend(grouped(vec![
            thing("a", "x", 0, "d0"),
            thing("z", "y", 9, "d9"),
            thing("b", "x", 1, "d1"),
            thing("c", "x", 2, "d2"),
        ]));
        assert_eq!(
            top.show(),
            "top\n├─ 3 × a … c x\n│  6 interrupts on cpus 0-2\n│  └─ 3 × d0 … d2 7 TiB\n└─ z y\n   2 \
             interrupts on cpus 9\n   └─ d9 7 TiB\n"
        );
        assert_eq!(grouped(vec![thing("a", "x", 0, "d"), thing("b", "x", 0, "d")]).len(), 2);
    }

    #[test]
    fn long_lines_go_on_below() {
        let mut top = Branch::new("top");
        top.push(Branch::new(format!("CPU      {}", ["twenty letters long"; 7].join(" · "))));
        let text = top.show();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].ends_with("long") && lines[2].starts_with("            twenty"), "{text}");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_and_no_letter_is_lost(words in prop::collection::vec("[a-zé·×]{1,130}", 0..30), depth in 0usize..6) {
            let mut top = Branch::new(words.join(" "));
            for _ in 0..depth {
                let mut above = Branch::new(words.join(" · "));
                above.push(top);
                top = above;
            }
            let text = top.show();
            prop_assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
            prop_assert_eq!(letters(&text), letters(&words.concat()) * (depth + 1));
        }
    }
}
