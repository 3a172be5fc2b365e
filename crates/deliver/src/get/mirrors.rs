//! A stream and the servers that have the same files: what is where, which copies may be used, and who is to blame.

use super::client::{ClientSettings, HttpConnection};
use super::copies::{CopyDifference, CopyRefusal, compare_heads};
use super::error::GetError;
use super::plan::WantedFile;
use super::remote::{Remote, RemoteFile, probe};
use super::stream::GetStream;
use super::transfer::FileTransfer;
use crate::blocks::{BlockRequest, SAMPLE_BYTES};
use crate::http::url::HttpUrl;
use std::sync::Arc;

/// Where each server has the files.
#[derive(Debug)]
pub(super) struct FileLocations {
    /// As the user named them, the first server's first.
    roots: Vec<HttpUrl>,
    /// The folder in which the files were found, and by which server; none: the roots are the file.
    base: Option<HttpUrl>,
    found_at: usize,
}

impl FileLocations {
    pub(super) fn new(roots: Vec<HttpUrl>, base: Option<HttpUrl>, found_at: usize) -> Self {
        FileLocations { roots, base, found_at }
    }

    /// The server whose list has the lengths and times of the files, also once it is gone.
    pub(super) fn found_at(&self) -> usize {
        self.found_at
    }

    /// The file's URL at a server.
    pub(super) fn url_of(&self, wanted: &WantedFile, server: usize) -> HttpUrl {
        let root = match self.roots.get(server) {
            Some(root) if server != self.found_at => root,
            _ => return wanted.url.clone(),
        };
        let within = self.base.as_ref().and_then(|base| wanted.url.target.strip_prefix(base.path()));
        match within {
            Some(within) => root.with_target(&format!("{}/{within}", root.path().trim_end_matches('/'))),
            None => root.clone(),
        }
    }
}

impl<'a> GetStream<'a> {
    /// The connection and the settings for a question by this way.
    pub(super) fn asking(&mut self, way: usize) -> (&mut Option<HttpConnection<'a>>, &'a ClientSettings<'a>) {
        match way == self.way {
            true => (&mut self.connection, self.settings),
            false => (&mut self.aside, self.ways.settings(way)),
        }
    }

    /// Compares the copy of a file that is on its way, without a piece of it: others have those meanwhile. False: there
    /// is nothing to compare, or it is for the file to fail, with a piece.
    pub(super) fn compare_next(&mut self, server: usize) -> bool {
        let Some(file) = self.plan.next_comparison(server) else { return false };
        let compared = self.compared_copy(&file).map(|_| ());
        file.copies[server].was_looked_at();
        let Err(error) = compared else { return true };
        tracing::debug!(%error, "a copy could not be compared, or differs");
        let is_over = matches!(self.blamed(&file, error, self.way, 0), GetError::Revoked);
        self.drop_connections();
        if is_over && file.has(server) {
            self.wait(self.ways.failures(self.way));
        }
        is_over
    }

