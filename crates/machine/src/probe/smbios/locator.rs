//! The words of a slot's locators: `P1-DIMMA1`, `CPU0_C1D0`, `NODE 1 CHANNEL 0 DIMM 0`, `PROC 1 DIMM 3A`.
//!
//! Only what a text says is taken; which of letter and number is the channel where nothing says so is for
//! `channels`.

/// What one locator says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LocatorParts {
    /// `P1`, `CPU0`, `PROC 1`, `SOCKET 0`.
    pub(super) socket: Option<u32>,
    /// `NODE 1`.
    pub(super) node: Option<u32>,
    /// `Controller0`, `MC1`.
    pub(super) controller: Option<u32>,
    /// `CHANNEL A`, `Channel0`, `ChB`, and `C1D0`.
    pub(super) channel: Option<Label>,
    /// Letter of the slot's name, A = 0.
    pub(super) letter: Option<u32>,
    /// Number of the slot's name.
    pub(super) number: Option<u32>,
    /// The number comes before the letter: `3A`.
    pub(super) number_first: bool,
}

/// A channel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Label {
    /// Counted as written.
    Number(u32),
    /// A = 0.
    Letter(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Socket,
    Node,
    Controller,
    Channel,
    /// A word whose number is not a slot's (`BANK 3`, `DDR4`).
    Aside,
    /// A word that says nothing by itself (`DIMM`).
    Filler,
    Letter(u32),
    Number(u32),
    /// Whatever parts words.
    Gap,
}

/// Words by their beginnings, longest first where one begins another.
const KEYWORDS: [(&str, Token); 22] = [
    ("PROCESSOR", Token::Socket),
    ("PROC", Token::Socket),
    ("CPU", Token::Socket),
    ("SOCKET", Token::Socket),
    ("NODE", Token::Node),
    ("CONTROLLER", Token::Controller),
    ("UMC", Token::Controller),
    ("IMC", Token::Controller),
    ("MC", Token::Controller),
    ("CHANNEL", Token::Channel),
    ("CHAN", Token::Channel),
    ("CH", Token::Channel),
    ("BANK", Token::Aside),
    ("DDR", Token::Aside),
    ("SLOT", Token::Aside),
    ("BOARD", Token::Aside),
    ("MEMCARD", Token::Aside),
    ("SODIMM", Token::Filler),
    ("DIMM", Token::Filler),
    ("DIM", Token::Filler),
    ("MEMORY", Token::Filler),
    ("MEM", Token::Filler),
];

/// Longer locators are not names of slots.
const MOST_TOKENS: usize = 32;

/// Reads a locator.
pub(super) fn words(text: &str) -> LocatorParts {
    let tokens = tokens(text);
    let mut words = LocatorParts::default();
    let mut rest = &tokens[..];
    while let Some((first, after)) = rest.split_first() {
        let (value, behind) = value(after);
        rest = match (*first, value) {
            (Token::Socket, Some(Token::Number(number))) => take(&mut words.socket, number, behind),
            (Token::Node, Some(Token::Number(number))) => take(&mut words.node, number, behind),
            (Token::Controller, Some(Token::Number(number))) => take(&mut words.controller, number, behind),
            (Token::Channel, Some(Token::Number(number))) => {
                take(&mut words.channel, Label::Number(number), behind)
            }
            (Token::Channel, Some(Token::Letter(letter))) => {
                take(&mut words.channel, Label::Letter(letter), behind)
            }
            (Token::Aside, Some(Token::Number(_))) => behind,
            (Token::Letter(LETTER_P), Some(Token::Number(number))) if names_a_slot(behind, text) => {
                take(&mut words.socket, number, behind)
            }
            (Token::Letter(_) | Token::Number(_), _) if words.letter.is_none() && words.number.is_none() => {
                slot(&mut words, rest)
            }
            _ => after,
        };
    }
    words
}

const LETTER_C: u32 = 2;
const LETTER_D: u32 = 3;
const LETTER_P: u32 = 15;

/// `P0` is a processor where the slot's own name still follows, and in the paths of Oracle (`/SYS/MB/P0`).
fn names_a_slot(behind: &[Token], text: &str) -> bool {
    text.starts_with('/')
        || behind.iter().any(|token| !matches!(token, Token::Gap | Token::Aside | Token::Filler))
}

/// The next token that is not a gap, and what is behind it.
fn value(tokens: &[Token]) -> (Option<Token>, &[Token]) {
    match tokens {
        [Token::Gap, value, rest @ ..] | [value, rest @ ..] => (Some(*value), rest),
        [] => (None, &[]),
    }
}

/// Keeps the first value of a word; later ones repeat it or belong to something else.
fn take<'a, T>(place: &mut Option<T>, value: T, rest: &'a [Token]) -> &'a [Token] {
    place.get_or_insert(value);
    rest
}

