//! What a person would see of what a program has written to a terminal: the few sequences that commands use
//! which stay in the scrollback.

/// The rows of the terminal from its first to its last, without the spaces at their ends. Only cursor up,
/// erase and colours are known: anything else fails, since a command in the scrollback has no business with
/// it.
pub fn screen(written: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
    let mut characters = written.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == rows.len() {
                    rows.push(Vec::new());
                }
            }
            '\x1b' => {
                assert_eq!(characters.next(), Some('['), "a sequence that a terminal takes");
                let mut numbers = String::new();
                let end = loop {
                    match characters.next().expect("the end of a sequence") {
                        end @ '@'..='~' => break end,
                        part => numbers.push(part),
                    }
                };
                match (end, numbers.as_str()) {
                    ('m', _) => {}
                    ('A', count) => row = row.saturating_sub(count.parse().unwrap_or(1)),
                    ('K', "" | "0") => rows[row].truncate(column),
                    // indicatif's: the whole line.
                    ('K', "2") => rows[row].clear(),
                    ('J', "" | "0") => {
                        rows[row].truncate(column);
                        rows.truncate(row + 1);
                    }
                    other => panic!("a sequence that nobody expects: {other:?} in {written:?}"),
                }
            }
            shown => {
                if rows[row].len() <= column {
                    rows[row].resize(column + 1, ' ');
                }
                rows[row][column] = shown;
                column += 1;
            }
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_string()).collect()
}

#[test]
fn the_emulation_moves_and_erases_as_a_terminal_does() {
    assert_eq!(screen("a\r\nb\r\n\x1b[1A\x1b[31mc\x1b[0m\x1b[K\r\n\x1b[J"), ["a", "c", ""]);
    assert_eq!(screen("abc\r\x1b[Kx\r\ny\r\n\r\x1b[2Az\x1b[K\r\n\r\x1b[J"), ["z", ""]);
}
