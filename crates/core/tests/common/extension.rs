//! A runtime extension played by a test: reached over HTTPS and registered like any other.

use anyhow::{Context as _, Result};
use capstan_api::runtime::ExtensionConfig;
use capstan_api::runtime::hooks::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, CommonResponse, Patch, PatchType, UpdateMachineRequest,
    UpdateMachineResponse,
};
use capstan_hooks::Extension;
use capstan_hooks::server::{Authentication, Server, Serving};
use capstan_pki::serving::Authority;
use k8s_openapi::ByteString;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What a played extension answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It could make every change.
    Willing,
    /// It does not want any.
    Unwilling,
}

/// What an unwilling extension says.
pub(crate) const NO: &str = "spec.size: stays as it is";

impl Extension for Mood {
    async fn can_update_machine(&self, _: CanUpdateMachineRequest) -> CanUpdateMachineResponse {
        CanUpdateMachineResponse {
            common: CommonResponse::failure("there are no control planes here"),
            machine_patch: None,
            infrastructure_machine_patch: None,
            bootstrap_config_patch: None,
        }
    }

    async fn can_update_machine_set(&self, asked: CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
        let (common, covers) = match self {
            Self::Willing => (CommonResponse::success(), true),
            Self::Unwilling => (CommonResponse::failure(NO), false),
        };
        let patch = |object: Value| {
            let spec = object.pointer("/spec/template/spec").cloned().unwrap_or_default();
            let patch = json!([{"op": "add", "path": "/spec/template/spec", "value": spec}]);
            let patch = ByteString(patch.to_string().into_bytes());
            covers.then_some(Patch { patch_type: PatchType::JSONPatch, patch })
        };
        CanUpdateMachineSetResponse {
            common,
            machine_set_patch: patch(json!(asked.desired.machine_set)),
            infrastructure_machine_template_patch: patch(asked.desired.infrastructure_machine_template),
            bootstrap_config_template_patch: asked.desired.bootstrap_config_template.and_then(patch),
        }
    }

    async fn update_machine(&self, _: UpdateMachineRequest) -> UpdateMachineResponse {
        UpdateMachineResponse { common: CommonResponse::success(), retry_after_seconds: 0 }
    }
}

/// Serves an extension on a free port until `running` is dropped. Gives its address and its certificates.
pub(crate) async fn serve(
    extension: impl Extension,
    running: &mut JoinSet<()>,
) -> Result<(String, ByteString)> {
    serve_known(extension, None, running).await
}

/// The same for callers who are known, by whoever signs their certificates.
pub(crate) async fn serve_known(
    extension: impl Extension,
    callers: Option<&[u8]>,
    running: &mut JoinSet<()>,
) -> Result<(String, ByteString)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
    let url = format!("https://{}", listener.local_addr()?);
    let now = jiff::Timestamp::now();
    let authority = Authority::new("capstan hooks", now)?;
    let serving = Arc::new(Serving::default());
    serving.show(authority.issue(&["127.0.0.1".to_owned()], now)?.key);
    let authentication = Authentication { client_ca: callers.map(<[u8]>::to_vec), tokens: None };
    let server = Server::new(extension, &serving, authentication)?;
    running.spawn(server.serve(listener, std::future::pending()));
    Ok((url, ByteString(authority.bundle().into_bytes())))
}

/// Makes the ExtensionConfig of an extension.
pub(crate) async fn register(client: &Client, name: &str, url: &str, bundle: &ByteString) -> Result<()> {
    let config: ExtensionConfig = serde_json::from_value(json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": name},
        "spec": {"clientConfig": {"url": url, "caBundle": bundle}},
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &config).await.context("cannot register")?;
    Ok(())
}
