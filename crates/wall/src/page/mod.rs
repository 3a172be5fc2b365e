//! The control page: the wall in a browser, for people. The same requests and messages as over TCP, in a
//! WebSocket.
//!
//! The page itself holds no secret and is served to anyone who can reach its port. What it may do hangs on a
//! secret in the fragment of its address, which browsers do not send: the page shows that it knows it by
//! answering a challenge. Plain HTTP is not encrypted: the page is for this host, for a tunnel (`ssh -L
//! 7413:127.0.0.1:7413 SERVER`), or for a network that one trusts.
//!
//! The secret is derived from the key one way, and shown to be known without being sent.
//!
//! That is done by HMAC-SHA256 (RFC 2104, FIPS 180-4), because a page must compute it too: browsers offer
//! their own only over HTTPS and to this host, so the page brings a small one.
//!
//! Over the WebSocket go challenge and answer, then the same messages as over TCP, and previews as binary
//! ones.

use super::control::state::ControlState;
use super::control::{REQUEST_BYTES, SEND_PATIENCE};
use crate::control::connection::{self, ControlConnection, Disconnected, Wire};
use crate::control::outbox::Item;
use axum::Router;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hmac::{Hmac, KeyInit, Mac};
use linerate_facts::failure::Failure;
use linerate_transport::admission::{PENDING_CONNECTIONS, TIME_TO_PROVE};
use linerate_transport::agent::{Key, SECRET_BYTES, random, same, to_hex};
use linerate_web::{
    BASE, File, Guard, HTML, NUMBERS, PICTURE, PageClient, PageListener, SCRIPT, STYLE, page_url,
};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The page's server, ready to serve.
pub(crate) struct Page {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<PageState>,
}

/// What all requests share.
struct PageState {
    control: Arc<ControlState>,
    secret: Secret,
    guard: Guard,
}

impl Page {
    /// Behind a listener.
    pub(crate) fn new(listener: TcpListener, control: Arc<ControlState>) -> Result<Page, Failure> {
        let lacks = |error: io::Error| Failure::Lacks(format!("the control page cannot start: {error}"));
        let address = listener.local_addr().map_err(lacks)?;
        let shared = PageState { secret: Secret::of(&control.key), guard: Guard::of_this_host(), control };
        Ok(Page { listener, address, shared: Arc::new(shared) })
    }

    /// What a person opens; with the secret. A page for every address is shown at this host's own.
    pub(crate) fn url(&self) -> String {
        format!("{}#{}", page_url(self.address), self.shared.secret.to_hex())
    }

    /// Serves for ever.
    pub(crate) async fn serve(self) {
        let listener = PageListener::new(self.listener, PENDING_CONNECTIONS);
        let routes = Router::new()
            .route("/control", get(control))
            .fallback(get(asset))
            .with_state(self.shared)
            .into_make_service_with_connect_info::<PageClient>();
        // For ever: it ends with its runtime.
        let Ok(()) = axum::serve(listener, routes).into_future().await else { return };
    }
}

/// A file of the page.
async fn asset(State(shared): State<Arc<PageState>>, uri: Uri, headers: HeaderMap) -> Response {
    match shared.guard.host(&headers) {
        Ok(_) => linerate_web::find(&FILES, uri.path()),
        Err(why) => refused(&why),
    }
}

/// The WebSocket.
async fn control(
    State(shared): State<Arc<PageState>>,
    ConnectInfo(client): ConnectInfo<PageClient>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match (shared.guard.check_origin(&headers), upgrade) {
        (Err(why), _) => refused(&why),
        (Ok(()), Err(rejection)) => rejection.into_response(),
        (Ok(()), Ok(upgrade)) => open_socket(upgrade, client, shared),
    }
}

/// In place of what was asked for.
fn refused(why: impl std::fmt::Display) -> Response {
    linerate_web::sentence(StatusCode::FORBIDDEN, why)
}

/// All files of the page.
const FILES: [File; 14] = [
    ("/", HTML, include_str!("page.html")),
    BASE,
    NUMBERS,
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

/// What the key is used for here: no other use of it gives the same bytes.
const KEY_PURPOSE: &[u8] = b"linerate wall page 1";

/// What the page must know. Who has it may control the wall, but does not have the key.
pub(crate) struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// Of a key.
    pub(crate) fn of(key: &Key) -> Secret {
        Secret(hmac(key.bytes(), KEY_PURPOSE))
    }

    /// For the fragment of the page's address.
    fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// The answer to a challenge (its text) is right.
    pub(crate) fn answers(&self, challenge: &str, answer: &str) -> bool {
        let expected = hmac(to_hex(&self.0).as_bytes(), challenge.as_bytes());
        same(to_hex(&expected).as_bytes(), answer.as_bytes())
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; SECRET_BYTES] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(message).finalize().into_bytes().into()
}

