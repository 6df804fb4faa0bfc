//! Tests of built-in releases, of folders, and of the one-line errors.

use super::*;

fn choice(kind: ProviderType, name: &str, version: Option<&str>) -> Choice {
    Choice { kind, name: name.to_owned(), version: version.map(str::to_owned) }
}

fn infrastructure(version: Option<&str>) -> Choice {
    choice(ProviderType::Infrastructure, "capstan", version)
}

#[test]
fn everything_built_in_is_labelled_and_ordered() {
    for provider in providers() {
        let release = read(&choice(provider.provider_type(), provider.name(), None), None, None).unwrap();
        assert_eq!((release.version.as_str(), release.namespace), (OWN, provider.namespace()));
        assert_eq!(release.objects[0]["kind"], "Namespace");
        assert_eq!(release.objects.last().unwrap()["kind"], "Deployment");
        for object in &release.objects {
            assert_eq!(object["metadata"]["labels"][labels::CLUSTERCTL], "", "{}", object["kind"]);
            assert_eq!(object["metadata"]["labels"][labels::PROVIDER], provider.label());
        }
    }
}

#[test]
fn another_namespace_is_put_in_wherever_the_old_one_was() {
    let release = read(&infrastructure(None), None, Some("elsewhere")).unwrap();
    assert_eq!(release.namespace, "elsewhere");
    assert_eq!(release.objects[0]["metadata"]["name"], "elsewhere");
    let old = json!(Provider::Infrastructure.namespace());
    for object in &release.objects {
        assert_ne!(object["metadata"]["namespace"], old, "{}", object["kind"]);
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["namespace"], "elsewhere");
        }
    }
}

/// A folder with releases of one provider: by version, what `metadata.yaml` says, if there is one.
fn folder(releases: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (version, metadata) in releases {
        let release = folder.path().join("infrastructure-capstan").join(version);
        std::fs::create_dir_all(&release).unwrap();
        let objects = [json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": *version}})];
        std::fs::write(release.join("infrastructure-components.yaml"), to_yaml(&objects)).unwrap();
        if let Some(metadata) = metadata {
            std::fs::write(release.join("metadata.yaml"), metadata).unwrap();
        }
    }
    folder
}

const METADATA: &str = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n\
                        - {major: 0, minor: 9, contract: v1beta2}\n- {major: 0, minor: 10, contract: v1beta2}\n\
                        - {major: 0, minor: 1, contract: v1beta1}\n";

#[test]
fn the_newest_release_of_a_folder_is_taken_unless_one_is_named() {
    let folder = folder(&[("v0.9.0", Some(METADATA)), ("v0.10.0", Some(METADATA)), ("notes", None)]);
    let of = |version| read(&infrastructure(version), Some(folder.path()), None).unwrap().version;
    assert_eq!(of(None), "v0.10.0");
    assert_eq!(of(Some("v0.9.0")), "v0.9.0");
}

#[test]
fn errors_are_one_line() {
    let releases = folder(&[
        ("v0.9.0", None),
        ("v0.10.0", Some("no: metadata")),
        ("v0.11.0", Some(METADATA)),
        ("v0.1.0", Some(METADATA)),
    ]);
    let empty = tempfile::tempdir().unwrap();
    let there = Some(releases.path());
    for (choice, repository, parts) in [
        (infrastructure(Some("v0.9.0")), there, &["v0.9.0 has no metadata.yaml", "capstan release"][..]),
        (infrastructure(Some("v0.10.0")), there, &["cannot use", "metadata.yaml"]),
        (
            infrastructure(Some("v0.11.0")),
            there,
            &["does not know 0.11, the series of v0.11.0", "it knows 0.9, 0.10, 0.1"],
        ),
        (infrastructure(Some("v0.1.0")), there, &["speaks contract \"v1beta1\"", "v1beta2"]),
        (
            infrastructure(Some("v3.0.0")),
            there,
            &["holds no infrastructure-capstan v3.0.0", "v0.10.0, v0.11.0"],
        ),
        (
            choice(ProviderType::Ipam, "x", None),
            there,
            &["holds no release of ipam-x", "infrastructure-capstan"],
        ),
        (infrastructure(None), Some(empty.path()), &["holds no release", "it holds nothing"]),
        (infrastructure(None), Some(Path::new("/nowhere")), &["cannot read /nowhere"]),
        (infrastructure(Some("v9.9.9")), None, &["built in is", "--repository"]),
        (
            choice(ProviderType::Infrastructure, "docker", None),
            None,
            &["--infrastructure docker: it is not built in"],
        ),
    ] {
        let error = format!("{:#}", read(&choice, repository, None).unwrap_err());
        assert!(!error.contains('\n'), "{error}");
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }
}
