//! Signature Version 4 of a request, in its `Authorization` line, as AWS documents it
//! (docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). Pure.

use super::credentials::S3Credentials;
use hmac::{Hmac, KeyInit, Mac};
use linerate_transport::agent::to_hex;
use sha2::{Digest, Sha256};

/// SHA-256 of nothing, in hexadecimal: of a request without a body.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// For what a signature is good.
#[derive(Clone, Copy, Debug)]
pub struct SigningScope<'a> {
    /// UTC, as `20130524T000000Z`.
    pub time: &'a str,
    pub region: &'a str,
    pub service: &'a str,
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    pub method: &'a str,
    /// Path and query as they go onto the wire.
    pub target: &'a str,
    /// Lines that are signed, with their names in lower case, `host` among them.
    pub lines: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body in hexadecimal, or `UNSIGNED-PAYLOAD`.
    pub payload: &'a str,
}

/// The value of the `Authorization` line.
pub fn authorization(
    credentials: &S3Credentials,
    scope: &SigningScope<'_>,
    request: &SignedRequest<'_>,
) -> String {
    let SigningScope { time, region, service } = scope;
    let day = time.get(..8).unwrap_or(time);
    let names = signed_names(request);
    let place = format!("{day}/{region}/{service}/aws4_request");
    let canonical = to_hex(&Sha256::digest(canonical_request(request, &names)));
    let signed = format!("AWS4-HMAC-SHA256\n{time}\n{place}\n{canonical}");
    let first = format!("AWS4{}", credentials.secret_key);
    let key = [day, region, service, "aws4_request"]
        .iter()
        .fold(first.into_bytes(), |key, part| hmac_sha256(&key, part.as_bytes()));
    let signature = to_hex(&hmac_sha256(&key, signed.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{place}, SignedHeaders={names}, Signature={signature}",
        credentials.access_key
    )
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length: it is never empty.
    let mac = Hmac::<Sha256>::new_from_slice(key);
    mac.map(|mac| mac.chain_update(text).finalize().into_bytes().to_vec()).unwrap_or_default()
}

fn signed_names(request: &SignedRequest<'_>) -> String {
    let mut names: Vec<&str> = request.lines.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.join(";")
}

fn canonical_request(request: &SignedRequest<'_>, names: &str) -> String {
    let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
    let mut words: Vec<(&str, &str)> = query
        .split('&')
        .filter(|word| !word.is_empty())
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .collect();
    words.sort_unstable();
    let query: Vec<String> = words.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut lines = request.lines.to_vec();
    lines.sort_unstable();
    let line = |(name, value): &(&str, &str)| {
        let value: Vec<&str> = value.split_whitespace().collect();
        format!("{name}:{}\n", value.join(" "))
    };
    let lines: String = lines.iter().map(line).collect();
    let SignedRequest { method, payload, .. } = request;
    format!("{method}\n{path}\n{}\n{lines}\n{names}\n{payload}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(secret: &str, scope: SigningScope<'_>, request: &SignedRequest<'_>) -> String {
        let credentials = S3Credentials {
            access_key: "AKIDEXAMPLE".into(),
            secret_key: secret.into(),
            session_token: None,
        };
        let line = authorization(&credentials, &scope, request);
        line.rsplit_once("Signature=").expect("a signature").1.into()
    }

    /// AWS's Signature Version 4 test suite (aws-sig-v4-test-suite), by the names of its cases.
    #[test]
    fn signatures_are_those_of_the_published_suite() {
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeo\
                     IYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5V\
                     SXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yj\
                     c8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        for (case, method, target, session, wanted) in [
            (
                "get-vanilla",
                "GET",
                "/",
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "get-vanilla-query-order-key-case",
                "GET",
                "/?Param2=value2&Param1=value1",
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-utf8",
                "GET",
                "/%E1%88%B4",
                "",
                "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
            ),
            (
                "get-space",
                "GET",
                "/example%20space/",
                "",
                "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
            ),
            (
                "post-sts-header-before",
                "POST",
                "/",
                token,
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
            ),
        ] {
            let scope = SigningScope { time: "20150830T123600Z", region: "us-east-1", service: "service" };
            let mut lines = vec![("x-amz-date", scope.time), ("host", "example.amazonaws.com")];
            if !session.is_empty() {
                lines.push(("x-amz-security-token", session));
            }
            let request = SignedRequest { method, target, lines: &lines, payload: EMPTY_SHA256 };
            assert_eq!(signed("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", scope, &request), wanted, "{case}");
        }
    }

    /// The examples of the documentation of S3, “Signature Calculations for the Authorization Header”.
    #[test]
    fn signatures_are_those_of_the_documentation_of_s3() {
        let body = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        let range = [("range", "bytes=0-9")];
        let put = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        for (method, target, lines, payload, wanted) in [
            (
                "GET",
                "/test.txt",
                &range[..],
                EMPTY_SHA256,
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test%24file.text",
                &put[..],
                body,
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/?lifecycle",
                &[],
                EMPTY_SHA256,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/?max-keys=2&prefix=J",
                &[],
                EMPTY_SHA256,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let scope = SigningScope { time: "20130524T000000Z", region: "us-east-1", service: "s3" };
            let usual = [
                ("host", "examplebucket.s3.amazonaws.com"),
                ("x-amz-date", scope.time),
                ("x-amz-content-sha256", payload),
            ];
            let lines = [&usual[..], lines].concat();
            let request = SignedRequest { method, target, lines: &lines, payload };
            assert_eq!(
                signed("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", scope, &request),
                wanted,
                "{target}"
            );
        }
    }
}
