//! The upload of a `put` that was killed: found at the store by its key, and gone on with where what the store has of it
//! is of this file. So nothing has to be kept on this host, and another one can go on as well.

use super::answers::{ListedPart, PartPage, parse_parts, parse_uploads};
use super::error::S3Error;
use super::requests::ask_text;
use super::store::S3Store;
use super::upload::{OpenUpload, part_bytes_of, part_range};
use crate::client::TransferError;
use crate::http::url::{HttpUrl, encoded};
use crate::put::sources::OpenSource;
use crate::put::{PutError, PutStream};
use std::collections::BTreeMap;

/// Of so many uploads of one key it is looked what they have.
const MOST_LOOKED_AT: usize = 8;
/// Pages of a list of parts: of 10,000, 1000 on each.
const MOST_PAGES: usize = 10;

impl PutStream<'_> {
    /// The latest upload of this key that can be gone on with; `usual` is how long a new one's parts would be.
    pub(super) fn unfinished(
        &mut self,
        store: &S3Store,
        source: &OpenSource,
        usual: u64,
    ) -> Result<Option<OpenUpload>, PutError> {
        let file = &source.file;
        let ids = self.upload_ids(store, &file.url)?;
        for id in ids.into_iter().rev().take(MOST_LOOKED_AT) {
            let Some(held) = self.held_parts(store, &file.url, &id)? else { continue };
            let Some(part_bytes) = part_bytes_of(&held, file.bytes, usual) else { continue };
            // What begins otherwise may be what somebody else sends just now.
            let first = held.first_key_value().map(|(number, part)| (*number, part.sum));
            let is_own = match first {
                None => true,
                Some((number, sum)) => {
                    let range = part_range(number, part_bytes, file.bytes);
                    sum == Some(self.sums_of(store, source, range)?.sum.value)
                }
            };
            if is_own {
                tracing::debug!(url = %file.url, id, parts = held.len(), "an upload is gone on with");
                return Ok(Some(OpenUpload { id, part_bytes, held }));
            }
        }
        Ok(None)
    }

    /// The names of what the store has of this key, in its order: that in which they began.
    fn upload_ids(&mut self, store: &S3Store, url: &HttpUrl) -> Result<Vec<String>, PutError> {
        let place = store.place(url);
        let top = store.url(&place.with_key(""));
        let prefix = encoded(place.key.as_bytes());
        let query = format!("encoding-type=url&max-uploads=1000&prefix={prefix}&uploads=");
        let answer = self.listed(store, url, &top.with_target(&format!("{}?{query}", top.path())))?;
        let uploads = answer.and_then(|answer| parse_uploads(&answer).ok()).unwrap_or_default();
        let own = uploads.into_iter().filter(|upload| upload.key == place.key);
        Ok(own.map(|upload| upload.id).collect())
    }

    /// The parts of an upload that becomes an object with the sum that linerate asks for; none: it is another, or over.
    fn held_parts(
        &mut self,
        store: &S3Store,
        url: &HttpUrl,
        id: &str,
    ) -> Result<Option<BTreeMap<u32, ListedPart>>, PutError> {
        let (mut held, mut after) = (BTreeMap::new(), 0);
        for _ in 0..MOST_PAGES {
            let marker = if after > 0 { format!("&part-number-marker={after}") } else { String::new() };
            let query = format!("max-parts=1000{marker}&uploadId={}", encoded(id.as_bytes()));
            let answer = self.listed(store, url, &url.with_target(&format!("{}?{query}", url.path())))?;
            let page = answer.and_then(|answer| parse_parts(&answer).ok());
            let Some(PartPage { is_summed: true, parts, next }) = page else { return Ok(None) };
            held.extend(parts);
            match next {
                Some(next) if next > after => after = next,
                Some(_) => return Ok(None),
                None => return Ok(Some(held)),
            }
        }
        Ok(None)
    }

    /// An answer in XML; none where the store refuses it: not every store has these lists, nor may everybody read them.
    fn listed(&mut self, store: &S3Store, of: &HttpUrl, url: &HttpUrl) -> Result<Option<Vec<u8>>, PutError> {
        let place = store.place(of);
        let asked = ask_text(&mut self.connection, self.settings, (store, &place), ("GET", url, ""), &[]);
        let passes = match &asked {
            Err(TransferError::Store(error)) => matches!(**error, S3Error::SlowDown { .. }),
            Err(error) => error.may_pass() || matches!(error, TransferError::Interrupted),
            Ok(_) => false,
        };
        match asked {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if passes => Err(error.into()),
            Err(error) => {
                tracing::debug!(%error, "no upload is gone on with");
                self.connection = None;
                Ok(None)
            }
        }
    }
}
