//! What the store of the tests answers where nothing is spoilt.

use super::fake_store::{Asked, OpenUpload, StoreContent, StoredObject};
use linerate::deliver::s3::{ObjectSum, SumAlgorithm};

/// Keys, or parts, of a list's page.
const PAGE: usize = 3;

/// Status, header lines, body.
pub type Answer = (u16, String, Vec<u8>);

pub fn sum_of(content: &[u8]) -> String {
    shown_sum(linerate_sums::crc(linerate_sums::CrcAlgorithm::Crc64Nvme, content))
}

pub fn shown_sum(value: u64) -> String {
    ObjectSum { algorithm: SumAlgorithm::Crc64Nvme, value }.show()
}

pub fn fault(status: u16, code: &str) -> Answer {
    let body =
        format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>as it is</Message></Error>");
    (status, String::new(), body.into_bytes())
}

pub fn answer(asked: &Asked, store: &mut StoreContent) -> Answer {
    let (bucket, key) = asked.key();
    if bucket == "absent" {
        return fault(404, "NoSuchBucket");
    }
    match asked.what().as_str() {
        "GET list" => list(asked, store, &bucket),
        "GET object" | "HEAD object" => object(asked, store.objects.get(&(bucket, key))),
        "GET uploads" => uploads(asked, store, &bucket),
        "PUT object" => put(asked, store, (bucket, key)),
        "POST create" => {
            store.made += 1;
            let id = format!("upload/{}+", store.made);
            let modified = asked.line("x-amz-meta-mtime").map(String::from);
            let is_summed = asked.line("x-amz-checksum-algorithm") == Some("CRC64NVME");
            let upload = OpenUpload {
                place: (bucket, key),
                modified_line: modified,
                is_summed,
                ..OpenUpload::default()
            };
            store.uploads.insert(id.clone(), upload);
            let root = "InitiateMultipartUploadResult";
            (200, String::new(), format!("<{root}><UploadId>{id}</UploadId></{root}>").into_bytes())
        }
        what => upload(asked, store, what),
    }
}

fn encoded(key: &str) -> String {
    let letters = key.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' => (byte as char).to_string(),
        b' ' => "+".into(),
        byte => format!("%{byte:02X}"),
    });
    letters.collect()
}

/// As AWS does: of one key, in the order in which they began.
fn uploads(asked: &Asked, store: &StoreContent, bucket: &str) -> Answer {
    let prefix = asked.word("prefix").unwrap_or_default();
    let mut of: Vec<_> = store.uploads.iter().map(|(id, upload)| (&upload.place, id)).collect();
    of.retain(|((own, key), _)| own == bucket && key.starts_with(&prefix));
    of.sort();
    let entries = of.iter().map(|((_, key), id)| {
        format!("<Upload><Key>{}</Key><UploadId>{id}</UploadId></Upload>", encoded(key))
    });
    let root = "ListMultipartUploadsResult";
    let body = format!("<{root}><EncodingType>url</EncodingType>{}</{root}>", entries.collect::<String>());
    (200, String::new(), body.into_bytes())
}

fn parts(asked: &Asked, upload: &OpenUpload) -> Answer {
    let after = asked.word("part-number-marker").map_or(0, |text| text.parse().expect("digits"));
    let left: Vec<_> = upload.parts.range(after + 1..).collect();
    let mut body = "<ListPartsResult>".to_string();
    if upload.is_summed {
        body.push_str(
            "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>",
        );
    }
    for (number, part) in left.iter().take(PAGE) {
        body.push_str(&format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>&quot;part{number}&quot;</ETag><Size>{}</Size>\
             <ChecksumCRC64NVME>{}</ChecksumCRC64NVME></Part>",
            part.len(),
            sum_of(part)
        ));
    }
    if let (Some((last, _)), true) = (left.get(PAGE - 1), left.len() > PAGE) {
        body.push_str(&format!(
            "<NextPartNumberMarker>{last}</NextPartNumberMarker><IsTruncated>true</IsTruncated>"
        ));
    }
    (200, String::new(), (body + "</ListPartsResult>").into_bytes())
}

fn list(asked: &Asked, store: &StoreContent, bucket: &str) -> Answer {
    let (prefix, after) = (asked.word("prefix").unwrap_or_default(), asked.word("continuation-token"));
    let keys = store.objects.iter().filter(|((own, key), _)| own == bucket && key.starts_with(&prefix));
    let keys: Vec<_> = keys.filter(|((_, key), _)| after.as_ref().is_none_or(|after| key > after)).collect();
    let mut body = "<ListBucketResult><EncodingType>url</EncodingType>".to_string();
    for ((_, key), object) in keys.iter().take(PAGE) {
        body.push_str(&format!(
            "<Contents><Key>{}</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified><Size>{}</Size></Contents>",
            encoded(key),
            object.content.len()
        ));
    }
    let next = keys.get(PAGE.wrapping_sub(1)).filter(|_| keys.len() > PAGE);
    let next = next.map(|((_, key), _)| format!("<NextContinuationToken>{key}</NextContinuationToken>"));
    body.push_str(&format!(
        "<IsTruncated>{}</IsTruncated>{}</ListBucketResult>",
        next.is_some(),
        next.unwrap_or_default()
    ));
    (200, String::new(), body.into_bytes())
}

