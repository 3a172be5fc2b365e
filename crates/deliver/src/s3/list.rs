//! Which objects are meant by `s3://BUCKET/KEY`: one, or all below a prefix, page by page.

use super::answers::{ListedObject, ObjectPage, parse_list};
use super::error::S3Error;
use super::location::{S3Location, file_below, file_name};
use super::requests::{ask_text, probe};
use super::store::S3Store;
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::get::FileSelection;
use crate::get::plan::WantedFile;
use crate::http::url::encoded;
use crate::listing::MOST_FILES;
use crate::patience::Retries;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Tries of a page, or of an object's head.
const MOST_TRIES: u32 = 6;
/// A store that names no time gets longer waits than a server.
const WAITS: u32 = 2;
/// Pages without a key; a store may send some, where many were removed.
const MOST_EMPTY_PAGES: u32 = 1000;

/// Adds what there is to a selection; the files go below `output`.
pub(crate) fn find<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    store: &S3Store,
    location: &S3Location,
    output: &Path,
    selection: &mut FileSelection,
) -> Result<(), TransferError> {
    let mut prefix = location.clone();
    if !location.is_prefix() {
        let url = store.url(location);
        match with_tries(connection, settings, |connection| probe(connection, settings, store, &url)) {
            Ok(remote) => {
                let name = location.key.rsplit('/').next().unwrap_or_default();
                let name = file_name(name).map_err(|why| S3Error::NoName { place: location.clone(), why })?;
                let (bytes, modified) = (Some(remote.bytes), remote.modified());
                selection.files.push(WantedFile::new(url, output.join(name), bytes, modified));
                return Ok(());
            }
            Err(TransferError::NotFound { .. }) => prefix.key.push('/'),
            Err(error) => return Err(error),
        }
    }
    let objects = list(connection, settings, store, &prefix)?;
    if objects.is_empty() {
        return Err(S3Error::NoKey { place: location.clone() }.into());
    }
    // A bucket's top has no name: its files go into the folder itself.
    let name = prefix.key.strip_suffix('/').map(|key| key.rsplit('/').next().unwrap_or_default());
    let named = |name: &str| file_name(name).map(|name| output.join(name));
    let place = name.map_or(Ok(output.to_path_buf()), named);
    let place = place.map_err(|why| S3Error::NoName { place: location.clone(), why })?;
    add_objects(objects, store, &prefix, &place, selection);
    Ok(())
}

/// Puts each object at its place below `place`; keys that have none are refused, one by one.
fn add_objects(
    objects: Vec<ListedObject>,
    store: &S3Store,
    prefix: &S3Location,
    place: &Path,
    selection: &mut FileSelection,
) {
    let mut folders: BTreeSet<_> = [place.to_path_buf()].into();
    let mut files = Vec::new();
    for object in objects {
        let location = prefix.with_key(object.key.as_str());
        let below = match object.key.strip_prefix(&prefix.key) {
            // The mark of a folder that a console makes.
            Some("") if object.bytes == 0 => continue,
            Some(rest) => file_below(rest),
            None => Err("it was not asked for"),
        };
        let wanted = |destination| {
            WantedFile::new(store.url(&location), destination, Some(object.bytes), object.modified)
        };
        let refused = match below {
            Ok((path, true)) if object.bytes == 0 => {
                folders.insert(place.join(path));
                continue;
            }
            Ok((_, true)) => "it ends with a slash",
            Ok((path, false)) => {
                let destination = place.join(path);
                let above = destination.ancestors().skip(1).take_while(|folder| folder.starts_with(place));
                folders.extend(above.map(Path::to_path_buf));
                files.push(wanted(destination));
                continue;
            }
            Err(why) => why,
        };
        let error = S3Error::NoName { place: location.clone(), why: refused };
        selection.refused.push((wanted(place.to_path_buf()), error.into()));
    }
    for file in files {
        match folders.contains(&file.destination) {
            false => selection.files.push(file),
            true => {
                let place = store.location(&file.url).unwrap_or_else(|| prefix.clone());
                let error = S3Error::NoName { place, why: "there are keys below it, so it is a folder" };
                selection.refused.push((file, error.into()));
            }
        }
    }
    selection.folders.extend(folders);
}

