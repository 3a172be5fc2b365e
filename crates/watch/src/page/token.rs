//! The token, which a page that others can reach wants: as `Authorization: Bearer` for programs, as a cookie
//! for browsers.
//!
//! The cookie is not the token but derived from it: anyone who finds the one does not have the other. It
//! carries the port in its name, because browsers show a host's cookies to all its ports.

use axum::http::header::{
    AUTHORIZATION, COOKIE, HeaderMap, HeaderValue, LOCATION, SET_COOKIE, WWW_AUTHENTICATE,
};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use linerate_transport::agent::{BearerToken, Key, same, to_hex};
use linerate_web::sentence;
use sha2::{Digest, Sha256};

/// What the token is used for here: no other use of it gives the same bytes.
const PURPOSE: &str = "linerate watch cookie 1 ";
/// A browser forgets it after a month.
const MAX_AGE_SECONDS: u32 = 30 * 24 * 3600;

/// Who shows it may look: 64 hex digits.
pub struct PageToken {
    token: BearerToken,
    cookie: String,
}

/// What follows a login.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// A browser with the token in its address goes to the page without it.
    Page,
    Nothing,
}

impl PageToken {
    /// The digits of a key file.
    pub fn of(key: &Key) -> PageToken {
        let token = BearerToken::of(key);
        let cookie = to_hex(&Sha256::digest(format!("{PURPOSE}{}", token.secret())));
        PageToken { token, cookie }
    }

    /// Bearer token or cookie of this request are right.
    pub(crate) fn is_shown(&self, headers: &HeaderMap, port: u16) -> bool {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if bearer.is_some_and(|text| text.contains(' ')) {
            return self.token.is_shown_by(bearer);
        }
        let name = cookie_name(port);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(own, value)| own == name && same(value.as_bytes(), self.cookie.as_bytes()))
    }

    /// The cookie for who shows the token.
    pub(crate) fn log_in(&self, shown: &str, port: u16, then: Then) -> Response {
        if !self.token.is(&shown.to_ascii_lowercase()) {
            return wanted();
        }
        let (status, text) = match then {
            Then::Page => (StatusCode::SEE_OTHER, "Go on to the page."),
            Then::Nothing => (StatusCode::OK, "Welcome."),
        };
        let mut response = sentence(status, text);
        let headers = response.headers_mut();
        let name = cookie_name(port);
        let cookie = &self.cookie;
        let line = format!("{name}={cookie}; Path=/; Max-Age={MAX_AGE_SECONDS}; HttpOnly; SameSite=Strict");
        headers.extend(HeaderValue::from_str(&line).ok().map(|line| (SET_COOKIE, line)));
        if then == Then::Page {
            headers.insert(LOCATION, HeaderValue::from_static("/"));
        }
        response
    }
}

/// In place of what was asked for without the token.
pub(crate) fn wanted() -> Response {
    let why = "This address wants the token of --token-file: open / in a browser, or send `Authorization: \
               Bearer TOKEN`.";
    let mut response = sentence(StatusCode::UNAUTHORIZED, why);
    let realm = HeaderValue::from_static("Bearer realm=\"linerate watch\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, realm);
    response
}

/// `?token=…`.
pub(crate) fn in_query(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

fn cookie_name(port: u16) -> String {
    format!("linerate-watch-{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> PageToken {
        PageToken::of(&Key::from_hex(&"5a".repeat(32)).expect("a key"))
    }

    fn with(name: axum::http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a value"))])
    }

    #[test]
    fn the_token_and_its_cookie_open_and_nothing_else_does() {
        let token = token();
        let digits = "5a".repeat(32);
        assert!(token.is_shown(&with(AUTHORIZATION, &format!("Bearer {digits}")), 1));
        assert!(token.is_shown(&with(AUTHORIZATION, &format!("bearer  {digits}")), 1));
        for wrong in
            ["Bearer", "Bearer ", &digits, &format!("Basic {digits}"), &format!("Bearer {}", &digits[1..])]
        {
            assert!(!token.is_shown(&with(AUTHORIZATION, wrong), 1), "{wrong}");
        }
        assert!(!token.is_shown(&HeaderMap::new(), 1));
        let welcome = token.log_in(&digits, 7, Then::Nothing);
        let cookie = welcome.headers()[SET_COOKIE].to_str().expect("text").to_string();
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("5a5a")
        );
        let pair = cookie.split(';').next().expect("a pair");
        assert!(token.is_shown(&with(COOKIE, &format!("other=1; {pair}")), 7));
        assert!(!token.is_shown(&with(COOKIE, pair), 8), "another port's");
        assert!(
            !token.is_shown(&with(COOKIE, &format!("linerate-watch-7={digits}")), 7),
            "the token is not a cookie"
        );
    }

    #[test]
    fn a_wrong_login_gets_no_cookie() {
        for wrong in ["", "5a", &"5b".repeat(32)] {
            let refused = token().log_in(wrong, 7, Then::Page);
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
            assert!(!refused.headers().contains_key(SET_COOKIE));
        }
    }

    #[test]
    fn the_token_is_found_in_the_address() {
        let found = |text: &str| in_query(&text.parse::<Uri>().expect("an address")).map(str::to_string);
        assert_eq!(found("/?token=ab"), Some("ab".into()));
        assert_eq!(found("/?x=1&token=ab"), Some("ab".into()));
        assert_eq!(found("/?xtoken=ab"), None);
        assert_eq!(found("/"), None);
    }
}
