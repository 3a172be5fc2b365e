//! The watch in a browser, and `/metrics`: the same moments as in the terminal, over plain HTTP.
//!
//! On a loopback address everybody on this host may look, as at `/proc`. On any other address a token is
//! wanted, because figures of a server tell an attacker much; plain HTTP is not encrypted, so such a network
//! has to be one that one trusts, or a tunnel.
//!
//! `/events` sends every moment to every page that is in sight, as server-sent events.
//!
//! A reader that is slow gets the newest moment when it is ready and has lost those between; the kernel closes
//! on one that takes nothing for some seconds. The sampler knows of neither.
//!
//! The page's uPlot (<https://github.com/leeoniya/uPlot>, 1.6.32, MIT) is as its author built it.

mod token;

pub use self::token::PageToken;
use super::history::{LatestMoment, Span};
use super::{openmetrics, prometheus_text};
use crate::history::EncodedMoment;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::header::{ACCEPT, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use linerate_facts::failure::Failure;
use linerate_transport::admission::{Permit, Permits};
use linerate_web::{
    BASE, File, Guard, HTML, NUMBERS, PICTURE, PageClient, PageListener, SCRIPT, STYLE, bind, page_url,
    sentence,
};
use std::convert::Infallible;
use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;

/// Connections at once that are not event streams.
const CONNECTIONS: usize = 128;
/// Event streams at once: one for each tab that is in sight.
const STREAMS: usize = 64;
/// A login is 64 digits.
const LARGEST_REQUEST_BYTES: usize = 4096;

/// What who knows OpenMetrics gets, and everybody else.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// Where the page is, and who may see it.
pub struct PageSettings {
    pub listen: SocketAddr,
    /// None: only on loopback.
    pub token: Option<PageToken>,
}

/// Serves on a thread of its own until it is dropped.
pub struct Page {
    address: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// What all requests share.
struct PageState {
    latest: Arc<LatestMoment>,
    guard: Guard,
    token: Option<PageToken>,
    streams: Arc<Permits>,
    port: u16,
}

impl Page {
    /// Listens.
    pub fn start(latest: Arc<LatestMoment>, settings: PageSettings) -> Result<Page, Failure> {
        let PageSettings { listen, token } = settings;
        if !listen.ip().to_canonical().is_loopback() && token.is_none() {
            return Err(Failure::Usage(format!(
                "--listen {listen} would show this host to everybody who reaches that address: give \
                 --token-file FILE (it is made where it \
                 is absent), or listen on 127.0.0.1:{} and reach it through `ssh -L`",
                listen.port()
            )));
        }
        let lacks = |error: io::Error| Failure::Lacks(format!("the page cannot start: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(lacks)?;
        let inside = runtime.enter();
        let Some(listener) = bind(&[listen], "--listen")?.pop() else {
            return Err(lacks(io::ErrorKind::AddrNotAvailable.into()));
        };
        let address = listener.local_addr().map_err(lacks)?;
        drop(inside);
        let streams = Permits::shared(STREAMS);
        let port = address.port();
        let shared = PageState { latest, guard: Guard::of_this_host(), token, streams, port };
        let accepted = PageListener::new(listener, CONNECTIONS);
        let routes = routes(Arc::new(shared)).into_make_service_with_connect_info::<PageClient>();
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = axum::serve(accepted, routes).into_future() => {}
                    () = stopped.notified() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("page".into()).spawn(serve).map_err(lacks)?;
        Ok(Page { address, stop, thread: Some(thread) })
    }

    /// Where it listens, with the port that the kernel chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a person opens, without the token. A page for every address is shown at this host's own.
    pub fn url(&self) -> String {
        page_url(self.address)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn routes(shared: Arc<PageState>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .route("/history", get(history))
        .route("/moment", get(moment))
        .route("/metrics", get(metrics))
        .route("/login", post(login))
        .fallback(get(asset))
        .layer(DefaultBodyLimit::max(LARGEST_REQUEST_BYTES))
        .with_state(shared)
}

impl PageState {
    /// None: the request is served. Where there is a token, it shows it. Where there is none, it is for a
    /// name that nobody else owns, and of no page of another site. With a token the name does not matter,
    /// because a browser shows our cookie only to the name that it got it from.
    fn refusal(&self, headers: &HeaderMap) -> Option<Response> {
        match &self.token {
            Some(token) if token.is_shown(headers, self.port) => None,
            Some(_) => Some(token::wanted()),
            None => self
                .guard
                .check_origin(headers)
                .err()
                .map(|why| linerate_web::sentence(StatusCode::FORBIDDEN, &why)),
        }
    }
}

/// The page; to who shows no token yet, the one that asks for it.
async fn page(State(shared): State<Arc<PageState>>, uri: Uri, headers: HeaderMap) -> Response {
    if let Some(token) = &shared.token
        && let Some(shown) = token::in_query(&uri)
    {
        return token.log_in(shown, shared.port, token::Then::Page);
    }
    match shared.refusal(&headers) {
        None => linerate_web::find(&FILES, "/"),
        Some(_) if shared.token.is_some() => {
            let mut response = linerate_web::find(&LOGIN, "/");
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            response
        }
        Some(refused) => refused,
    }
}

/// What the page that asks for the token sends.
async fn login(State(shared): State<Arc<PageState>>, headers: HeaderMap, body: Bytes) -> Response {
    match &shared.token {
        Some(token) => token.log_in(String::from_utf8_lossy(&body).trim(), shared.port, token::Then::Nothing),
        None => shared
            .refusal(&headers)
            .unwrap_or_else(|| linerate_web::sentence(StatusCode::NOT_FOUND, "This page wants no token.")),
    }
}

/// A file of the page. There is nothing secret in them, but a foreign name gets none.
async fn asset(State(shared): State<Arc<PageState>>, uri: Uri, headers: HeaderMap) -> Response {
    if shared.token.is_none()
        && let Some(refused) = shared.refusal(&headers)
    {
        return refused;
    }
    linerate_web::find(&FILES, uri.path())
}

/// The past: `?span=minute`, `hour`, `day`.
async fn history(State(shared): State<Arc<PageState>>, uri: Uri, headers: HeaderMap) -> Response {
    if let Some(refused) = shared.refusal(&headers) {
        return refused;
    }
    let word = uri.query().and_then(|query| query.strip_prefix("span=")).unwrap_or("minute");
    let Some(span) = Span::of_word(word) else {
        return linerate_web::sentence(
            StatusCode::BAD_REQUEST,
            "There is a span of a minute, an hour and a day: ?span=minute.",
        );
    };
    let report = shared.latest.history().report(span);
    match serde_json::to_string(&report) {
        Ok(text) => linerate_web::answer(StatusCode::OK, JSON, text),
        Err(error) => linerate_web::sentence(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

/// The newest moment, as it also is in recordings.
async fn moment(State(shared): State<Arc<PageState>>, headers: HeaderMap) -> Response {
    match (shared.refusal(&headers), shared.latest.newest()) {
        (Some(refused), _) => refused,
        (None, Some(shown)) => linerate_web::answer(StatusCode::OK, JSON, shown.json().to_string()),
        (None, None) => not_yet(),
    }
}

/// The newest moment for Prometheus, in the form that it asks for.
async fn metrics(State(shared): State<Arc<PageState>>, headers: HeaderMap) -> Response {
    let Some(shown) = shared.latest.newest() else { return shared.refusal(&headers).unwrap_or_else(not_yet) };
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let open = accepted.into_iter().any(|kinds| kinds.contains("application/openmetrics-text"));
    match (shared.refusal(&headers), open) {
        (Some(refused), _) => refused,
        (None, true) => linerate_web::answer(StatusCode::OK, OPENMETRICS, openmetrics(&shown.moment)),
        (None, false) => linerate_web::answer(StatusCode::OK, PROMETHEUS, prometheus_text(&shown.moment)),
    }
}

fn not_yet() -> Response {
    linerate_web::sentence(
        StatusCode::SERVICE_UNAVAILABLE,
        "Nothing is measured yet; ask again after one interval.",
    )
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// All files of the page.
const FILES: [File; 19] = [
    ("/", HTML, include_str!("page.html")),
    BASE,
    NUMBERS,
    ("/page.css", STYLE, include_str!("page.css")),
    ("/icon.svg", PICTURE, include_str!("icon.svg")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/link.js", SCRIPT, include_str!("link.js")),
    ("/past.js", SCRIPT, include_str!("past.js")),
    ("/chart.js", SCRIPT, include_str!("chart.js")),
    ("/tables.js", SCRIPT, include_str!("tables.js")),
    ("/nics.js", SCRIPT, include_str!("nics.js")),
    ("/disks.js", SCRIPT, include_str!("disks.js")),
    ("/processes.js", SCRIPT, include_str!("processes.js")),
    ("/cores.js", SCRIPT, include_str!("cores.js")),
    ("/host.js", SCRIPT, include_str!("host.js")),
    ("/login.js", SCRIPT, include_str!("login.js")),
    ("/uPlot.iife.min.js", SCRIPT, include_str!("uplot/uPlot.iife.min.js")),
    ("/uPlot.min.css", STYLE, include_str!("uplot/uPlot.min.css")),
    ("/uPlot.LICENSE", PLAIN, include_str!("uplot/LICENSE")),
];

/// In place of the page, for who has not shown the token.
const LOGIN: [File; 1] = [("/", HTML, include_str!("login.html"))];

/// Where no moment comes for so long, a comment does: a reader that is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// One reader.
struct Reader {
    latest: Arc<LatestMoment>,
    moments: Receiver<Option<Arc<EncodedMoment>>>,
    greeted: bool,
    told_end: bool,
    _permit: Permit,
}

/// The stream.
async fn events(
    State(shared): State<Arc<PageState>>,
    ConnectInfo(client): ConnectInfo<PageClient>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = shared.refusal(&headers) {
        return refused;
    }
    let Ok(permit) = shared.streams.take(client.address.ip()) else {
        return sentence(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many pages are open; close some, this one then comes by itself.",
        );
    };
    client.is_known();
    let mut moments = shared.latest.listen();
    // The newest one is sent at once.
    moments.mark_changed();
    let latest = shared.latest.clone();
    let reader = Reader { latest, moments, greeted: false, told_end: false, _permit: permit };
    let mut response = Sse::new(stream::unfold(reader, next)).into_response();
    let kind = response.headers().get(CONTENT_TYPE).cloned();
    linerate_web::protect(response.headers_mut());
    response.headers_mut().extend(kind.map(|kind| (CONTENT_TYPE, kind)));
    // Its permit ends with the stream, which a HEAD has none of: so must the connection.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// What the reader gets next: first which program this is, then moments, then that a recording has ended.
async fn next(mut reader: Reader) -> Option<(Result<Event, Infallible>, Reader)> {
    if !reader.greeted {
        reader.greeted = true;
        let hello = Event::default().event("hello").data(env!("CARGO_PKG_VERSION"));
        return Some((Ok(hello), reader));
    }
    loop {
        // anyone who ends the latest has left its last moment before.
        let ended = reader.latest.has_ended();
        if ended && !reader.told_end && !reader.moments.has_changed().unwrap_or(false) {
            reader.told_end = true;
            // Browsers drop an event without data.
            let event = Event::default().event("ended").data("nothing more comes");
            return Some((Ok(event), reader));
        }
        match tokio::time::timeout(KEEP_ALIVE, reader.moments.changed()).await {
            // The latest is gone.
            Ok(Err(_)) => return None,
            Ok(Ok(())) => {
                let newest = reader.moments.borrow_and_update().clone();
                if let Some(shown) = newest {
                    let event = Event::default().data(shown.json());
                    return Some((Ok(event), reader));
                }
            }
            Err(_) => return Some((Ok(Event::default().comment("still here")), reader)),
        }
    }
}
