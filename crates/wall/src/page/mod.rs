//! The control page: the wall in a browser, for people. The same requests and messages as over TCP, in a
//! WebSocket.
//!
//! The page itself holds no secret and is served to anyone who can reach its port. What it may do hangs on a
//! secret in the fragment of its address, which browsers do not send: the page shows that it knows it by
//! answering a challenge (`secret`). Plain HTTP is not encrypted: the page is for this host, for a tunnel
//! (`ssh -L 7413:127.0.0.1:7413 SERVER`), or for a network that one trusts.

mod assets;
mod secret;
mod socket;

use self::secret::Secret;
use super::control::state::ControlState;
use axum::Router;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, State, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use linerate_facts::failure::Failure;
use linerate_transport::admission::PENDING_CONNECTIONS;
use linerate_web::{Guard, PageClient, PageListener, page_url};
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
        Ok(_) => linerate_web::find(&assets::FILES, uri.path()),
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
    match (shared.guard.origin(&headers), upgrade) {
        (Err(why), _) => refused(&why),
        (Ok(()), Err(rejection)) => rejection.into_response(),
        (Ok(()), Ok(upgrade)) => socket::upgrade(upgrade, client, shared),
    }
}

/// In place of what was asked for.
fn refused(why: impl std::fmt::Display) -> Response {
    linerate_web::sentence(StatusCode::FORBIDDEN, why)
}
