//! Who asks the store: keys and region by the variables and files that the tools of AWS read.

use linerate_facts::secret_file::{SecretFileError, check_secret_file};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Of a file of profiles no more is read.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// Settings of a profile whose keys another service or program gives.
const KEYS_ELSEWHERE: [&str; 5] =
    ["sso_session", "sso_start_url", "login_session", "role_arn", "credential_process"];
/// The region where none is named.
const USUAL_REGION: &str = "us-east-1";

/// Keys of a store.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    pub access_key: String,
    pub secret_key: String,
    /// Of keys that are good for some hours.
    pub session_token: Option<String>,
}

impl std::fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Who asks, and where the buckets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Identity {
    /// None: anonymous.
    pub credentials: Option<S3Credentials>,
    pub region: String,
    /// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL.
    pub endpoint: Option<String>,
}

/// Why it is not known who asks.
#[derive(Debug, Error)]
pub enum S3IdentityError {
    #[error(
        "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not: set both, or neither for those of a profile"
    )]
    NoSecret,
    #[error(
        "AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not: set both, or neither for those of a profile"
    )]
    NoKey,
    #[error("profile {profile} is not in {}: check AWS_PROFILE and HOME", file.display())]
    NoProfile { profile: String, file: PathBuf },
    #[error("profile {profile} in {} has one key of the two: it needs aws_access_key_id and aws_secret_access_key", file.display())]
    HalfProfile { profile: String, file: PathBuf },
    #[error(
        "profile {profile} in {} has its keys by {setting}, which linerate does not ask: \
         `eval \"$(aws configure export-credentials --format env)\"` sets them as variables; or, for public data, set \
         AWS_CONFIG_FILE=/dev/null",
        file.display()
    )]
    KeysElsewhere { profile: String, file: PathBuf, setting: &'static str },
    #[error("{what} has letters that no key has: was it copied whole?")]
    Letters { what: &'static str },
    #[error("“{0}” is not a region: letters, digits and dashes, as eu-central-1")]
    Region(String),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{}: {error}; or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", path.display())]
    NotSecret { path: PathBuf, error: SecretFileError },
}

impl S3Identity {
    /// `variable` gives the environment's variables.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, S3IdentityError> {
        let variable = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        // Where there is none, what is in the present folder is not the user's own.
        let home = home.unwrap_or_else(|| "/nonexistent".into());
        let file = |name: &str, usual: &str| {
            variable(name).map_or_else(|| home.join(".aws").join(usual), PathBuf::from)
        };
        let (keys, config) =
            (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config"));
        let named = variable("AWS_PROFILE");
        let profile = named.as_deref().unwrap_or("default").trim();
        let token = variable("AWS_SESSION_TOKEN");
        let own = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(access), Some(secret)) => Some(checked_keys(&access, &secret, token.as_deref())?),
            (Some(_), None) => return Err(S3IdentityError::NoSecret),
            (None, Some(_)) => return Err(S3IdentityError::NoKey),
            (None, None) => None,
        };
        let read = |file: &Path| match read_profiles(file) {
            // With keys from variables a file that this user may not read is not needed.
            Err(_) if own.is_some() => Ok(Default::default()),
            read => read,
        };
        let ((mut profiles, keys_fault), (mut configs, config_fault)) = (read(&keys)?, read(&config)?);
        let of_keys = profiles.remove(profile);
        let of_config = configs.remove(&format!("profile {profile}")).or_else(|| configs.remove(profile));
        let credentials = match (own, &of_keys, &of_config) {
            (Some(own), ..) => Some(own),
            (None, None, None) if named.is_some() => {
                return Err(S3IdentityError::NoProfile { profile: profile.into(), file: keys });
            }
            (None, ..) => match of_profile(of_keys.as_ref(), profile, &keys, keys_fault)? {
                Some(found) => Some(found),
                None => of_profile(of_config.as_ref(), profile, &config, config_fault)?,
            },
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.or_else(|| of_config.as_ref()?.get("region").cloned());
        let region = region.map_or_else(|| USUAL_REGION.into(), |region| region.trim().to_string());
        if region.is_empty()
            || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            return Err(S3IdentityError::Region(region));
        }
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        Ok(S3Identity { credentials, region, endpoint })
    }
}

