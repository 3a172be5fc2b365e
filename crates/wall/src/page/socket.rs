//! The page's WebSocket: challenge and answer, then the same messages as over TCP, and previews as binary
//! ones.

use super::PageState;
use crate::control::connection::{self, ControlConnection, Disconnected, Wire};
use crate::control::limits::{REQUEST_BYTES, SEND};
use crate::control::outbox::Item;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use linerate_transport::admission::TIME_TO_PROVE;
use linerate_transport::agent::{random, to_hex};
use linerate_web::PageClient;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
pub(crate) fn upgrade(upgrade: WebSocketUpgrade, client: PageClient, shared: Arc<PageState>) -> Response {
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
    let _ = tokio::time::timeout(SEND, socket.send(Message::Close(Some(frame)))).await;
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
