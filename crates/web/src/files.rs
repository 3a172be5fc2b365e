//! The files of a page, in the program itself, and the headers that keep everything else out of it.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Response, StatusCode};

/// Nothing but the page's own files, and nothing that is made of text at run time: what comes from outside is
/// text, whatever it says.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src \
                      'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// Content types.
pub const HTML: &str = "text/html; charset=utf-8";
pub const STYLE: &str = "text/css; charset=utf-8";
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
pub const PICTURE: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// One file: path, content type, text.
pub type File = (&'static str, &'static str, &'static str);

/// The file at a path, or that there is none.
pub fn find(files: &[File], path: &str) -> Response<Body> {
    match files.iter().find(|(place, _, _)| *place == path) {
        Some((_, kind, text)) => answer(StatusCode::OK, kind, *text),
        None => sentence(StatusCode::NOT_FOUND, "There is no such file."),
    }
}

/// An answer that is one sentence.
pub fn sentence(status: StatusCode, text: impl std::fmt::Display) -> Response<Body> {
    answer(status, TEXT, format!("{text}\n"))
}

/// An answer under the headers of all.
pub fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    protect(response.headers_mut());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The headers of every answer.
pub fn protect(headers: &mut HeaderMap) {
    let all: [(HeaderName, &'static str); 8] = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the program brings another page.
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
