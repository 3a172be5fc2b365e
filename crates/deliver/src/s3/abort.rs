//! The end of an upload that did not come to its own.

use super::requests::ask_text;
use super::store::S3Store;
use super::upload::{Upload, upload_url};
use crate::client::ClientSettings;
use crate::get::error::GetError;
use crate::patience::Retries;
use crate::put::error::PutError;
use std::time::Duration;

/// So often an upload is to be aborted, each time after a longer wait: 1.4 s in all.
const ABORT_TRIES: u32 = 4;
const ABORT_WAITS: u32 = 2;

/// What the store has of an upload is thrown away; where that fails, who does it instead.
pub(crate) fn abort(settings: &ClientSettings<'_>, store: &S3Store, upload: &Upload) -> Result<(), PutError> {
    let url = upload_url(upload);
    let place = store.place(&upload.file.url);
    let mut retries = Retries::new(ABORT_TRIES, Duration::ZERO);
    let aborted = loop {
        let asked = ask_text(&mut None, settings, (store, &place), ("DELETE", &url, ""), &[]);
        // Parts that were on their way are still coming in: a store may stumble over them.
        let wait = asked.as_ref().err().and_then(|error| retries.failed(error.may_pass(), false));
        let Some(wait) = wait else { break asked };
        settings.stop.wait(ABORT_WAITS * wait);
    };
    match aborted {
        Ok(_) | Err(GetError::NotFound { .. }) => {}
        Err(GetError::Store(error)) if error.is_no_upload() => {}
        Err(why) => {
            return Err(PutError::NotAborted {
                place: Box::new(place),
                id: upload.open.id.clone(),
                why: why.to_string(),
            });
        }
    }
    store.closed_upload(&upload.open.id);
    Ok(())
}
