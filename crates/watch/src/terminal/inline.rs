//! Lines that stay below what a command writes: each drawing goes over the one before, what is to stay is
//! written above it.
//!
//! Everything is relative to the cursor, which rests in the row below the lines. ratatui's own inline
//! viewport asks the terminal where the cursor is: through crossterm that is written to standard output,
//! which may be a file, and needs raw mode, which a command in the background is stopped for.

use ratatui::backend::IntoCrossterm;
use ratatui::crossterm::style::ContentStyle;
use ratatui::text::{Line, Span};

/// Cursor to the first column, and everything from it to the end of the screen away.
const CLEAR_BELOW: &str = "\r\x1b[J";

/// The lines below the cursor.
#[derive(Debug, Default)]
pub struct InlineView {
    /// Columns of each line that was drawn last.
    drawn: Vec<usize>,
}

impl InlineView {
    /// What to write so that `above` stays and `lines` are below it, in a terminal of `columns`.
    pub fn frame(&mut self, above: &[String], lines: &[Line<'_>], columns: usize) -> String {
        let mut text = self.up(columns);
        for line in above {
            text.push_str(line);
            text.push_str("\x1b[K\r\n");
        }
        self.drawn.clear();
        for line in lines {
            // The last column stays free: some terminals begin a new line after it.
            let (line, width) = ansi(line, columns.saturating_sub(1));
            text.push_str(&line);
            text.push_str("\x1b[K\r\n");
            self.drawn.push(width);
        }
        text + CLEAR_BELOW
    }

    /// What to write so that no lines are left below the cursor.
    pub fn erased(&mut self, columns: usize) -> String {
        let up = self.up(columns);
        if self.drawn.is_empty() {
            String::new()
        } else {
            self.drawn.clear();
            up + CLEAR_BELOW
        }
    }

    /// Something else has written since: what was drawn stays where it is, and the next drawing goes below it.
    pub fn forget(&mut self) {
        self.drawn.clear();
    }

    /// To the first row of what was drawn. A terminal that became narrower has broken its lines.
    fn up(&self, columns: usize) -> String {
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        if rows > 0 { format!("\r\x1b[{rows}A") } else { String::new() }
    }
}

/// A line as a terminal takes it, cut at `columns`, and its width.
fn ansi(line: &Line<'_>, columns: usize) -> (String, usize) {
    let (mut text, mut used) = (String::new(), 0);
    for span in &line.spans {
        let mut fitting = String::new();
        for character in span.content.chars() {
            let width = Span::raw(character.to_string()).width();
            if used + width > columns {
                break;
            }
            used += width;
            fitting.push(character);
        }
        let style: ContentStyle = line.style.patch(span.style).into_crossterm();
        text.push_str(&style.apply(fitting).to_string());
    }
    (text, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::{Color, Style};

    fn lines(texts: &[&str]) -> Vec<Line<'static>> {
        texts.iter().map(|text| Line::from(text.to_string())).collect()
    }

    #[test]
    fn each_drawing_goes_over_the_one_before() {
        let mut view = InlineView::default();
        assert_eq!(view.frame(&[], &lines(&["a", "b"]), 80), "a\x1b[K\r\nb\x1b[K\r\n\r\x1b[J");
        let stays = ["measured".to_string()];
        assert_eq!(view.frame(&stays, &lines(&["c"]), 80), "\r\x1b[2Ameasured\x1b[K\r\nc\x1b[K\r\n\r\x1b[J");
        assert_eq!(view.erased(80), "\r\x1b[1A\r\x1b[J");
        assert_eq!(view.erased(80), "", "nothing is there any more");
        view.frame(&[], &lines(&["d"]), 80);
        view.forget();
        assert_eq!(view.frame(&[], &lines(&["e"]), 80), "e\x1b[K\r\n\r\x1b[J");
    }

    #[test]
    fn lines_that_a_narrower_terminal_has_broken_are_all_gone_over() {
        let mut view = InlineView::default();
        view.frame(&[], &lines(&[&"x".repeat(70), "y", ""]), 80);
        assert!(view.frame(&[], &[], 40).starts_with("\r\x1b[4A"));
        assert_eq!(view.erased(40), "");
    }

    #[test]
    fn lines_are_cut_at_the_width_in_columns() {
        let line = Line::from(vec![Span::raw("abc"), Span::styled("日本", Style::new().fg(Color::Red))]);
        let (text, width) = ansi(&line, 6);
        assert_eq!(width, 5, "a wide character is not halved");
        assert!(text.starts_with("abc") && text.contains('日') && !text.contains('本'), "{text:?}");
        assert_eq!(ansi(&line, 0).1, 0);
    }
}
