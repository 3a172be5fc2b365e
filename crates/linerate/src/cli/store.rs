//! The object store of `s3://` URLs: where it is, and who asks, by the variables and the profile that AWS's own tools read.

use super::arguments::TransferUrl;
use super::output::Output;
use linerate_deliver::http::url::HttpUrl;
use linerate_deliver::s3::credentials::S3Identity;
use linerate_deliver::s3::{S3Location, S3Store};
use linerate_facts::failure::Failure;
use std::sync::Arc;

/// The store that these URLs are of; none where none of them is of one.
pub(super) fn store_of(urls: &[TransferUrl], output: &Output) -> Result<Option<Arc<S3Store>>, Failure> {
    let locations: Vec<&S3Location> = urls.iter().filter_map(TransferUrl::location).collect();
    if locations.is_empty() {
        return Ok(None);
    }
    let identity = S3Identity::read(&|name| std::env::var(name).ok())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let of_variable = identity.endpoint.as_deref().map(|text| {
        text.parse::<HttpUrl>().map_err(|why| Failure::Usage(format!("AWS_ENDPOINT_URL: {text}: {why}")))
    });
    if identity.credentials.is_none() {
        output.complain(
            "no keys were found (AWS_ACCESS_KEY_ID, AWS_PROFILE, ~/.aws/credentials), so s3:// is asked anonymously",
        );
    }
    let dotted = locations.iter().any(|location| location.bucket.contains('.'));
    let store = match of_variable.transpose()? {
        Some(endpoint) => S3Store::at(endpoint, identity.region, identity.credentials),
        None => S3Store::aws(identity.region, identity.credentials, dotted),
    };
    Ok(Some(Arc::new(store)))
}

/// As they are asked for.
pub(super) fn http_urls(store: Option<&S3Store>, urls: &[TransferUrl]) -> Vec<HttpUrl> {
    let http = |url: &TransferUrl| match url {
        TransferUrl::Http(url) => Some(url.clone()),
        TransferUrl::Store(location) => store.map(|store| store.url(location)),
    };
    urls.iter().filter_map(http).collect()
}
