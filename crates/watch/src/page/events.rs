//! `/events`: every moment to every page that is in sight, as server-sent events.
//!
//! A reader that is slow gets the newest moment when it is ready and has lost those between; the kernel
//! closes on one that takes nothing for some seconds. The sampler knows of neither.

use super::PageState;
use crate::latest_moment::{EncodedMoment, LatestMoment};
use axum::extract::{ConnectInfo, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use linerate_transport::admission::Permit;
use linerate_web::{PageClient, sentence};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// Where no moment comes for so long, a comment does: a reader that is gone is noticed.
const PULSE: Duration = Duration::from_secs(5);

/// One reader.
struct Reader {
    latest: Arc<LatestMoment>,
    moments: Receiver<Option<Arc<EncodedMoment>>>,
    greeted: bool,
    told_end: bool,
    _permit: Permit,
}

/// The stream.
pub(crate) async fn events(
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
        match tokio::time::timeout(PULSE, reader.moments.changed()).await {
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
