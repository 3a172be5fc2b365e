//! Names that begin with a dot in the user's home folder: programs read those as their settings, so a server does not
//! choose them unless the user lets it.

use super::{FileSelection, last_name};
use crate::http::url::HttpUrl;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What a transfer to `output` would put at the top of `home` under such names; a file that the user named by its URL is
/// none of it.
pub fn dotfiles_in_home(urls: &[HttpUrl], output: &Path, found: &FileSelection, home: &Path) -> Vec<PathBuf> {
    // A folder that is not there yet is neither the home folder nor above it.
    let (Ok(real), Ok(home)) = (output.canonicalize(), home.canonicalize()) else { return Vec::new() };
    let Ok(between) = home.strip_prefix(&real) else { return Vec::new() };
    let named: Vec<PathBuf> = urls.iter().filter_map(|url| last_name(url).ok()?.map(PathBuf::from)).collect();
    let destinations = found.files.iter().map(|file| &file.destination);
    let mut tops: Vec<PathBuf> = destinations
        .chain(&found.folders)
        .filter_map(|destination| {
            let below_output = destination.strip_prefix(output).ok()?;
            let is_named =
                named.iter().any(|name| name == below_output) && !found.folders.contains(destination);
            let Component::Normal(top) = below_output.strip_prefix(between).ok()?.components().next()? else {
                return None;
            };
            (!is_named && top.as_bytes().starts_with(b".")).then(|| home.join(top))
        })
        .collect();
    tops.sort();
    tops.dedup();
    tops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::get::plan::WantedFile;

    #[test]
    fn only_names_that_a_server_chose_for_the_top_of_the_home_folder_are_found() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().join("ada");
        std::fs::create_dir_all(home.join(".cache")).expect("folders");
        std::os::unix::fs::symlink(&home, place.path().join("link")).expect("a link");
        let found = |output: &str, url: &str, destinations: &[&str], folders: &[&str]| {
            let output = place.path().join(output);
            let url: HttpUrl = url.parse().expect("a URL");
            let file = |name: &&str| WantedFile::new(url.clone(), output.join(name), None, None);
            let selection = FileSelection {
                files: destinations.iter().map(file).collect(),
                folders: folders.iter().map(|name| output.join(name)).collect(),
                ..FileSelection::default()
            };
            let tops = dotfiles_in_home(&[url], &output, &selection, &home);
            let below = |top: &PathBuf| top.strip_prefix(&home).expect("below").display().to_string();
            tops.iter().map(below).collect::<Vec<_>>()
        };
        let top = "http://h/";
        let names = ["a", ".bashrc", ".ssh/authorized_keys", "b/.c", ".ssh/config"];
        assert_eq!(found("ada", top, &names, &[""]), [".bashrc", ".ssh"]);
        assert_eq!(found("link", top, &names, &[""]), [".bashrc", ".ssh"], "by whatever path");
        assert_eq!(found("ada", "http://h/.ssh/", &[".ssh/config"], &[".ssh"]), [".ssh"]);
        assert_eq!(found("", "http://h/ada/", &["ada/.bashrc", "ada/x"], &["ada"]), [".bashrc"]);
        for (output, url, file) in [
            ("ada", "http://h/.bashrc", ".bashrc"),
            ("ada/.cache", top, ".x"),
            ("ada/new", top, ".x"),
            ("other", top, ".x"),
            ("ada", top, "x"),
        ] {
            assert!(found(output, url, &[file], &[]).is_empty(), "{output} {url} {file}");
        }
    }
}
