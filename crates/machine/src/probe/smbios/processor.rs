//! How many memory channels a processor has, by its name. No firmware reports it; the makers' data sheets do
//! (Intel ARK, AMD's product pages, Ampere's and HiSilicon's briefs). A name that is not here is unknown, not
//! guessed.

use crate::probe::Socket;

/// What a processor's name says of its memory channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    /// Channels of 64 bits that the processor drives itself.
    Own(u32),
    /// The DIMMs are behind memory buffers (Xeon 7500, E7): the links to these bound the bandwidth, not the
    /// DIMMs' clock.
    Buffered,
    /// The chipset drives the memory (Intel before 2008).
    Chipset,
    /// The name is not known here.
    Unknown,
}

impl Channels {
    /// Channels that the processor drives itself.
    pub(super) fn own(self) -> Option<u32> {
        match self {
            Channels::Own(channels) => Some(channels),
            _ => None,
        }
    }
}

/// Channels of the first processor that is there: servers do not mix.
pub(super) fn of(sockets: &[Socket]) -> Channels {
    let first = sockets.iter().find(|socket| socket.populated);
    first.and_then(|socket| socket.version.known()).map_or(Channels::Unknown, |version| channels(version))
}

/// Channels by the version string of SMBIOS type 4.
pub(super) fn channels(version: &str) -> Channels {
    let name = version.to_ascii_uppercase().replace("(R)", " ").replace("(TM)", " ");
    let words: Vec<&str> = name
        .split(|c: char| c.is_whitespace() || c == '@')
        .filter(|word| !matches!(*word, "" | "CPU" | "PROCESSOR" | "GEN"))
        .collect();
    let has = |word: &str| words.contains(&word);
    if has("XEON") {
        xeon(&words)
    } else if has("EPYC") {
        epyc(&words)
    } else if has("THREADRIPPER") {
        Channels::Own(if has("PRO") { 8 } else { 4 })
    } else if has("RYZEN") {
        Channels::Own(2)
    } else if has("OPTERON") {
        opteron(&words)
    } else if has("CORE") {
        core(&words)
    } else if has("ALTRA")
        || words.iter().any(|word| word.starts_with("920-48") || word.starts_with("920-64"))
    {
        Channels::Own(8)
    } else {
        Channels::Unknown
    }
}

/// The model number in a word such as `E5-2660`, `X5670`, `6230R`: its digits, and the letters around them.
fn model(word: &str) -> Option<(&str, &str, &str)> {
    let from = word.find(|c: char| c.is_ascii_digit())?;
    let to = word[from..].find(|c: char| !c.is_ascii_digit()).map_or(word.len(), |at| from + at);
    Some((&word[..from], &word[from..to], &word[to..]))
}

fn xeon(words: &[&str]) -> Channels {
    let scalable =
        words.iter().any(|word| matches!(*word, "BRONZE" | "SILVER" | "GOLD" | "PLATINUM" | "MAX"));
    for word in words {
        if word.starts_with("E7-") {
            return Channels::Buffered;
        }
        let channels = match word.split_once('-') {
            Some((family, rest)) => by_family(family, rest),
            None => match model(word) {
                Some(("", digits, suffix)) if scalable && digits.len() == 4 => by_generation(digits, suffix),
                Some(("", digits, suffix)) if digits.len() == 4 && matches!(suffix, "P" | "E") => {
                    xeon_6(digits, suffix)
                }
                Some(("", digits, "")) if digits.len() == 4 && matches!(&digits[..2], "50" | "51") => {
                    Channels::Chipset
                }
                Some(("E" | "X" | "L" | "W" | "EC" | "LC", digits, _)) => by_number(digits),
                _ => Channels::Unknown,
            },
        };
        if channels != Channels::Unknown {
            return channels;
        }
    }
    Channels::Unknown
}

