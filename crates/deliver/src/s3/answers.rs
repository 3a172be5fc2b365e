//! What a store answers in XML: lists, why it refused, the uploads of a key that nobody has ended, and the
//! parts that it has of one. Bounded, and nothing of it is believed before it was looked at.

use super::sums::{ObjectSum, SumAlgorithm};
use crate::http::url::decoded;
use linerate_facts::printable::foreign;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use thiserror::Error;

/// Elements and texts of an answer.
const MOST_NODES: u32 = 200_000;
/// The most objects of one answer; S3 itself sends 1000.
const MOST_OBJECTS: usize = 10_000;
/// The longest text of an answer that is shown or sent back.
const MOST_WORD_BYTES: usize = 4 << 10;

/// Why an answer is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AnswerError {
    #[error("it is not XML ({0}); is the endpoint that of an S3 store?")]
    NoXml(String),
    #[error("it is {found} where {wanted} belongs; is the endpoint that of an S3 store?")]
    Other { found: String, wanted: &'static str },
    #[error("it has no usable {0}")]
    Lacks(&'static str),
    #[error("it has more than {MOST_OBJECTS} keys")]
    TooMany,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPage {
    pub objects: Vec<ListedObject>,
    /// With what the next page is asked for.
    pub next: Option<String>,
}

/// One object of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    pub key: String,
    pub bytes: u64,
    /// Seconds since 1970.
    pub modified: Option<u64>,
}

/// Why a store refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFault {
    /// As `NoSuchKey`; empty where there is none.
    pub code: String,
    pub message: String,
    /// Where the bucket is.
    pub region: Option<String>,
}

pub(super) fn parsed(text: &str) -> Result<Document<'_>, AnswerError> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..Default::default() };
    Document::parse_with_options(text, options)
        .map_err(|error| AnswerError::NoXml(foreign(&error.to_string())))
}

fn child<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let found = node.children().find(|child| child.tag_name().name() == name)?;
    Some(found.text().unwrap_or_default())
}

/// A text that is short, and of one line.
pub(super) fn word<'a>(node: Node<'a, '_>, name: &'static str) -> Result<&'a str, AnswerError> {
    let text = child(node, name).unwrap_or_default();
    let sound = !text.is_empty() && text.len() <= MOST_WORD_BYTES && !text.chars().any(char::is_control);
    sound.then_some(text).ok_or(AnswerError::Lacks(name))
}