type Profile = BTreeMap<String, String>;

fn of_profile(
    profile: Option<&Profile>,
    name: &str,
    file: &Path,
    fault: Option<SecretFileError>,
) -> Result<Option<S3Credentials>, S3IdentityError> {
    let get = |key: &str| profile?.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let (profile, path) = (name.to_string(), file.to_path_buf());
    match (get("aws_access_key_id"), get("aws_secret_access_key")) {
        (Some(access), Some(secret)) => match fault {
            Some(error) => Err(S3IdentityError::NotSecret { path, error }),
            None => checked_keys(access, secret, get("aws_session_token")).map(Some),
        },
        (None, None) => match KEYS_ELSEWHERE.into_iter().find(|setting| get(setting).is_some()) {
            Some(setting) => Err(S3IdentityError::KeysElsewhere { profile, file: path, setting }),
            None => Ok(None),
        },
        _ => Err(S3IdentityError::HalfProfile { profile, file: path }),
    }
}

/// They go into a request's lines: none of them ends one.
fn checked_keys(access: &str, secret: &str, token: Option<&str>) -> Result<S3Credentials, S3IdentityError> {
    let of = |text: &str, what| {
        let text = text.trim();
        let sound = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        sound.then(|| text.to_string()).ok_or(S3IdentityError::Letters { what })
    };
    Ok(S3Credentials {
        access_key: of(access, "the access key")?,
        secret_key: of(secret, "the secret key")?,
        session_token: token.map(|token| of(token, "the session token")).transpose()?,
    })
}

/// The profiles, and why their file must not have keys, if it must not: others could have read or written them.
fn read_profiles(
    path: &Path,
) -> Result<(BTreeMap<String, Profile>, Option<SecretFileError>), S3IdentityError> {
    let failed = |error| S3IdentityError::File { path: path.into(), error };
    let file = match std::fs::File::open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok((BTreeMap::new(), None));
        }
        opened => opened.map_err(failed)?,
    };
    let mut text = Vec::new();
    let fault = check_secret_file(&file.metadata().map_err(failed)?, path).err();
    file.take(MOST_FILE_BYTES).read_to_end(&mut text).map_err(failed)?;
    Ok((parse_profiles(&String::from_utf8_lossy(&text)), fault))
}

