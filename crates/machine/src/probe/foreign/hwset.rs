//! Sets of processors and nodes as hwloc and NCCL write them: words of 32 bits in hexadecimal, the highest
//! first.

/// Sets of more are no server's.
const MOST_BITS: usize = 65_536;

/// Numbers in a set, ascending: `0x00000303,,0x03030303` (hwloc; an empty word is 0) or `00000000,000000ff`
/// (NCCL). `None` where it is no set; an endless one (`0xf...f`) is none, too.
pub(crate) fn parse(text: &str) -> Option<Vec<u32>> {
    let words: Vec<&str> = text.trim().split(',').collect();
    if words.len() > MOST_BITS / 32 {
        return None;
    }
    let mut set = Vec::new();
    for (at, word) in words.iter().rev().enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        let bits = match digits {
            "" if words.len() > 1 => 0,
            _ => u32::from_str_radix(digits, 16).ok()?,
        };
        set.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| at as u32 * 32 + bit));
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        assert_eq!(parse("0x00000303,0x03030000,,0x00000003").map(|set| set.len()), Some(10));
        assert_eq!(parse("0x00000001,,0x00000002"), Some(vec![1, 64]));
        assert_eq!(parse("00000000,000000ff,f0000000").map(|set| (set[0], set.len())), Some((28, 12)));
        assert_eq!(parse("0x0"), Some(vec![]));
        for text in ["", "0xf...f", "x", "123456789", &"0,".repeat(3000)] {
            assert_eq!(parse(text), None, "{text:.20}");
        }
    }
}