pub(super) fn root<'a, 'i>(
    document: &'a Document<'i>,
    wanted: &'static str,
) -> Result<Node<'a, 'i>, AnswerError> {
    let root = document.root_element();
    match root.tag_name().name() {
        name if name == wanted => Ok(root),
        name => Err(AnswerError::Other { found: foreign(name), wanted }),
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, AnswerError> {
    std::str::from_utf8(bytes).map_err(|error| AnswerError::NoXml(error.to_string()))
}

/// The answer to ListObjectsV2.
pub fn parse_list(bytes: &[u8]) -> Result<ObjectPage, AnswerError> {
    let document = parsed(text_of(bytes)?)?;
    let root = root(&document, "ListBucketResult")?;
    let entries = || root.children().filter(|child| child.tag_name().name() == "Contents");
    let is_encoded = says_encoded(root, entries().filter_map(|entry| child(entry, "Key")));
    let mut objects = Vec::new();
    for entry in entries() {
        if objects.len() >= MOST_OBJECTS {
            return Err(AnswerError::TooMany);
        }
        let key = child(entry, "Key").unwrap_or_default();
        let key = if is_encoded { decoded_key(key) } else { Some(key.to_string()) };
        let key = key.filter(|key| !key.is_empty() && key.len() <= MOST_WORD_BYTES);
        let bytes = child(entry, "Size").and_then(|size| size.trim().parse().ok());
        objects.push(ListedObject {
            key: key.ok_or(AnswerError::Lacks("Key"))?,
            bytes: bytes.ok_or(AnswerError::Lacks("Size"))?,
            modified: child(entry, "LastModified").and_then(parse_time),
        });
    }
    let is_cut = child(root, "IsTruncated").is_some_and(|text| text.trim() == "true");
    let next = is_cut.then(|| word(root, "NextContinuationToken").map(String::from)).transpose()?;
    Ok(ObjectPage { objects, next })
}

/// The keys of this answer are encoded. Some stores say so of keys that they send as they are: a key that no encoding
/// gives shows it, of its whole page.
fn says_encoded<'a>(root: Node<'a, '_>, mut keys: impl Iterator<Item = &'a str>) -> bool {
    child(root, "EncodingType") == Some("url") && keys.all(could_be_encoded)
}

fn could_be_encoded(key: &str) -> bool {
    let hex = |at: usize| key.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    key.bytes().enumerate().all(|(at, byte)| match byte {
        b'%' => hex(at + 1) && hex(at + 2),
        byte => byte.is_ascii_graphic(),
    })
}

/// With `encoding-type=url` a blank is a plus, as in a form.
fn decoded_key(text: &str) -> Option<String> {
    String::from_utf8(decoded(&text.replace('+', " ")).ok()?).ok()
}

/// `2009-10-12T17:50:30.000Z`.
fn parse_time(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339(text.trim()).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The answer to CreateMultipartUpload: the name of the upload.
pub fn parse_upload(bytes: &[u8]) -> Result<String, AnswerError> {
    let document = parsed(text_of(bytes)?)?;
    word(root(&document, "InitiateMultipartUploadResult")?, "UploadId").map(String::from)
}

/// The answer to CompleteMultipartUpload, which may say only in its body that it failed; then the fault.
pub fn parse_completed(bytes: &[u8]) -> Result<Result<(), StoreFault>, AnswerError> {
    if let Some(fault) = parse_fault(bytes) {
        return Ok(Err(fault));
    }
    let document = parsed(text_of(bytes)?)?;
    // `…Result` at AWS, `…Response` at some others.
    match document.root_element().tag_name().name() {
        name if name.starts_with("CompleteMultipartUpload") => Ok(Ok(())),
        _ => root(&document, "CompleteMultipartUploadResult").map(|_| Ok(())),
    }
}

/// An `Error`, if it is one.
pub fn parse_fault(bytes: &[u8]) -> Option<StoreFault> {
    let document = parsed(text_of(bytes).ok()?).ok()?;
    let root = root(&document, "Error").ok()?;
    let short = |name| child(root, name).map(|text| text.trim().chars().take(300).collect::<String>());
    Some(StoreFault {
        code: short("Code").unwrap_or_default(),
        message: short("Message").unwrap_or_default(),
        region: short("Region").filter(|region| !region.is_empty()),
    })
}

/// The body of CompleteMultipartUpload: for each part, from 1 on, its tag and its sum.
pub fn show_parts<'a>(parts: impl Iterator<Item = (u32, &'a str, Option<(&'static str, String)>)>) -> String {
    let mut text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_string();
    for (number, tag, sum) in parts {
        let sum = sum.map_or_else(String::new, |(name, sum)| format!("<{name}>{sum}</{name}>"));
        let tag = tag.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{sum}</Part>"));
    }
    text.push_str("</CompleteMultipartUpload>");
    text
}

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

    const LIST: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>\
        <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>1/a+b=</NextContinuationToken>\
        <Contents><Key>a/b+c%2B%C3%BC%0A</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>\
        <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size></Contents>\
        <Contents><Key>x</Key><Size>0</Size></Contents></ListBucketResult>";

    #[test]
    fn lists_are_read_as_stores_write_them() {
        let page = parse_list(LIST.as_bytes()).expect("a list");
        assert_eq!(page.next.as_deref(), Some("1/a+b="));
        let first = ListedObject { key: "a/b c+ü\n".into(), bytes: 434_234, modified: Some(1_255_369_830) };
        assert_eq!(page.objects, [first, ListedObject { key: "x".into(), bytes: 0, modified: None }]);
        let plain = LIST.replace("<EncodingType>url</EncodingType>", "").replace("true", "false");
        let page = parse_list(plain.as_bytes()).expect("a list");
        assert_eq!((page.next, page.objects[0].key.as_str()), (None, "a/b+c%2B%C3%BC%0A"));
        let no_token = LIST.replace("1/a+b=", "");
        assert_eq!(parse_list(no_token.as_bytes()), Err(AnswerError::Lacks("NextContinuationToken")));
        assert_eq!(parse_list(LIST.replace("434234", "-1").as_bytes()), Err(AnswerError::Lacks("Size")));
        assert_eq!(parse_list(LIST.replace("%0A", "%FF").as_bytes()), Err(AnswerError::Lacks("Key")));
        assert!(matches!(parse_list(&LIST.as_bytes()[..300]), Err(AnswerError::NoXml(_))));
        assert!(matches!(parse_list(b"<html/>"), Err(AnswerError::Other { .. })));
        let bomb = "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\">]><ListBucketResult>&a;</ListBucketResult>";
        assert!(matches!(parse_list(bomb.as_bytes()), Err(AnswerError::NoXml(_))));
        let many = format!("<ListBucketResult>{}</ListBucketResult>", "<a/>".repeat(MOST_NODES as usize));
        assert!(matches!(parse_list(many.as_bytes()), Err(AnswerError::NoXml(_))));
    }

    /// As s3s-fs does.
    #[test]
    fn keys_that_no_encoding_gives_are_taken_as_they_are() {
        for key in ["a b", "é", "100%", "50%+x", "%4g", "a\tb"] {
            let text = LIST.replace("<Key>x<", &format!("<Key>{key}<"));
            let page = parse_list(text.as_bytes()).expect("a list");
            let keys: Vec<_> = page.objects.iter().map(|object| object.key.as_str()).collect();
            assert_eq!(keys, ["a/b+c%2B%C3%BC%0A", key]);
        }
        let page = parse_list(LIST.replace("<Key>x<", "<Key>%c3%A9+<").as_bytes()).expect("a list");
        assert_eq!(page.objects[1].key, "é ");
    }

    #[test]
    fn faults_and_uploads_are_read() {
        let fault = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region &apos;a&apos; is wrong</Message>\
                     <Region>eu-west-1</Region></Error>";
        let read = parse_fault(fault.as_bytes()).expect("a fault");
        assert_eq!(
            (read.code.as_str(), read.region.as_deref()),
            ("AuthorizationHeaderMalformed", Some("eu-west-1"))
        );
        assert_eq!(parse_completed(fault.as_bytes()), Ok(Err(read)));
        assert_eq!(parse_completed(b"<CompleteMultipartUploadResult/>"), Ok(Ok(())));
        assert_eq!(parse_completed(b"<CompleteMultipartUploadResponse/>"), Ok(Ok(())));
        assert!(matches!(parse_completed(b"<html/>"), Err(AnswerError::Other { .. })));
        assert!(parse_completed(b"").is_err() && parse_fault(b"").is_none());
        let upload =
            "<InitiateMultipartUploadResult><UploadId>a.b-c</UploadId></InitiateMultipartUploadResult>";
        assert_eq!(parse_upload(upload.as_bytes()), Ok("a.b-c".into()));
        let line = upload.replace("a.b-c", "a&#13;b");
        assert_eq!(parse_upload(line.as_bytes()), Err(AnswerError::Lacks("UploadId")));
        let parts = [(1, "\"a\"", Some(("ChecksumCRC64NVME", "AA==".to_string()))), (2, "<&>", None)];
        let body = show_parts(parts.into_iter());
        let document = Document::parse(&body).expect("XML");
        let tags: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name(("http://s3.amazonaws.com/doc/2006-03-01/", "ETag")))
            .filter_map(|node| node.text())
            .collect();
        assert_eq!(tags, ["\"a\"", "<&>"]);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(text in "(<(/)?(Error|Code|ListBucketResult|Contents|Key|Size|a)( x=\"y\")?(/)?>|&(lt|#0|x);|[ -~]){0,40}") {
            let _ = (parse_list(text.as_bytes()), parse_upload(text.as_bytes()), parse_completed(text.as_bytes()));
        }

        #[test]
        fn any_key_goes_there_and_back(key in "[^\u{0}]{1,40}") {
            let encoded = crate::http::url::encoded(key.as_bytes());
            let text = format!("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>{encoded}</Key><Size>1</Size></Contents></ListBucketResult>");
            prop_assert_eq!(&parse_list(text.as_bytes()).expect("a list").objects[0].key, &key);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse_list(&bytes), parse_upload(&bytes), parse_completed(&bytes), parse_fault(&bytes));
        }
    }

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
        fn any_list_of_uploads_is_read_or_refused(text in "<(ListPartsResult|ListMultipartUploadsResult)>(<(/)?(Upload|Key|UploadId|Part|PartNumber|Size|ETag|IsTruncated|NextPartNumberMarker)(/)?>|&(lt|#0|x);|[ -~]|true){0,40}") {
            for text in [text.clone(), format!("{text}</ListPartsResult>"), format!("{text}</ListMultipartUploadsResult>")] {
                let _ = (parse_uploads(text.as_bytes()), parse_parts(text.as_bytes()));
            }
        }

        #[test]
        fn any_bytes_are_uploads_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
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