/// `[name]`, then `key = value`; comments and what belongs to a key's own block (indented) are left out.
pub fn parse_profiles(text: &str) -> BTreeMap<String, Profile> {
    let mut profiles: BTreeMap<String, Profile> = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        let bare = line.trim();
        if let Some(section) = bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let words: Vec<&str> = section.0.split_whitespace().collect();
            name = Some(words.join(" "));
            profiles.entry(words.join(" ")).or_default();
            continue;
        }
        let is_comment = bare.starts_with(['#', ';']);
        let (false, false, Some(name)) = (is_comment, line.starts_with([' ', '\t']), &name) else { continue };
        if let Some((key, value)) = bare.split_once('=') {
            let profile = profiles.entry(name.clone()).or_default();
            profile.insert(key.trim().to_ascii_lowercase(), value.trim().into());
        }
    }
    profiles
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(variables: &[(&str, &str)]) -> Result<S3Identity, S3IdentityError> {
        let find =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| value.to_string());
        S3Identity::read(&find)
    }

    fn key(identity: &S3Identity) -> Option<&str> {
        identity.credentials.as_ref().map(|own| own.access_key.as_str())
    }

    #[test]
    fn variables_come_before_profiles_and_nothing_is_anonymous() {
        let home = tempfile::tempdir().expect("a folder");
        let home_text = home.path().to_str().expect("UTF-8");
        let none = read(&[("HOME", home_text)]).expect("anonymous");
        assert_eq!((key(&none), none.region.as_str(), none.endpoint.as_deref()), (None, "us-east-1", None));
        std::fs::create_dir(home.path().join(".aws")).expect("a folder");
        let keys = "# mine\n[default]\naws_access_key_id = D\naws_secret_access_key=DS\n\n[ other ]\n\
                    aws_access_key_id=O\naws_secret_access_key=OS=\naws_session_token=OT\n[half]\naws_access_key_id=H\n";
        let file = home.path().join(".aws/credentials");
        std::fs::write(&file, keys).expect("written");
        let set_mode =
            |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("a mode");
        set_mode(0o600);
        let config = "[default]\nregion = eu-central-1\ns3 =\n  region = nested\n[profile other]\nregion=us-west-2\n\
             [profile sso]\nsso_session=work\n[profile none]\n";
        std::fs::write(home.path().join(".aws/config"), config).expect("written");
        let usual = read(&[("HOME", home_text)]).expect("a profile");
        assert_eq!((key(&usual), usual.region.as_str()), (Some("D"), "eu-central-1"));
        let other =
            read(&[("HOME", home_text), ("AWS_PROFILE", "other"), ("AWS_REGION", "r-1")]).expect("a profile");
        let S3Credentials { secret_key, session_token, .. } = other.credentials.clone().expect("keys");
        assert_eq!((secret_key.as_str(), session_token.as_deref()), ("OS=", Some("OT")));
        assert_eq!(other.region, "r-1");
        assert!(!format!("{other:?}").contains("OS"), "a secret is in no log");
        let own = [
            ("HOME", home_text),
            ("AWS_ACCESS_KEY_ID", "A"),
            ("AWS_SECRET_ACCESS_KEY", "S"),
            ("AWS_DEFAULT_REGION", "r-2"),
            ("AWS_ENDPOINT_URL", "http://h:9000"),
        ];
        let own = read(&own).expect("variables");
        let found = (key(&own), own.region.as_str(), own.endpoint.as_deref());
        assert_eq!(found, (Some("A"), "r-2", Some("http://h:9000")));
        let fails =
            |more: &[(&str, &str)]| read(&[more, &[("HOME", home_text)]].concat()).expect_err("refused");
        for (more, says) in [
            (&[("AWS_PROFILE", "absent")][..], "absent is not in /"),
            // What is in the present folder is nobody's.
            (&[("AWS_PROFILE", "other"), ("HOME", ".")], "other is not in /nonexistent/.aws/credentials"),
            (&[("AWS_PROFILE", "half")], "has one key of the two"),
            (
                &[("AWS_PROFILE", "sso")],
                "has its keys by sso_session, which linerate does not ask: `eval \"$(aws",
            ),
            (&[("AWS_ACCESS_KEY_ID", "A")], "AWS_SECRET_ACCESS_KEY is not"),
            (&[("AWS_SECRET_ACCESS_KEY", "A")], "AWS_ACCESS_KEY_ID is not"),
            (&[("AWS_REGION", "a.b/c")], "is not a region"),
            (&[("AWS_ACCESS_KEY_ID", "A\r\nX: y"), ("AWS_SECRET_ACCESS_KEY", "S")], "has letters"),
            (&[("AWS_SHARED_CREDENTIALS_FILE", home_text)], "directory"),
        ] {
            let why = fails(more).to_string();
            assert!(why.contains(says), "{why}");
        }
        // Of a profile that others may read no keys are taken; of the variables they are, whatever the files are.
        set_mode(0o644);
        let why = fails(&[]).to_string();
        assert!(why.contains("credentials: others may read") && why.contains("chmod 600 /"), "{why}");
        let keys = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "S")];
        for more in
            [("HOME", home_text), ("AWS_SHARED_CREDENTIALS_FILE", home_text), ("AWS_CONFIG_FILE", home_text)]
        {
            read(&[&keys[..], &[more]].concat()).expect("variables");
        }
        assert_eq!(key(&read(&[("HOME", home_text), ("AWS_PROFILE", "none")]).expect("a profile")), None);
    }

    proptest! {
        #[test]
        fn any_file_of_profiles_is_read(text in "(\\[|\\]|=|a|#| |\n|profile x|\\PC){0,60}") {
            let _ = parse_profiles(&text);
        }
    }
}