/// All objects whose keys begin with the prefix.
fn list<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    store: &S3Store,
    prefix: &S3Location,
) -> Result<Vec<ListedObject>, TransferError> {
    let (mut objects, mut token, mut empty) = (Vec::new(), None::<String>, 0);
    let top = store.url(&prefix.with_key(""));
    loop {
        // In the order of the alphabet, as some stores need it to compare the signature.
        let after = token.as_ref().map(|token| format!("continuation-token={}&", encoded(token.as_bytes())));
        let url = top.with_target(&format!(
            "{}?{}encoding-type=url&list-type=2&max-keys=1000&prefix={}",
            top.path(),
            after.unwrap_or_default(),
            encoded(prefix.key.as_bytes())
        ));
        let ObjectPage { objects: page, next } = with_tries(connection, settings, |connection| {
            let answer = ask_text(connection, settings, (store, prefix), ("GET", &url, ""), &[]);
            parse_list(&answer?).map_err(|why| S3Error::Answer { place: prefix.clone(), why }.into())
        })?;
        empty += u32::from(page.is_empty());
        objects.extend(page);
        match next {
            None => return Ok(objects),
            Some(_) if objects.len() >= MOST_FILES => {
                let why = crate::listing::ListingError::TooManyFiles;
                return Err(TransferError::Listing { url: prefix.to_string(), why });
            }
            next if next == token || empty > MOST_EMPTY_PAGES => {
                return Err(S3Error::Circle { place: prefix.clone() }.into());
            }
            next => token = next,
        }
    }
}

/// Tries again what may pass, a bounded number of times, over another connection each time.
fn with_tries<'a, T>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &ClientSettings<'_>,
    mut work: impl FnMut(&mut Option<HttpConnection<'a>>) -> Result<T, TransferError>,
) -> Result<T, TransferError> {
    let mut retries = Retries::new(MOST_TRIES, Duration::ZERO);
    loop {
        let error = match work(connection) {
            Err(error) => error,
            done => return done,
        };
        *connection = None;
        let (retry_after, is_away) =
            (error.retry_after(), matches!(error, TransferError::Unreachable { .. }));
        let Some(wait) = retries.failed(error.may_pass(), is_away, retry_after) else { return Err(error) };
        let wait = if retry_after.is_some() { wait } else { WAITS * wait };
        tracing::debug!(%error, ?wait, "the store is asked again");
        if settings.stop.wait(wait) {
            return Err(TransferError::Interrupted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::network::{self, Answering, Answers, FarEnd};
    use crate::tests::server::head_of;
    use crate::tls::TlsTrust;
    use linerate_system::clock::simulated::SimulatedClock;
    use linerate_system::stop::Stop;

    /// After the time that it names, five minutes in all; where it names none, six times.
    #[test]
    fn a_store_that_asks_for_fewer_requests_is_waited_for() {
        let store = S3Store::at("http://10.1.1.1/".parse().expect("a URL"), "r".into(), None);
        let prefix = S3Location { bucket: "b".into(), key: "set/".into() };
        for (lines, seconds) in [("", 6..7), ("Retry-After: 7\r\n", 300..311)] {
            let (clock, stop) = (SimulatedClock::new(), Stop::new());
            let _entered = clock.enter();
            let settings =
                ClientSettings::new(&stop, Duration::from_secs(5), 1 << 20, None, TlsTrust::default());
            let answer = move |_: &_, answers: &mut Answers| {
                answers.push_back(head_of(503, &format!("{lines}Content-Length: 0\r\n")));
            };
            let accept = move || Some(Box::new(Answering(answer)) as Box<dyn FarEnd>);
            let listed = network::with(accept, || list(&mut None, &settings, &store, &prefix));
            let error = listed.expect_err("busy");
            let is_slowed =
                matches!(&error, TransferError::Store(error) if matches!(**error, S3Error::SlowDown { .. }));
            let passed = clock.passed();
            assert!(is_slowed && seconds.contains(&passed.as_secs()), "{error}: {passed:?}");
        }
    }

    #[test]
    fn objects_get_places_and_keys_that_lead_out_are_refused() {
        let store = S3Store::at("http://h:1/".parse().expect("a URL"), "r".into(), None);
        let prefix = S3Location { bucket: "b".into(), key: "set/".into() };
        let keys =
            "set/ set/a set/sub/b set/empty/ set/../../x set//y set/a/under other/z set/full/".split(' ');
        let object = |key: &str| ListedObject {
            key: key.to_string(),
            bytes: if key.ends_with('/') && !key.contains("full") { 0 } else { 3 },
            modified: None,
        };
        let mut found = FileSelection::default();
        add_objects(keys.map(object).collect(), &store, &prefix, Path::new("/o/set"), &mut found);
        let places: Vec<_> =
            found.files.iter().map(|file| file.destination.to_str().expect("UTF-8")).collect();
        assert_eq!(places, ["/o/set/sub/b", "/o/set/a/under"]);
        let folders: Vec<_> = found.folders.iter().map(|folder| folder.to_str().expect("UTF-8")).collect();
        assert_eq!(folders, ["/o/set", "/o/set/a", "/o/set/empty", "/o/set/sub"]);
        let refused: Vec<_> = found.refused.iter().map(|(_, error)| error.to_string()).collect();
        assert_eq!(refused.len(), 5, "{refused:?}");
        assert!(refused.iter().all(|error| error.starts_with("s3://b/")), "{refused:?}");
    }
}