/// Codes of closing (RFC 6455, section 7.4.2: 4000 and above are an application's own): there is no use in
/// coming again.
const WRONG_SECRET: u16 = 4001;
/// Come again later.
const NO_PERMIT: u16 = 4002;
/// The messages of a page; grows with each that an older one would not understand.
const PAGE_PROTOCOL: u32 = 1;

/// What is said before the messages of the channel.
#[derive(Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
enum Opening {
    /// Answer with HMAC-SHA256 of this text under the secret (its hex digits are the key), in hex.
    Challenge { challenge: String, linerate: &'static str, protocol: u32 },
    /// From now on the channel's messages.
    Welcome,
}

/// What the page says first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    answer: String,
}

/// Takes over the connection.
fn open_socket(upgrade: WebSocketUpgrade, client: PageClient, shared: Arc<PageState>) -> Response {
    upgrade
        .max_message_size(REQUEST_BYTES)
        .max_frame_size(REQUEST_BYTES)
        // Sent at once, and never more than one message ahead.
        .write_buffer_size(0)
        .on_upgrade(move |socket| serve(socket, client, shared))
}

async fn serve(mut socket: WebSocket, client: PageClient, shared: Arc<PageState>) {
    match tokio::time::timeout(TIME_TO_PROVE, admit(&mut socket, &shared)).await {
        Ok(Some(true)) => {}
        Ok(Some(false)) => {
            tracing::info!(address = %client.address, "page refused: another key");
            return close(&mut socket, WRONG_SECRET, "another key").await;
        }
        Ok(None) | Err(_) => return,
    }
    let Ok(permit) = shared.control.admitted.take(client.address.ip()) else {
        tracing::info!(address = %client.address, "page refused: too many of this origin or in all");
        return close(&mut socket, NO_PERMIT, "too many connections").await;
    };
    tracing::info!(address = %client.address, "page admitted");
    client.is_known();
    let mut wire = PageWire { socket };
    if wire.say(&Opening::Welcome).await.is_ok() {
        let connection = ControlConnection::new(&shared.control, permit, true);
        connection::serve(&mut wire, connection).await;
    }
}

/// The challenge is answered rightly; none: it is not answered.
async fn admit(socket: &mut WebSocket, shared: &PageState) -> Option<bool> {
    let challenge = to_hex(&random::<32>().ok()?);
    let opening = Opening::Challenge {
        challenge: challenge.clone(),
        linerate: env!("CARGO_PKG_VERSION"),
        protocol: PAGE_PROTOCOL,
    };
    let text = serde_json::to_string(&opening).ok()?;
    socket.send(Message::text(text)).await.ok()?;
    let Message::Text(text) = socket.recv().await?.ok()? else { return None };
    let answer: Answer = serde_json::from_str(text.as_str()).ok()?;
    Some(shared.secret.answers(&challenge, &answer.answer))
}

async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    let _ = tokio::time::timeout(SEND_PATIENCE, socket.send(Message::Close(Some(frame)))).await;
}

struct PageWire {
    socket: WebSocket,
}

impl PageWire {
    async fn say(&mut self, opening: &Opening) -> Result<(), Disconnected> {
        let text = serde_json::to_string(opening).map_err(|_| Disconnected)?;
        self.send(Item::Text(text.into())).await
    }
}

impl Wire for PageWire {
    async fn receive(&mut self) -> Result<Vec<u8>, Disconnected> {
        match self.socket.recv().await {
            Some(Ok(Message::Text(text))) => Ok(text.as_str().as_bytes().to_vec()),
            Some(Ok(Message::Binary(bytes))) => Ok(bytes.to_vec()),
            // Answered by the library; it counts as a request that asks for nothing.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(Vec::new()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => Err(Disconnected),
        }
    }

    async fn send(&mut self, item: Item) -> Result<(), Disconnected> {
        let message = match item {
            Item::Text(text) => Message::text(&*text),
            Item::Binary(bytes) => Message::binary(bytes),
        };
        self.socket.send(message).await.map_err(|_| Disconnected)
    }

    /// The reason stands in the refusal that was sent before.
    async fn end(&mut self) {
        if self.socket.send(Message::Close(None)).await.is_ok() {
            while self.receive().await.is_ok() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hmac_of_the_rfc() {
        // RFC 4231, test cases 1 and 2.
        assert_eq!(
            to_hex(&hmac(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            to_hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn only_the_right_answer_to_this_challenge_is_one() {
        let secret = Secret::of(&Key::from_hex(&"5a".repeat(32)).expect("a key"));
        let answer = to_hex(&hmac(secret.to_hex().as_bytes(), b"challenge"));
        assert!(secret.answers("challenge", &answer));
        let other = Secret::of(&Key::from_hex(&"5b".repeat(32)).expect("a key"));
        assert!(!other.answers("challenge", &answer));
        for (challenge, answer) in
            [("Challenge", answer.as_str()), ("challenge", ""), ("challenge", &answer[1..])]
        {
            assert!(!secret.answers(challenge, answer));
        }
        assert!(!secret.to_hex().contains("5a5a"), "the key is not in it");
    }
}
