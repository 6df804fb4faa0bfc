//! The proxy through which the agent itself reaches the management plane, on a machine that needs one: a file that only root can
//! write and read. No plan may write it, and no environment replaces it.

use capstan_agent::route::{ProxySettings, Route};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::paths::Paths;
use crate::{Failure, files};

/// The route to the management plane; directly if there is no file.
pub(crate) fn route(paths: &Paths) -> Result<Route, Failure> {
    let Some(bytes) = read(paths)? else { return Ok(Route::default()) };
    let wrong = |what: &dyn std::fmt::Display| Failure::new(format!("{}: {what}", paths.proxy().display()));
    let about = fs::metadata(paths.proxy()).map_err(|error| wrong(&error))?;
    let user = fs::metadata("/proc/self").map_err(Failure::new)?.uid();
    if about.uid() != user || about.mode() & 0o077 != 0 {
        return Err(wrong(&format!(
            "only its owner, user {user}, may read and write it: set its mode to 0600"
        )));
    }
    parse(&bytes).map_err(|error| wrong(&error))
}

/// The route that the content of the file describes. What it says is not repeated in an error: it may have a password.
pub(crate) fn parse(content: &[u8]) -> Result<Route, Failure> {
    let settings: ProxySettings = serde_json::from_slice(content).map_err(|error| {
        Failure::new(format!(
            "is not a proxy (line {} column {}); use url, noProxy, username and password",
            error.line(),
            error.column()
        ))
    })?;
    Route::of(&settings).map_err(Failure::new)
}

/// The file as it is, if there is one.
pub(crate) fn read(paths: &Paths) -> Result<Option<Vec<u8>>, Failure> {
    let path = paths.proxy();
    files::read(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Replaces the file, or removes it.
pub(crate) fn write(paths: &Paths, content: Option<&[u8]>) -> Result<(), Failure> {
    let path = paths.proxy();
    let written = match content {
        Some(content) => files::write(&path, content),
        None => files::remove(&path),
    };
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// The file for a proxy that is named on the command line, which has no password: other users can read that.
pub(crate) fn content(url: &str, no_proxy: &[String]) -> Result<Vec<u8>, Failure> {
    let settings =
        ProxySettings { url: url.to_owned(), no_proxy: no_proxy.to_vec(), ..ProxySettings::default() };
    Route::of(&settings).map_err(|error| Failure::new(format!("--proxy: {error}")))?;
    serde_json::to_vec(&settings).map_err(Failure::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_proxy_comes_from_a_file_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths::new(folder.path().to_owned());
        assert_eq!(route(&paths).ok(), Some(Route::default()));
        let text = content("http://proxy.example:3128", &["10.0.0.0/8".to_owned()]).expect("a proxy");
        write(&paths, Some(&text)).expect("written");
        let through = route(&paths).expect("a route");
        assert!(through.to("plane.example", 6443).is_some() && through.to("10.0.0.1", 6443).is_none());
        for mode in [0o640, 0o604, 0o620, 0o602] {
            fs::set_permissions(paths.proxy(), fs::Permissions::from_mode(mode)).expect("set");
            let error = route(&paths).expect_err("refused").to_string();
            assert!(error.contains("proxy.json") && error.contains("0600"), "{error}");
        }
        for (text, says) in [
            (r#"{"url":"http://p:1","surprise":"hunter2"}"#, "use url, noProxy"),
            (r#"{"url":"http://u:hunter2@p:1"}"#, "url must be"),
            ("hunter2", "is not a proxy"),
        ] {
            write(&paths, Some(text.as_bytes())).expect("written");
            let error = route(&paths).expect_err(text).to_string();
            assert!(error.contains(says) && !error.contains("hunter2"), "{error}");
        }
        write(&paths, None).expect("removed");
        assert_eq!(route(&paths).ok(), Some(Route::default()));
    }

    #[test]
    fn no_password_is_taken_from_the_command_line() {
        for url in ["http://u:hunter2@p:1", "socks5://p:1", "p:1"] {
            let error = content(url, &[]).expect_err(url).to_string();
            assert!(error.starts_with("--proxy: url") && !error.contains("hunter2"), "{error}");
        }
    }
}