/// The slot's own name: `A1`, `A_0`, `A`, `3A`, `12`, `C1D0`.
fn slot<'a>(parts: &mut LocatorParts, tokens: &'a [Token]) -> &'a [Token] {
    match tokens {
        [
            Token::Letter(LETTER_C),
            Token::Number(channel),
            Token::Letter(LETTER_D),
            Token::Number(slot),
            rest @ ..,
        ] => {
            parts.channel.get_or_insert(Label::Number(*channel));
            parts.number = Some(*slot);
            rest
        }
        [Token::Letter(letter), Token::Number(number), rest @ ..]
        | [Token::Letter(letter), Token::Gap, Token::Number(number), rest @ ..] => {
            (parts.letter, parts.number) = (Some(*letter), Some(*number));
            rest
        }
        [Token::Number(number), Token::Letter(letter), rest @ ..] => {
            (parts.letter, parts.number, parts.number_first) = (Some(*letter), Some(*number), true);
            rest
        }
        [Token::Letter(letter), rest @ ..] => {
            parts.letter = Some(*letter);
            rest
        }
        [Token::Number(number), rest @ ..] => {
            parts.number = Some(*number);
            rest
        }
        rest => rest.get(1..).unwrap_or_default(),
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let upper = text.to_ascii_uppercase();
    let mut rest = upper.as_str();
    while let Some(first) = rest.chars().next().filter(|_| tokens.len() < MOST_TOKENS) {
        let same = |c: char| {
            if first.is_ascii_digit() { c.is_ascii_digit() } else { c.is_ascii_alphabetic() }
        };
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (run, after) = rest.split_at(end);
        if first.is_ascii_digit() {
            // A number that does not fit is not a slot's.
            tokens.push(run.parse().map_or(Token::Gap, Token::Number));
        } else if first.is_ascii_alphabetic() {
            letters(run, &mut tokens);
        } else {
            tokens.push(Token::Gap);
        }
        rest = after;
    }
    tokens.dedup_by(|a, b| (*a, *b) == (Token::Gap, Token::Gap));
    tokens
}

/// A run of letters: words that are known, one after the other, and at most one letter behind them; all else
/// says nothing.
fn letters(run: &str, tokens: &mut Vec<Token>) {
    let start = tokens.len();
    let mut rest = run;
    while !rest.is_empty() {
        if let [letter @ b'A'..=b'Z'] = rest.as_bytes() {
            tokens.push(Token::Letter(u32::from(letter - b'A')));
            return;
        }
        let Some((word, token)) = KEYWORDS.iter().find(|(word, _)| rest.starts_with(word)) else {
            tokens.truncate(start);
            tokens.push(Token::Gap);
            return;
        };
        tokens.push(*token);
        rest = &rest[word.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Socket, node, controller, channel; letter and number in the order of the name.
    fn show(text: &str) -> String {
        let words = words(text);
        let mut parts = Vec::new();
        parts.extend(words.socket.map(|n| format!("socket {n}")));
        parts.extend(words.node.map(|n| format!("node {n}")));
        parts.extend(words.controller.map(|n| format!("controller {n}")));
        let name = |letter: u32| char::from(b'A' + u8::try_from(letter).expect("a letter"));
        parts.extend(words.channel.map(|label| match label {
            Label::Number(n) => format!("channel {n}"),
            Label::Letter(n) => format!("channel {}", name(n)),
        }));
        let letter = words.letter.map_or(String::new(), |letter| name(letter).to_string());
        let number = words.number.map_or(String::new(), |n| n.to_string());
        let slot = if words.number_first { number + &letter } else { letter + &number };
        parts.extend((!slot.is_empty()).then_some(slot));
        parts.join(", ")
    }

    #[test]
    fn locators_of_real_boards() {
        for (text, said) in [
            ("DIMM_A1", "A1"),
            ("A12", "A12"),
            ("P1-DIMMA1", "socket 1, A1"),
            ("P0_Node1_Channel2_Dimm0", "socket 0, node 1, channel 2, 0"),
            ("_Node0_Channel0_Dimm1", "node 0, channel 0, 1"),
            ("A1_Node1_Channel0_Dimm1", "node 1, channel 0, A1"),
            ("NODE 1 CHANNEL 0 DIMM 0", "node 1, channel 0, 0"),
            ("SOCKET 0 CHANNEL 7 DIMM 1", "socket 0, channel 7, 1"),
            ("P0 CHANNEL H", "socket 0, channel H"),
            ("CPU1_DIMM_A1", "socket 1, A1"),
            ("CPU_0_DIMM_A_1", "socket 0, A1"),
            ("CPU0ChA", "socket 0, channel A"),
            ("CPU0_C1D0", "socket 0, channel 1, 0"),
            ("PROC  1 DIMM  9", "socket 1, 9"),
            ("PROC 1 DIMM 3A", "socket 1, 3A"),
            ("P1_DIMM3A", "socket 1, 3A"),
            ("P2_1B", "socket 2, 1B"),
            ("DIMM-1P", "1P"),
            ("DIMM_P1", "P1"),
            ("DIMM_P0_A0", "socket 0, A0"),
            ("ChannelB-DIMM1", "channel B, 1"),
            ("Controller1-ChannelA-DIMM0", "controller 1, channel A, 0"),
            ("P0_MC1_DIM_CH_D0", "socket 0, controller 1, channel D, 0"),
            ("P0_D1_UMC0_CH_A0", "socket 0, controller 0, channel A, D1"),
            ("DIMM-CHB4", "channel B, 4"),
            ("/SYS/MB/P1", "socket 1"),
            ("DIMM000 J17", "0"),
            ("DIMM1_A", "1"),
            ("DDR4_C1", "C1"),
            ("BANK 3", ""),
            ("Node0_Bank0", "node 0"),
            ("Primary Main Board/CPU 3", "socket 3"),
            ("Board 1, DIMM 1A", "1A"),
            ("NO DIMM", ""),
            ("Not Specified", ""),
            ("DIMM 99999999999999999999", ""),
        ] {
            assert_eq!(show(text), said, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,60}", words in "(DIMM|CH|P|NODE|[A-Z]|[0-9]{1,12}|_| |é){0,40}") {
            super::words(&text);
            super::words(&words);
        }
    }
}
