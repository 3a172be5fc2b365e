//! Words of SMBIOS type 17 by their codes, spelt as `dmidecode` spells them, and what firmware writes where
//! it has nothing to say.

/// Kinds of memory (DSP0134, 7.18.2), from code 1 on.
const KINDS: &str = include_str!("memory_kinds.txt");

/// Form factors (DSP0134, 7.18.1), from code 1 on.
const FORMS: &str = include_str!("memory_forms.txt");

/// Kind of memory by its code.
pub(super) fn kind(code: u8) -> &'static str {
    by_code(KINDS, code)
}

/// Form factor by its code.
pub(super) fn form(code: u8) -> &'static str {
    by_code(FORMS, code)
}

fn by_code(names: &'static str, code: u8) -> &'static str {
    usize::from(code).checked_sub(1).and_then(|at| names.lines().nth(at)).unwrap_or("<OUT OF SPEC>")
}

/// The chip of the firmware itself is listed among the memory devices; it is no memory of the machine.
pub(super) fn holds_firmware(kind: &str) -> bool {
    matches!(kind, "Flash" | "ROM")
}

/// What a string says; nothing where it only fills the place.
pub(super) fn stated(text: &str) -> Option<&str> {
    const FILLERS: [&str; 13] = [
        "not specified",
        "unknown",
        "no dimm",
        "none",
        "n/a",
        "empty",
        "undefined",
        "not available",
        "not present",
        "default string",
        "to be filled by o.e.m.",
        "<bad index>",
        "<out of spec>",
    ];
    let text = text.trim();
    let filler = FILLERS.iter().any(|filler| text.eq_ignore_ascii_case(filler));
    (!text.is_empty() && !filler).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_specification() {
        assert_eq!(
            [kind(0x18), kind(0x1A), kind(0x1F), kind(0x22), kind(0x25)],
            ["DDR3", "DDR4", "Logical non-volatile device", "DDR5", "MRDIMM"]
        );
        assert_eq!([kind(0), kind(0x26), kind(255), form(0)], ["<OUT OF SPEC>"; 4]);
        assert_eq!([form(9), form(0xF)], ["DIMM", "FB-DIMM"]);
    }

    #[test]
    fn fillers_say_nothing() {
        assert_eq!(stated(" M393A8G40BB4-CWE  "), Some("M393A8G40BB4-CWE"));
        for filler in ["", "  ", "Not Specified", "NO DIMM", "UNKNOWN"] {
            assert_eq!(stated(filler), None);
        }
    }
}
