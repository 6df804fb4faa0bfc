//! Bodies of requests to the API server. Nothing is stored, so that an input does the same in every process.

use http::Request;

use crate::server::{CRDS, MAPS, WIDGETS, plane};

pub(crate) fn json(input: &[u8]) {
    object("application/json", input);
}

pub(crate) fn yaml(input: &[u8]) {
    object("application/yaml", input);
}

pub(crate) fn protobuf(input: &[u8]) {
    object("application/vnd.kubernetes.protobuf", input);
}

pub(crate) fn json_patch(input: &[u8]) {
    patch("application/json-patch+json", input);
}

pub(crate) fn merge_patch(input: &[u8]) {
    patch("application/merge-patch+json", input);
}

pub(crate) fn strategic_patch(input: &[u8]) {
    patch("application/strategic-merge-patch+json", input);
}

pub(crate) fn apply(input: &[u8]) {
    patch("application/apply-patch+yaml", input);
}

/// A definition, which is only judged.
pub(crate) fn crd(input: &[u8]) {
    let request = Request::post(format!("{CRDS}?dryRun=All")).header("content-type", "application/yaml");
    plane().ask(request, input);
}

/// Objects of built-in kinds and of a custom one, and the options of a deletion.
fn object(media: &str, input: &[u8]) {
    let pods = "/api/v1/namespaces/default/pods";
    for path in [MAPS, WIDGETS, "/api/v1/namespaces/default/secrets", pods] {
        plane().ask(Request::post(format!("{path}?dryRun=All")).header("content-type", media), input);
    }
    let put = Request::put(format!("{WIDGETS}/w?dryRun=All")).header("content-type", media);
    plane().ask(put, input);
    let delete = Request::delete(format!("{MAPS}/m?dryRun=All")).header("content-type", media);
    plane().ask(delete, input);
}

fn patch(media: &str, input: &[u8]) {
    let force = if media.contains("apply") { "&force=true" } else { "" };
    let widget = format!("{WIDGETS}/w");
    for path in [
        format!("{MAPS}/m"),
        widget.clone(),
        format!("{widget}/status"),
        format!("{widget}/scale"),
        "/api/v1/namespaces/default".to_owned(),
    ] {
        let uri = format!("{path}?fieldManager=fuzz&dryRun=All{force}");
        plane().ask(Request::patch(uri).header("content-type", media), input);
    }
}
