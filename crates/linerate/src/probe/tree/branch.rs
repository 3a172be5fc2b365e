//! A tree of lines and the strokes that join them.

/// One entry with what hangs below it.
#[derive(Debug, Clone)]
pub(super) struct Branch {
    lines: Vec<String>,
    below: Vec<Branch>,
}

impl Branch {
    pub(super) fn new(line: impl Into<String>) -> Self {
        Branch { lines: vec![line.into()], below: Vec::new() }
    }

    /// A further line of the same entry.
    pub(super) fn more(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
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
            self.below.push(Branch { lines: vec![title.into()], below: branches });
        }
    }

    /// The whole tree as text.
    pub(super) fn show(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            push_line(&mut text, "", line);
        }
        show_below(&self.below, "", &mut text);
        text
    }
}

fn show_below(branches: &[Branch], indent: &str, text: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        let deeper = format!("{indent}{}", if last { "   " } else { "│  " });
        for (number, line) in branch.lines.iter().enumerate() {
            match number {
                0 => push_line(text, &format!("{indent}{}", if last { "└─ " } else { "├─ " }), line),
                _ => push_line(text, &deeper, line),
            }
        }
        show_below(&branch.below, &deeper, text);
    }
}

/// Names that come from outside must not steer the terminal: control characters are shown as `?`.
fn push_line(text: &mut String, indent: &str, line: &str) {
    text.push_str(indent);
    text.extend(line.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
