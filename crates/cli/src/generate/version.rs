//! Checks the Kubernetes version that the user gave. Pure.
//!
//! The server would reject an invalid version later, with the object and field that contain it; this check names the
//! flag or variable that it came from.

use anyhow::{Result, bail};
use capstan_text::Version;

/// The variable with the version in every built-in template.
pub(super) const VARIABLE: &str = "KUBERNETES_VERSION";
/// The error if the version is missing.
pub(super) const MISSING: &str = "no Kubernetes version: pass --kubernetes-version, as in --kubernetes-version v1.36.0, \
                                  or set the environment variable KUBERNETES_VERSION";

/// Rejects a flag, else a value from the environment, that is not a version.
pub(super) fn check(flag: Option<&str>, environment: Option<&str>) -> Result<()> {
    let (source, other, text) = match (flag, environment) {
        (Some(text), _) => ("--kubernetes-version", "template variable KUBERNETES_VERSION", text),
        (None, Some(text)) => {
            ("environment variable KUBERNETES_VERSION", "or pass --kubernetes-version", text)
        }
        (None, None) => return Ok(()),
    };
    if Version::parse_with_v(text).is_some() {
        return Ok(());
    }
    let remedy = match Version::parse(text) {
        Some(version) => format!("write it with its leading v, {version}"),
        None => "write a leading v, major, minor and patch version, as in v1.36.0 or v1.36.0+k3s1".to_owned(),
    };
    bail!("{source}: {text:?} is not a Kubernetes version: {remedy} ({other})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_semantic_and_has_its_leading_v() {
        for text in ["v1.36.0", "v1.36.0+k3s1", "v1.36.0-rc.1+k3s1", "v0.1.0"] {
            assert!(check(Some(text), Some("ignored")).is_ok(), "{text}");
            assert!(check(None, Some(text)).is_ok(), "{text}");
        }
        assert!(check(None, None).is_ok(), "whether one is needed is known to the template");
        for (flag, environment, parts) in [
            (Some("1.2"), None, ["--kubernetes-version: \"1.2\"", "v1.36.0+k3s1"]),
            (Some("1.36.0"), None, ["leading v, v1.36.0", "KUBERNETES_VERSION"]),
            (Some("v1.36"), Some("v1.36.0"), ["\"v1.36\" is not a Kubernetes version", "KUBERNETES_VERSION"]),
            (Some("latest"), None, ["\"latest\"", "--kubernetes-version"]),
            (Some("v01.2.3"), None, ["\"v01.2.3\"", "--kubernetes-version"]),
            (None, Some(""), ["environment variable KUBERNETES_VERSION: \"\"", "pass --kubernetes-version"]),
            (None, Some("v1\n2"), ["\"v1\\n2\"", "KUBERNETES_VERSION"]),
        ] {
            let error = check(flag, environment).expect_err("it is not a version").to_string();
            assert!(parts.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{error}");
        }
    }
}
