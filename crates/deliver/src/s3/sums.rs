//! Sums of objects, as stores keep them: `x-amz-checksum-…`. Those that can be made of the sums of parts, so
//! that nothing is read twice.
//!
//! Beside them the MD5 of an object, which a store has as its `ETag`: against what changes bytes by accident,
//! not against anyone who does so on purpose: MD5 is not a guard against that, and the store itself says what it
//! is.

use crate::client::TransferError;
use crate::http::conditions::{base64, from_base64};
use crate::http::head::HeaderLines;
use crate::http::url::HttpUrl;
use linerate_sums::{Crc, CrcAlgorithm, joined_crc};
use linerate_system::lock;
use linerate_transport::agent::to_hex;
use md5::{Digest, Md5};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// How a sum is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumAlgorithm {
    Crc64Nvme,
    Crc32C,
    Crc32,
}

/// The sum of a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSum {
    pub algorithm: SumAlgorithm,
    pub value: u64,
}

impl SumAlgorithm {
    /// The best first: what a store has of all of them is the same content.
    const ALL: [SumAlgorithm; 3] = [SumAlgorithm::Crc64Nvme, SumAlgorithm::Crc32C, SumAlgorithm::Crc32];

    /// As in `verified` of a result.
    pub fn name(self) -> &'static str {
        match self {
            SumAlgorithm::Crc64Nvme => "crc64nvme",
            SumAlgorithm::Crc32C => "crc32c",
            SumAlgorithm::Crc32 => "crc32",
        }
    }

    fn crc(self) -> CrcAlgorithm {
        match self {
            SumAlgorithm::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            SumAlgorithm::Crc32C => CrcAlgorithm::Crc32Iscsi,
            SumAlgorithm::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        }
    }

    fn bytes(self) -> usize {
        if self == SumAlgorithm::Crc64Nvme { 8 } else { 4 }
    }

    /// A sum that grows with its bytes.
    pub(crate) fn begin(self) -> Crc {
        Crc::new(self.crc())
    }

    /// The sum of two neighbours.
    pub(crate) fn joined(self, first: u64, second: u64, second_bytes: u64) -> u64 {
        joined_crc(self.crc(), first, second, second_bytes)
    }
}

impl ObjectSum {
    /// What a store says of the whole object; none where it has none, or one of its parts' sums alone.
    pub(crate) fn of_lines(lines: &HeaderLines) -> Option<Self> {
        if lines.has_word("x-amz-checksum-type", "composite") {
            return None;
        }
        // Some stores give the sum of an upload's parts' sums and do not say so; its tag has the number of parts.
        let says_whole = lines.has_word("x-amz-checksum-type", "full_object");
        let of_parts = lines.text("etag").is_some_and(|tag| tag.contains('-'));
        let is_whole = |algorithm| says_whole || !of_parts || algorithm == SumAlgorithm::Crc64Nvme;
        SumAlgorithm::ALL.into_iter().filter(|algorithm| is_whole(*algorithm)).find_map(|algorithm| {
            let text = lines.text(&format!("x-amz-checksum-{}", algorithm.name()))?;
            ObjectSum::parse(algorithm, text)
        })
    }

    /// Base64 of its bytes, the highest first.
    pub fn parse(algorithm: SumAlgorithm, text: &str) -> Option<Self> {
        let bytes = from_base64(text, algorithm.bytes()).filter(|bytes| bytes.len() == algorithm.bytes())?;
        let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        Some(ObjectSum { algorithm, value })
    }

    /// As the store writes it.
    pub fn show(&self) -> String {
        let bytes = self.value.to_be_bytes();
        base64(&bytes[8 - self.algorithm.bytes()..])
    }

    /// The name of what was compared, or what differs.
    pub(crate) fn compared(&self, own: u64, url: &HttpUrl) -> Result<&'static str, TransferError> {
        let name = self.algorithm.name();
        match own == self.value {
            true => Ok(name),
            false => Err(TransferError::OtherSum {
                url: url.to_string(),
                name,
                found: ObjectSum { value: own, ..*self }.show(),
                wanted: self.show(),
            }),
        }
    }

    /// Bytes in memory are those of the object.
    pub(crate) fn checked(&self, bytes: &[u8], url: &HttpUrl) -> Result<&'static str, TransferError> {
        self.compared(ObjectSum::of(self.algorithm, bytes).value, url)
    }

    /// Of bytes in memory.
    pub(crate) fn of(algorithm: SumAlgorithm, bytes: &[u8]) -> Self {
        ObjectSum { algorithm, value: linerate_sums::crc(algorithm.crc(), bytes) }
    }
}