fn object(asked: &Asked, object: Option<&StoredObject>) -> Answer {
    let Some(object) = object else { return fault(404, "NoSuchKey") };
    if asked.line("if-match").is_some_and(|tag| tag != object.tag()) {
        return fault(412, "PreconditionFailed");
    }
    let mut lines = format!("ETag: {}\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", object.tag());
    if let Some(modified) = &object.modified_line {
        lines.push_str(&format!("x-amz-meta-mtime: {modified}\r\n"));
    }
    let range = asked.line("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else {
        if asked.line("x-amz-checksum-mode") == Some("ENABLED") {
            lines.push_str(&format!("x-amz-checksum-crc64nvme: {}\r\n", object.sum()));
        }
        return (200, lines, object.content.clone());
    };
    let (first, whole): (usize, usize) = (first.parse().expect("digits"), object.content.len());
    let last = last.parse::<usize>().expect("digits").min(whole - 1);
    lines.push_str(&format!("Content-Range: bytes {first}-{last}/{whole}\r\n"));
    (206, lines, object.content[first..=last].to_vec())
}

/// The line with the sum, or what is wrong with it.
fn sum_line(asked: &Asked, content: &[u8]) -> Result<String, Answer> {
    match asked.line("x-amz-checksum-crc64nvme") {
        Some(sum) if sum != sum_of(content) => Err(fault(400, "BadDigest")),
        Some(sum) => Ok(format!("x-amz-checksum-crc64nvme: {sum}\r\n")),
        None => Ok(String::new()),
    }
}

fn put(asked: &Asked, store: &mut StoreContent, place: (String, String)) -> Answer {
    if asked.line("if-none-match") == Some("*") && store.objects.contains_key(&place) {
        return fault(412, "PreconditionFailed");
    }
    let line = match sum_line(asked, &asked.body) {
        Ok(line) => line,
        Err(answer) => return answer,
    };
    let modified_line = asked.line("x-amz-meta-mtime").map(String::from);
    let object = StoredObject::new(asked.body.clone(), modified_line);
    let lines = format!("ETag: {}\r\n{line}", object.tag());
    store.objects.insert(place, object);
    (200, lines, Vec::new())
}

fn upload(asked: &Asked, store: &mut StoreContent, what: &str) -> Answer {
    let id = asked.word("uploadId").unwrap_or_default();
    let Some(upload) = store.uploads.get_mut(&id) else { return fault(404, "NoSuchUpload") };
    let OpenUpload { place, modified_line, parts: own, .. } = upload;
    match what {
        "GET parts" => parts(asked, upload),
        "PUT part" => {
            let line = match sum_line(asked, &asked.body) {
                Ok(line) => line,
                Err(answer) => return answer,
            };
            let number = asked.word("partNumber").and_then(|number| number.parse().ok()).expect("a number");
            own.insert(number, asked.body.clone());
            (200, format!("ETag: \"part{number}\"\r\n{line}"), Vec::new())
        }
        "DELETE abort" => {
            store.uploads.remove(&id);
            (204, String::new(), Vec::new())
        }
        "POST complete" => {
            let content = own.values().map(Vec::as_slice).collect::<Vec<_>>().concat();
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            let listed = own.iter().all(|(number, part)| {
                body.contains(&format!("<PartNumber>{number}</PartNumber><ETag>\"part{number}\"</ETag>"))
                    && (asked.line("x-amz-checksum-type").is_none() || body.contains(&sum_of(part)))
            });
            if !listed || body.matches("<Part>").count() != own.len() {
                return fault(400, "InvalidPart");
            }
            if let Err(answer) = sum_line(asked, &content) {
                return answer;
            }
            let place = place.clone();
            if asked.line("if-none-match") == Some("*") && store.objects.contains_key(&place) {
                return fault(412, "PreconditionFailed");
            }
            let modified_line = modified_line.clone();
            store.objects.insert(place, StoredObject::new(content, modified_line));
            store.uploads.remove(&id);
            (200, String::new(), b"<CompleteMultipartUploadResult/>".to_vec())
        }
        _ => fault(400, "InvalidRequest"),
    }
}