/// `E5-2660`, `D-1541`, `W-2195`, `w5-3435X`.
fn by_family(family: &str, rest: &str) -> Channels {
    let digits = model(rest).filter(|(before, _, _)| before.is_empty()).map_or("", |(_, digits, _)| digits);
    let begin = digits.get(..2).unwrap_or_default();
    match (family, begin) {
        ("E3" | "E", _) => Channels::Own(2),
        ("E5", "14" | "24") => Channels::Own(3),
        ("E5", "16" | "26" | "46") => Channels::Own(4),
        ("D", "15" | "16") => Channels::Own(2),
        ("D", "21" | "27" | "28") => Channels::Own(4),
        ("W", "21" | "22") => Channels::Own(4),
        ("W", "31" | "32") => Channels::Own(6),
        ("W", "33") => Channels::Own(8),
        ("W", "10" | "11" | "12" | "13") => Channels::Own(2),
        ("W3" | "W5" | "W7" | "W9", "24" | "25") => Channels::Own(4),
        ("W3" | "W5" | "W7" | "W9", "34" | "35") => Channels::Own(8),
        _ => Channels::Unknown,
    }
}

/// Xeon Scalable: the second digit is the generation; 9200 has two dies, and 8300H and 5300H (Cooper Lake)
/// still six channels.
fn by_generation(digits: &str, suffix: &str) -> Channels {
    match (&digits[..1], &digits[1..2]) {
        ("9", "2") => Channels::Own(12),
        (_, "1" | "2") => Channels::Own(6),
        (_, "3") if suffix.starts_with('H') => Channels::Own(6),
        (_, "3" | "4" | "5") => Channels::Own(8),
        _ => Channels::Unknown,
    }
}

fn xeon_6(digits: &str, suffix: &str) -> Channels {
    match (&digits[..2], suffix) {
        ("69", _) => Channels::Own(12),
        ("67" | "65", _) => Channels::Own(8),
        ("63", "P") => Channels::Own(2),
        _ => Channels::Unknown,
    }
}

/// Xeons named by a letter and a number: `X5670`, `E31220`.
fn by_number(digits: &str) -> Channels {
    match (digits.len(), digits.get(..2).unwrap_or_default()) {
        (5, "31") => Channels::Own(2),
        (4, "34") => Channels::Own(2),
        (4, "35" | "36" | "55" | "56") => Channels::Own(3),
        (4, "65" | "75") => Channels::Buffered,
        (
            4,
            "30" | "31" | "32" | "33" | "50" | "51" | "52" | "53" | "54" | "70" | "71" | "72" | "73" | "74",
        ) => Channels::Chipset,
        _ => Channels::Unknown,
    }
}

/// The first digit is the socket, the last the generation: `7742`, `9654P`, `7H12`.
fn epyc(words: &[&str]) -> Channels {
    let series = words.iter().find_map(|word| {
        let four: &[u8; 4] = word.as_bytes().get(..4)?.try_into().ok()?;
        (four[0].is_ascii_digit() && four[3].is_ascii_digit() && four.iter().all(u8::is_ascii_alphanumeric))
            .then_some((four[0], four[1], four[3]))
    });
    match series {
        Some((b'7', _, b'1'..=b'3')) => Channels::Own(8),
        Some((b'9', _, b'4' | b'5')) => Channels::Own(12),
        Some((b'8', _, b'4' | b'5')) => Channels::Own(6),
        Some((b'4', _, b'4' | b'5')) | Some((b'3', b'1' | b'2', b'1')) => Channels::Own(2),
        Some((b'3', b'3' | b'4', b'1')) => Channels::Own(4),
        _ => Channels::Unknown,
    }
}

fn opteron(words: &[&str]) -> Channels {
    let digits = words.iter().find_map(|word| model(word).filter(|(_, digits, _)| digits.len() == 4));
    match digits {
        Some(("", digits, _)) => match &digits[..2] {
            "61" | "62" | "63" => Channels::Own(4),
            "12" | "13" | "22" | "23" | "24" | "32" | "33" | "41" | "42" | "43" | "82" | "83" | "84" => {
                Channels::Own(2)
            }
            _ => Channels::Unknown,
        },
        Some(("X", digits, _)) if digits.starts_with("32") => Channels::Own(2),
        _ => Channels::Unknown,
    }
}

