//! What a store says of an upload that nobody has ended: which there are of a key, and the parts that it has of one.

use super::answers::{AnswerError, child, decoded_key, parsed, root, says_encoded, text_of, word};
use super::sums::{ObjectSum, SumAlgorithm};
use std::collections::BTreeMap;

/// The most uploads of one answer; S3 itself sends 1000.
const MOST_UPLOADS: usize = 10_000;
/// The highest number of a part.
const MOST_PARTS: u32 = 10_000;

/// An upload that is neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    pub key: String,
    pub id: String,
}

/// A page of the parts that a store has of an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartPage {
    /// They become an object whose CRC64NVME is that of all its bytes.
    pub is_summed: bool,
    /// By their numbers.
    pub parts: BTreeMap<u32, ListedPart>,
    /// The part after which the next page begins.
    pub next: Option<u32>,
}

/// A part that a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPart {
    pub bytes: u64,
    pub tag: String,
    /// The CRC64NVME of its bytes, where the store has it.
    pub sum: Option<u64>,
}

/// The answer to ListMultipartUploads.
pub fn parse_uploads(bytes: &[u8]) -> Result<Vec<ListedUpload>, AnswerError> {
    let document = parsed(text_of(bytes)?)?;
    let root = root(&document, "ListMultipartUploadsResult")?;
    let entries = root.children().filter(|child| child.tag_name().name() == "Upload");
    let entries: Vec<_> = entries.take(MOST_UPLOADS + 1).collect();
    if entries.len() > MOST_UPLOADS {
        return Err(AnswerError::TooMany);
    }
    let keys = || entries.iter().map(|entry| child(*entry, "Key").unwrap_or_default());
    let is_encoded = says_encoded(root, keys());
    let uploads = entries.iter().zip(keys()).map(|(entry, key)| {
        let key = if is_encoded { decoded_key(key) } else { Some(key.to_string()) };
        let id = word(*entry, "UploadId")?.to_string();
        Ok(ListedUpload { key: key.ok_or(AnswerError::Lacks("Key"))?, id })
    });
    uploads.collect()
}