/// The sums of an object's blocks, in whatever order they come.
#[derive(Debug)]
pub(crate) struct BlockSums {
    whole: ObjectSum,
    blocks: Mutex<BTreeMap<u64, u64>>,
}

impl BlockSums {
    pub(crate) fn new(whole: ObjectSum) -> Self {
        BlockSums { whole, blocks: Mutex::default() }
    }

    /// Of a block of which nothing has come yet.
    pub(crate) fn begin(&self) -> Crc {
        self.whole.algorithm.begin()
    }

    /// A block is whole.
    pub(crate) fn add(&self, block: u64, sum: &Crc) {
        lock(&self.blocks).insert(block, sum.finalize());
    }

    /// All blocks are there: together they are the object, or not.
    pub(crate) fn compared(
        &self,
        length: impl Fn(u64) -> u64,
        url: &HttpUrl,
    ) -> Result<&'static str, TransferError> {
        let algorithm = self.whole.algorithm;
        let blocks = lock(&self.blocks);
        let join = |so_far, (block, sum): (&u64, &u64)| algorithm.joined(so_far, *sum, length(*block));
        let own = blocks.iter().fold(algorithm.begin().finalize(), join);
        self.whole.compared(own, url)
    }
}

/// Hexadecimal digits of an MD5.
const MD5_DIGITS: usize = 32;

/// The MD5 of a whole object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagMd5(String);

impl TagMd5 {
    /// None where the tag is no MD5: of an object that came in parts, or that a key of KMS or of the client encrypts (S3's
    /// "Object", `ETag`).
    pub(crate) fn of_lines(lines: &HeaderLines) -> Option<Self> {
        let of_kms = lines.text("x-amz-server-side-encryption").is_some_and(|by| by.starts_with("aws:"));
        if of_kms || lines.text("x-amz-server-side-encryption-customer-algorithm").is_some() {
            return None;
        }
        let tag = lines.text("etag")?.strip_prefix('"')?.strip_suffix('"')?;
        let is_md5 = tag.len() == MD5_DIGITS && tag.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_md5.then(|| TagMd5(tag.to_ascii_lowercase()))
    }

