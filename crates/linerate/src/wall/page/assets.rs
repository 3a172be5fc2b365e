//! The files of the page, in the program itself, and the headers that keep everything else out of it.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{Response, StatusCode};

/// Nothing but the page's own files, and nothing that is made of text at run time: what comes from the wall is text, whatever it says.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Path, kind, text.
const FILES: [(&str, &str, &str); 12] = [
    ("/", HTML, include_str!("page.html")),
    ("/page.css", STYLE, include_str!("page.css")),
    ("/icon.svg", PICTURE, include_str!("icon.svg")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/link.js", SCRIPT, include_str!("link.js")),
    ("/sha256.js", SCRIPT, include_str!("sha256.js")),
    ("/transport.js", SCRIPT, include_str!("transport.js")),
    ("/joystick.js", SCRIPT, include_str!("joystick.js")),
    ("/keys.js", SCRIPT, include_str!("keys.js")),
    ("/wall.js", SCRIPT, include_str!("wall.js")),
    ("/graphs.js", SCRIPT, include_str!("graphs.js")),
    ("/figures.js", SCRIPT, include_str!("figures.js")),
];

/// The file at a path, or that there is none.
pub fn find(path: &str) -> Response<Body> {
    let found = FILES.iter().find(|(place, _, _)| *place == path);
    let (status, kind, text) = match found {
        Some((_, kind, text)) => (StatusCode::OK, *kind, *text),
        None => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "There is no such file.\n"),
    };
    let mut response = Response::new(Body::from(text));
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