/// The answer to ListParts.
pub fn parse_parts(bytes: &[u8]) -> Result<PartPage, AnswerError> {
    let document = parsed(text_of(bytes)?)?;
    let root = root(&document, "ListPartsResult")?;
    let mut parts = BTreeMap::new();
    for entry in root.children().filter(|child| child.tag_name().name() == "Part") {
        let number = child(entry, "PartNumber").and_then(|text| text.trim().parse().ok());
        let number = number.filter(|number| (1..=MOST_PARTS).contains(number));
        let bytes = child(entry, "Size").and_then(|text| text.trim().parse().ok());
        let sum = child(entry, "ChecksumCRC64NVME").map(str::trim);
        let part = ListedPart {
            bytes: bytes.ok_or(AnswerError::Lacks("Size"))?,
            tag: word(entry, "ETag")?.to_string(),
            sum: sum.and_then(|sum| ObjectSum::parse(SumAlgorithm::Crc64Nvme, sum)).map(|sum| sum.value),
        };
        parts.insert(number.ok_or(AnswerError::Lacks("PartNumber"))?, part);
    }
    let is = |name, wanted: &str| child(root, name).is_some_and(|text| text.trim() == wanted);
    let is_summed = is("ChecksumAlgorithm", "CRC64NVME") && !is("ChecksumType", "COMPOSITE");
    let next = child(root, "NextPartNumberMarker").and_then(|text| text.trim().parse().ok());
    let next = match is("IsTruncated", "true") {
        true => Some(next.ok_or(AnswerError::Lacks("NextPartNumberMarker"))?),
        false => None,
    };
    Ok(PartPage { is_summed, parts, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARTS: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <ListPartsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>b</Bucket><Key>k</Key>\
        <UploadId>u</UploadId><PartNumberMarker>0</PartNumberMarker><NextPartNumberMarker>3</NextPartNumberMarker>\
        <MaxParts>2</MaxParts><IsTruncated>true</IsTruncated><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>\
        <ChecksumType>FULL_OBJECT</ChecksumType>\
        <Part><PartNumber>1</PartNumber><ETag>&quot;7778aef8&quot;</ETag><Size>9</Size>\
        <ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME></Part>\
        <Part><PartNumber>3</PartNumber><ETag>\"aaaa18db\"</ETag><Size>10485760</Size></Part></ListPartsResult>";

    #[test]
    fn parts_are_read_as_stores_write_them() {
        let page = parse_parts(PARTS.as_bytes()).expect("parts");
        assert_eq!((page.is_summed, page.next), (true, Some(3)));
        let sum = Some(0xae8b_1486_0a79_9888);
        let first = ListedPart { bytes: 9, tag: "\"7778aef8\"".into(), sum };
        let third = ListedPart { bytes: 10 << 20, tag: "\"aaaa18db\"".into(), sum: None };
        assert_eq!(page.parts, [(1, first), (3, third)].into());
        let of = |old: &str, new: &str| parse_parts(PARTS.replace(old, new).as_bytes());
        assert!(!of("FULL_OBJECT", "COMPOSITE").expect("parts").is_summed);
        assert!(!of("CRC64NVME</ChecksumAlgorithm>", "CRC32</ChecksumAlgorithm>").expect("parts").is_summed);
        assert_eq!(of("rosUhgp5mIg=", "rosU").expect("parts").parts[&1].sum, None);
        assert_eq!(of("true", "false").expect("parts").next, None);
        let lacks = |old, new| match of(old, new) {
            Err(AnswerError::Lacks(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(lacks("<NextPartNumberMarker>3", "<NextPartNumberMarker>x"), "NextPartNumberMarker");
        assert_eq!(lacks("<Size>9", "<Size>-9"), "Size");
        assert_eq!(lacks("<PartNumber>3", "<PartNumber>10001"), "PartNumber");
        assert_eq!(lacks("&quot;7778aef8&quot;", "a&#10;b"), "ETag");
        assert!(matches!(parse_parts(b"<ListBucketResult/>"), Err(AnswerError::Other { .. })));
    }

    #[test]
    fn uploads_are_read_as_stores_write_them() {
        let text = "<ListMultipartUploadsResult><Bucket>b</Bucket><EncodingType>url</EncodingType>\
                    <Upload><Key>a+b%2B%C3%BC</Key><UploadId>u/1+</UploadId></Upload>\
                    <Upload><Key>c</Key><UploadId>2</UploadId></Upload></ListMultipartUploadsResult>";
        let upload = |key: &str, id: &str| ListedUpload { key: key.into(), id: id.into() };
        let uploads = parse_uploads(text.as_bytes()).expect("uploads");
        assert_eq!(uploads, [upload("a b+ü", "u/1+"), upload("c", "2")]);
        let plain = parse_uploads(text.replace("<Key>c", "<Key>c d").as_bytes()).expect("uploads");
        assert_eq!(plain, [upload("a+b%2B%C3%BC", "u/1+"), upload("c d", "2")]);
        let line = text.replace("u/1+", "a&#13;b");
        assert_eq!(parse_uploads(line.as_bytes()), Err(AnswerError::Lacks("UploadId")));
        assert_eq!(parse_uploads(b"<ListMultipartUploadsResult/>"), Ok(Vec::new()));
        assert!(matches!(parse_uploads(b"<ListBucketResult/>"), Err(AnswerError::Other { .. })));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(text in "<(ListPartsResult|ListMultipartUploadsResult)>(<(/)?(Upload|Key|UploadId|Part|PartNumber|Size|ETag|IsTruncated|NextPartNumberMarker)(/)?>|&(lt|#0|x);|[ -~]|true){0,40}") {
            for text in [text.clone(), format!("{text}</ListPartsResult>"), format!("{text}</ListMultipartUploadsResult>")] {
                let _ = (parse_uploads(text.as_bytes()), parse_parts(text.as_bytes()));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse_uploads(&bytes), parse_parts(&bytes));
        }

        #[test]
        fn any_part_goes_there_and_back(number in 1u32..=10_000, bytes: u64, sum: u64) {
            let shown = ObjectSum { algorithm: SumAlgorithm::Crc64Nvme, value: sum }.show();
            let text = format!("<ListPartsResult><Part><PartNumber>{number}</PartNumber><ETag>\"t\"</ETag><Size>{bytes}</Size>\
                <ChecksumCRC64NVME>{shown}</ChecksumCRC64NVME></Part></ListPartsResult>");
            let page = parse_parts(text.as_bytes()).expect("parts");
            prop_assert_eq!(page.parts, [(number, ListedPart { bytes, tag: "\"t\"".into(), sum: Some(sum) })].into());
        }
    }
}