    /// The name of what was compared, or what differs.
    pub(crate) fn compared(&self, own: Md5, url: &HttpUrl) -> Result<&'static str, TransferError> {
        match to_hex(&own.finalize()) {
            own if own == self.0 => Ok("md5"),
            found => Err(TransferError::OtherSum {
                url: url.to_string(),
                name: "MD5 (its ETag)",
                found,
                wanted: self.0.clone(),
            }),
        }
    }

    /// The same of bytes in memory.
    pub(crate) fn checked(&self, bytes: &[u8], url: &HttpUrl) -> Result<&'static str, TransferError> {
        self.compared(Md5::new_with_prefix(bytes), url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::parse_response;
    use proptest::prelude::*;

    fn of(lines: &str) -> Option<ObjectSum> {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        ObjectSum::of_lines(&parse_response(text.as_bytes()).expect("HTTP").expect("whole").0.headers)
    }

    /// The check values of the catalogue of CRCs, of “123456789”.
    #[test]
    fn sums_are_those_of_the_catalogue() {
        for (algorithm, value, text) in [
            (SumAlgorithm::Crc64Nvme, 0xae8b_1486_0a79_9888, "rosUhgp5mIg="),
            (SumAlgorithm::Crc32C, 0xe306_9283, "4waSgw=="),
            (SumAlgorithm::Crc32, 0xcbf4_3926, "y/Q5Jg=="),
        ] {
            let sum = ObjectSum::of(algorithm, b"123456789");
            assert_eq!((sum.value, sum.show().as_str()), (value, text));
            assert_eq!(of(&format!("X-Amz-Checksum-{}: {text}\r\n", algorithm.name())), Some(sum));
            let (first, second) = (ObjectSum::of(algorithm, b"1234"), ObjectSum::of(algorithm, b"56789"));
            assert_eq!(algorithm.joined(first.value, second.value, 5), value);
        }
    }

    #[test]
    fn blocks_in_any_order_are_the_object() {
        let url = "http://h/b/k".parse().expect("a URL");
        for algorithm in SumAlgorithm::ALL {
            let sums = BlockSums::new(ObjectSum::of(algorithm, b"123456789"));
            for (block, bytes) in [(2, &b"9"[..]), (0, b"1234"), (1, b"0000"), (1, b"5678")] {
                let mut sum = sums.begin();
                sum.update(bytes);
                sums.add(block, &sum);
            }
            let length = |block| if block == 2 { 1 } else { 4 };
            assert_eq!(sums.compared(length, &url).expect("the same"), algorithm.name());
            sums.add(2, &sums.begin());
            assert!(matches!(sums.compared(length, &url), Err(TransferError::OtherSum { .. })));
        }
    }

    #[test]
    fn a_sum_of_parts_sums_is_none_of_the_object() {
        let whole = "x-amz-checksum-crc32: y/Q5Jg==\r\n";
        assert!(of(&format!("{whole}x-amz-checksum-type: FULL_OBJECT\r\n")).is_some());
        assert_eq!(of(&format!("{whole}x-amz-checksum-type: COMPOSITE\r\n")), None);
        let of_parts = format!("{whole}ETag: \"3858f62230ac3c915f300c664312c11f-3\"\r\n");
        assert_eq!(of(&of_parts), None);
        assert!(of(&format!("{of_parts}x-amz-checksum-type: FULL_OBJECT\r\n")).is_some());
        for text in ["y/Q5Jg==-3", "", "y/Q5", "rosUhgp5mIg=", "*"] {
            assert_eq!(of(&format!("x-amz-checksum-crc32: {text}\r\n")), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_sum_goes_there_and_back(value: u64) {
            for algorithm in SumAlgorithm::ALL {
                let sum = ObjectSum { algorithm, value: value >> (64 - 8 * algorithm.bytes()) };
                prop_assert_eq!(ObjectSum::parse(algorithm, &sum.show()), Some(sum));
            }
        }
    }

    fn tag_of(lines: &str) -> Option<TagMd5> {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        TagMd5::of_lines(&parse_response(text.as_bytes()).expect("HTTP").expect("whole").0.headers)
    }

    /// Of RFC 1321, appendix A.5.
    #[test]
    fn a_tag_of_one_part_in_the_clear_is_compared() {
        let url = "http://h/b/k".parse().expect("a URL");
        for tag in ["900150983cd24fb0d6963f7d28e17f72", "900150983CD24FB0D6963F7D28E17F72"] {
            let lines = format!("ETag: \"{tag}\"\r\nx-amz-server-side-encryption: AES256\r\n");
            let md5 = tag_of(&lines).expect("an MD5");
            assert_eq!(md5.checked(b"abc", &url).expect("the same"), "md5");
            let differs = md5.checked(b"abd", &url).expect_err("another").to_string();
            assert!(differs.contains("MD5") && differs.contains("nothing of it was kept"), "{differs}");
        }
    }

    #[test]
    fn other_tags_are_no_md5() {
        let tag = "ETag: \"900150983cd24fb0d6963f7d28e17f72\"\r\n";
        for lines in [
            "",
            "ETag: \"900150983cd24fb0d6963f7d28e17f72-2\"\r\n",
            "ETag: \"900150983cd24fb0d6963f7d28e17f7\"\r\n",
            "ETag: W/\"900150983cd24fb0d6963f7d28e17f72\"\r\n",
            "ETag: \"x00150983cd24fb0d6963f7d28e17f72\"\r\n",
            &format!("{tag}x-amz-server-side-encryption: aws:kms\r\n"),
            &format!("{tag}x-amz-server-side-encryption: aws:kms:dsse\r\n"),
            &format!("{tag}x-amz-server-side-encryption-customer-algorithm: AES256\r\n"),
        ] {
            assert_eq!(tag_of(lines), None, "{lines}");
        }
    }
}
