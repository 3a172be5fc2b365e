//! The stripe that a file system believes to lie on, from its mount options: XFS `sunit` and `swidth`, ext4
//! `stripe`.

use crate::probe::machine::Array;
use crate::probe::storage::array::with_stripe;
use linerate_facts::fact::Fact;

/// XFS counts in these (xfs(5)).
const SECTOR_BYTES: u64 = 512;

/// The stripe from the options of a mount; `None` where the file system was made without one. `block_bytes`
/// is the file system's block, which ext4 counts in.
pub(super) fn read(kind: &str, options: &str, block_bytes: impl FnOnce() -> Fact<u64>) -> Option<Array> {
    let number = |word: &str| {
        let value = options.split(',').find_map(|option| option.strip_prefix(word)?.strip_prefix('='))?;
        value.parse::<u64>().ok().filter(|number| *number > 0)
    };
    match kind {
        "xfs" => Some(xfs(number("sunit")?, number("swidth"))),
        "ext4" | "ext3" => Some(ext4(number("stripe")?, block_bytes())),
        _ => None,
    }
}

fn xfs(unit: u64, width: Option<u64>) -> Array {
    let data = width.filter(|width| width % unit == 0).and_then(|width| u32::try_from(width / unit).ok());
    let too_large = "the mount options name a stripe that is too large to be true";
    with_stripe(Array {
        chunk_bytes: Fact::from_option(unit.checked_mul(SECTOR_BYTES), too_large),
        data_disks: Fact::from_option(data, "the mount options name no whole number of stripe units"),
        ..stripe_alone("XFS")
    })
}

fn ext4(blocks: u64, block_bytes: Fact<u64>) -> Array {
    let stripe_alone = stripe_alone("ext4");
    let one = "ext4's mount options name the whole stripe only";
    Array {
        chunk_bytes: Fact::unknown(one),
        data_disks: Fact::unknown(one),
        stripe_bytes: match block_bytes {
            Fact::Known(bytes) => {
                Fact::from_option(bytes.checked_mul(blocks), "the stripe is too large to be true")
            }
            Fact::Unknown { why } => Fact::unknown(format!("{blocks} blocks of unknown size ({why})")),
        },
        ..stripe_alone
    }
}

/// What a file system does not know of the array below it.
fn stripe_alone(name: &str) -> Array {
    let why = format!("{name} knows of the array below only its stripe");
    Array {
        level: "stripe".into(),
        disks: Fact::unknown(&why),
        degraded: Fact::unknown(&why),
        copies: Fact::unknown(&why),
        layout: Fact::unknown(&why),
        state: Fact::unknown(&why),
        sync_action: Fact::unknown(&why),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(kind: &str, options: &str) -> Option<Array> {
        read(kind, options, || Fact::Known(4096))
    }

    #[test]
    fn xfs_counts_sectors() {
        let array =
            of("xfs", "rw,noatime,attr2,logbsize=256k,sunit=1024,swidth=8192,noquota").expect("a stripe");
        assert_eq!((array.chunk_bytes.known(), array.data_disks.known()), (Some(&524_288), Some(&8)));
        assert_eq!(array.stripe_bytes.known(), Some(&4_194_304));
        assert_eq!(of("xfs", "rw,noatime,attr2"), None);
        assert!(of("xfs", "sunit=1024").expect("a unit").data_disks.why().is_some());
        assert!(of("xfs", "sunit=3,swidth=8").expect("a unit").stripe_bytes.why().is_some());
    }

    #[test]
    fn ext4_counts_blocks() {
        let array = of("ext4", "rw,relatime,stripe=256").expect("a stripe");
        assert_eq!(array.stripe_bytes.known(), Some(&1_048_576));
        let recorded = read("ext4", "stripe=256", || Fact::unknown("a recorded tree")).expect("a stripe");
        assert_eq!(recorded.stripe_bytes.why(), Some("256 blocks of unknown size (a recorded tree)"));
        assert_eq!(of("ext4", "rw,relatime"), None);
        assert_eq!(of("tmpfs", "stripe=256"), None);
    }

    proptest! {
        #[test]
        fn any_options_are_read(options in "(sunit|swidth|stripe|rw)?=?[0-9]{0,21},(sunit|swidth|stripe)=[0-9]{0,21}|.{0,40}") {
            let _ = (of("xfs", &options), of("ext4", &options));
        }
    }
}