/// Desktop processors; those of the large sockets, which share the names, are left unknown.
fn core(words: &[&str]) -> Channels {
    // `i7-9700K`, and in the first years `i3 540`.
    let joined = words.iter().filter_map(|word| word.split_once('-'));
    let parted = words.windows(2).map(|pair| (pair[0], pair[1]));
    for (family, rest) in joined.chain(parted) {
        let Some(("", digits, suffix)) = model(rest) else { continue };
        if !matches!(family, "I3" | "I5" | "I7" | "I9") {
            continue;
        }
        return match (family, digits.len()) {
            (_, _) if suffix.starts_with('X') => Channels::Unknown,
            ("I7", 3) if digits.starts_with('9') => Channels::Own(3),
            ("I7", 4) if matches!(&digits[..2], "38" | "39" | "48" | "49" | "58" | "59" | "68" | "69") => {
                Channels::Unknown
            }
            _ => Channels::Own(2),
        };
    }
    Channels::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_as_the_firmware_writes_them() {
        for (name, expected) in [
            ("Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz", Channels::Own(3)),
            ("Intel(R) Xeon(R) CPU E5-2660 v3 @ 2.60GHz", Channels::Own(4)),
            ("Intel(R) Xeon(R) CPU E5-2420 0 @ 1.90GHz", Channels::Own(3)),
            ("Intel(R) Xeon(R) CPU E31220 @ 3.10GHz", Channels::Own(2)),
            ("Intel(R) Xeon(R) E-2236 CPU @ 3.40GHz", Channels::Own(2)),
            ("Intel(R) Xeon(R) Gold 6230R CPU @ 2.10GHz", Channels::Own(6)),
            ("Intel(R) Xeon(R) Gold 6348H CPU @ 2.30GHz", Channels::Own(6)),
            ("INTEL(R) XEON(R) GOLD 6530Y", Channels::Own(8)),
            ("Intel(R) Xeon(R) Platinum 9242 CPU @ 2.30GHz", Channels::Own(12)),
            ("Intel(R) Xeon(R) 6980P", Channels::Own(12)),
            ("Intel(R) Xeon(R) CPU E7- 4870  @ 2.40GHz", Channels::Buffered),
            ("Intel(R) Xeon(R) CPU           X7560  @ 2.27GHz", Channels::Buffered),
            ("Intel(R) Xeon(R) CPU           E5410  @ 2.33GHz", Channels::Chipset),
            ("Intel(R) Xeon(R) CPU            5160  @ 3.00GHz", Channels::Chipset),
            ("AMD EPYC 7742 64-Core Processor", Channels::Own(8)),
            ("AMD EPYC 7H12 64-Core Processor", Channels::Own(8)),
            ("AMD EPYC 9654 96-Core Processor", Channels::Own(12)),
            ("AMD EPYC 8324P 32-Core Processor", Channels::Own(6)),
            ("AMD Opteron(tm) Processor 6172", Channels::Own(4)),
            ("Quad-Core AMD Opteron(tm) Processor 2376", Channels::Own(2)),
            ("AMD Ryzen 9 5900X 12-Core Processor", Channels::Own(2)),
            ("AMD Ryzen Threadripper PRO 5995WX 64-Cores", Channels::Own(8)),
            ("12th Gen Intel(R) Core(TM) i9-12900H", Channels::Own(2)),
            ("Intel(R) Core(TM) i9-10900X CPU @ 3.70GHz", Channels::Unknown),
            ("Intel(R) Core(TM) i3 CPU         540  @ 3.07GHz", Channels::Own(2)),
            ("Intel(R) Core(TM) i7 CPU         960  @ 3.20GHz", Channels::Own(3)),
            ("Intel(R) Core(TM)2 Quad CPU    Q9550  @ 2.83GHz", Channels::Unknown),
            ("Ampere(R) Altra(R) Processor", Channels::Own(8)),
            ("Genuine Intel(R) CPU 0000%@", Channels::Unknown),
            ("", Channels::Unknown),
        ] {
            assert_eq!(channels(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_read(name in ".{0,40}", words in "(XEON|EPYC|OPTERON|CORE|E5-|i7-|é|[0-9]{1,5}| \
                                                         |-|X|é[0-9]){0,8}") {
            channels(&name);
            channels(&words);
        }
    }
}