    /// What the server of this stream has of the file: compared with the first server's before the first byte is
    /// taken of it.
    pub(super) fn compared_copy<'f>(&mut self, file: &'f FileTransfer) -> Result<&'f RemoteFile, GetError> {
        let server = self.ways.server_of(self.way);
        if let Some(copy) = file.copy(server) {
            return Ok(copy);
        }
        let url = &file.copies[server].url;
        let differs = |why| GetError::OtherAtMirror { url: url.to_string(), why };
        let own = match probe(&mut self.connection, self.settings, url)? {
            Remote::File(own) => own,
            Remote::Folder(_) => return Err(differs(CopyDifference::Folder)),
        };
        let reference = self.ways.way_to(file.reference, self.way);
        let has_sums = file.remote.has_sums && reference.is_some();
        let vouched = has_sums || self.landings.has_sha256();
        compare_heads(&file.remote, &own, vouched).map_err(differs)?;
        if let Some(reference) = reference.filter(|_| has_sums && own.has_sums) {
            self.compare_samples(file, &own, reference)?;
        }
        let is_known = compare_heads(&file.remote, &own, self.landings.has_sha256()).is_ok();
        if file.copies[server].was_compared(own, is_known) {
            self.ways.has_same(server);
        }
        file.copy(server).ok_or(GetError::Revoked)
    }

    /// The sums of some blocks, by both servers: all of them would have both read all of the file first.
    fn compare_samples(
        &mut self,
        file: &FileTransfer,
        own: &RemoteFile,
        reference: usize,
    ) -> Result<(), GetError> {
        // Three blocks alone, for both servers read them while the stream waits.
        let count = file.remote.bytes.div_ceil(SAMPLE_BYTES);
        let mut samples = vec![0, count / 2, count.saturating_sub(1)];
        samples.dedup();
        for block in samples {
            let asked = BlockRequest { block_bytes: SAMPLE_BYTES, first: block, count: 1 };
            let theirs = self.sums(own, asked, self.way)?;
            // Where the first server does not answer, it is not for the mirror to blame.
            let first = self.sums(&file.remote, asked, reference).map_err(|error| {
                self.ways.blames(reference, (&error, 0), file.reference, |server| file.has(server));
                GetError::Revoked
            })?;
            if theirs != first {
                let why = CopyDifference::Block { block };
                return Err(GetError::OtherAtMirror { url: own.url.to_string(), why });
            }
        }
        Ok(())
    }

    /// The error as the file's; or as that of one address, one mirror or one way, where others may have it.
    pub(super) fn blamed(&self, file: &FileTransfer, error: GetError, way: usize, came: u64) -> GetError {
        let is_of_copy = matches!(
            error,
            GetError::Changed { .. } | GetError::NotFound { .. } | GetError::OtherPart { .. }
        );
        let server = self.ways.server_of(way);
        let connection = if way == self.way { &self.connection } else { &self.aside };
        let address = connection.as_ref().map(HttpConnection::address);
        let compared = file.copy(server).and_then(|copy| copy.address);
        let other = address.filter(|taken| is_of_copy && Some(taken.address) != compared);
        if let Some(taken) = other.filter(|taken| taken.differs()) {
            let address = taken.address.to_string();
            return GetError::OtherCopy { url: file.remote.url.to_string(), address };
        }
        let has_ranges = file.remote.has_ranges;
        if has_ranges && self.ways.blames(way, (&error, came), file.reference, |server| file.has(server)) {
            return GetError::Revoked;
        }
        let is_own = error.is_of_this_host() || error.is_of_server() || matches!(error, GetError::Revoked);
        if server == file.reference || is_own {
            return error;
        }
        self.refuse_copy(file, server, &error);
        GetError::Revoked
    }

    /// Nothing more of a file is taken from a mirror.
    fn refuse_copy(&self, file: &FileTransfer, server: usize, why: &GetError) {
        if file.copies[server].refuse(CopyRefusal::of(why)) {
            tracing::debug!(%why, "a mirror is not used for a file");
            self.ways.refused(server, why, self.plan.files);
        }
    }

    /// A mirror sent other bytes than those of the server that has the sums: nothing of it is believed any more.
    pub(super) fn leave_out_differing(&self, file: &FileTransfer, server: usize, block: u64) {
        let url = &file.copies[server].url;
        let why = format!("{url}: what came of its block {block} is another than at the first server");
        file.copies[server].refuse(CopyRefusal::OtherContent);
        self.ways.leave_out(server, &why);
    }

    /// Where sums did not decide: mirrors whose copy is another at the end than when it was compared, or was seen to be
    /// meanwhile. What came from those comes again from others. True: there was some, and the file is not whole any more.
    pub(super) fn voids_changed(&mut self, file: &Arc<FileTransfer>) -> bool {
        if file.is_verified() {
            return false;
        }
        let mut is_void = false;
        for server in file.mirrors_used() {
            if !self.has_changed(file, server) {
                continue;
            }
            match file.void_from(server) {
                Ok(bytes) => {
                    self.comes_again(bytes);
                    is_void |= bytes > 0;
                }
                Err(error) => {
                    tracing::debug!(%error, "the journal does not have that a mirror changed");
                    is_void = true;
                }
            }
        }
        is_void
    }

    /// A mirror has another content, or had it after something had come from it. One that died, or gives nothing any
    /// more, was as before when it was asked for each part.
    fn has_changed(&mut self, file: &FileTransfer, server: usize) -> bool {
        if file.copies[server].is_other() {
            return true;
        }
        let way = self.ways.way_to(server, self.way).filter(|_| file.has(server));
        let (Some(way), Some(then)) = (way, file.copy(server)) else { return false };
        let (connection, settings) = self.asking(way);
        match probe(connection, settings, &then.url) {
            Ok(Remote::File(now)) if now.is_same(then) => false,
            Ok(_) => {
                self.refuse_copy(file, server, &GetError::Changed { url: then.url.to_string() });
                true
            }
            Err(error) => {
                tracing::debug!(%error, "a mirror does not say whether its copy is the same");
                *connection = None;
                false
            }
        }
    }

    /// What nobody who is left can serve ends, so that the transfer does.
    pub(super) fn end_unservable(&mut self) -> bool {
        if self.ways.servers() < 2 {
            return false;
        }
        let ways = self.ways;
        let living: Vec<usize> = (0..ways.servers()).filter(|server| ways.lives(*server)).collect();
        if let Some(wanted) = self.plan.unservable(&living) {
            let url = wanted.url.to_string();
            self.landings.failed(&wanted, GetError::NoServer { url }, 0);
            return true;
        }
        let Some((file, ended)) = self.plan.end_unservable(|server| ways.lives(server)) else { return false };
        self.conclude(&file, ended, false);
        true
    }

    /// Servers that can say whether the file is still the same, the first one first.
    pub(super) fn witnesses(&self, file: &FileTransfer) -> Vec<usize> {
        let others = (0..file.copies.len()).filter(|server| *server != file.reference);
        let all = [file.reference].into_iter().chain(others);
        all.filter(|server| self.ways.lives(*server) && file.has(*server) && file.copy(*server).is_some())
            .collect()
    }
}

