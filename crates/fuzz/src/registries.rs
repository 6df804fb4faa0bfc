//! Images of plans of rancher/system-agent: their names, `registries.yaml`, and what registries answer.

use capstan_agent::image::{ImageReference, Manifest};
use capstan_plan::HttpsUrl;
use capstan_sentinel::registries::Registries;
use capstan_sentinel::registries::answer::{self, Challenge};

/// The first line is the name of an image, the second a header or the target of a redirect, and the rest a file. All of it is
/// also an answer.
pub(crate) fn registry(input: &[u8]) {
    let _ = (Manifest::parse(input), answer::code(input), answer::token(input));
    let text = String::from_utf8_lossy(input);
    let mut parts = text.splitn(3, '\n');
    let (name, header) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let file = Registries::parse(parts.next().unwrap_or_default()).unwrap_or_default();

    if let Ok(Challenge::Bearer { realm, service, scope }) = Challenge::of([header].into_iter()) {
        let values = [("service", service.unwrap_or_default()), ("scope", scope.unwrap_or_default())];
        let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
        if let Some(url) = answer::with_query(&realm, &answer::form(&values)) {
            assert!(answer::is_same_server(&realm, &url), "{realm} {url}");
        }
    }
    let from = HttpsUrl::new("https://registry.example:5000/v2/x").expect("a URL");
    if let Some(target) = answer::redirected(&from, header) {
        assert!(target.to_string().starts_with("https://"), "{target}");
    }

    let Some(image) = ImageReference::parse(name) else { return };
    assert_eq!(ImageReference::parse(&image.to_string()).as_ref(), Some(&image));
    for endpoint in file.endpoints(&image).into_iter().flatten() {
        let host = endpoint.authority().to_owned();
        if let Some(url) = endpoint.manifest(&image.version()) {
            assert_eq!(url.authority(), host, "{url}");
        }
        let _ = (file.credential(&host), file.certificates(&host));
    }
}