/// A file as a mirror has it, held against the list, where the server that has the list is not asked for this file.
pub(super) fn compare_listed(wanted: &WantedFile, own: &RemoteFile, vouched: bool) -> Result<(), GetError> {
    let first = RemoteFile {
        bytes: wanted.bytes.unwrap_or(own.bytes),
        last_modified: wanted.modified.map(crate::http::date::show_date),
        entity_tag: None,
        digest: None,
        sum: None,
        md5: None,
        ..own.clone()
    };
    let own = RemoteFile { has_ranges: true, ..own.clone() };
    compare_heads(&first, &own, vouched)
        .map_err(|why| GetError::OtherAtMirror { url: own.url.to_string(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        text.parse().expect("a URL")
    }

    fn wanted(text: &str) -> WantedFile {
        WantedFile::new(url(text), "out".into(), None, None)
    }

    #[test]
    fn files_of_a_folder_are_in_the_folder_of_the_mirror() {
        let roots = vec![url("http://a/set"), url("http://b:81/copy/of/set"), url("http://c/")];
        let locations = FileLocations::new(roots, Some(url("http://a/set/")), 0);
        let file = wanted("http://a/set/x%20y/z");
        let shown = [0, 1, 2].map(|server| locations.url_of(&file, server).to_string());
        assert_eq!(shown, ["http://a/set/x%20y/z", "http://b:81/copy/of/set/x%20y/z", "http://c/x%20y/z"]);
    }

    #[test]
    fn a_file_is_what_was_named_whatever_it_is_called_there() {
        let roots = vec![url("http://a/one.iso"), url("http://b/other.iso?key=1")];
        // The first server sent on to another one.
        let locations = FileLocations::new(roots.clone(), None, 0);
        let file = wanted("http://c/elsewhere");
        assert_eq!(locations.url_of(&file, 0).to_string(), "http://c/elsewhere");
        assert_eq!(locations.url_of(&file, 1), roots[1]);
        // Nobody answered at the first one.
        let locations = FileLocations::new(roots.clone(), None, 1);
        assert_eq!(locations.url_of(&file, 0), roots[0]);
        assert_eq!(locations.url_of(&file, 1), file.url);
    }

    #[test]
    fn what_is_listed_is_compared_by_length_and_time() {
        let own = RemoteFile {
            url: url("http://b/f"),
            bytes: 10,
            entity_tag: Some("\"b\"".into()),
            last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            has_ranges: false,
            has_sums: false,
            is_object: false,
            sum: None,
            md5: None,
            digest: None,
            keeps_open: true,
            address: None,
        };
        let wanted = |bytes, modified| WantedFile { bytes, modified, ..wanted("http://a/f") };
        assert!(compare_listed(&wanted(Some(10), Some(784_111_777)), &own, false).is_ok());
        for (bytes, modified, says) in [
            (11, Some(784_111_777), "10 bytes there, and 11"),
            (10, Some(784_111_778), "its time there is"),
            (10, None, "nothing but its length"),
        ] {
            let error = compare_listed(&wanted(Some(bytes), modified), &own, false).expect_err(says);
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(compare_listed(&wanted(Some(10), None), &own, true).is_ok(), "its SHA-256 will be compared");
    }
}
