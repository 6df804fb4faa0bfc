//! From a request with a user to an answer: the one path that every request takes.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use capstan_text::health::Endpoint;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};
use tokio::sync::watch as signal;

use crate::{
    auth::{authorize, impersonate, revocation, token_keys},
    call::{Call, Outcome},
    chunked_list, discovery, health, heavy, openapi,
    plane::Plane,
    rbac::Access,
    registry::{Side, Virtual},
    request::{
        Head, Query, RequestInfo, ResourceRequest, Verb,
        body::{self, media_type},
        negotiate::{Format, Offer, Output},
        options::{self, DeleteOptions, ListOptions, WriteOptions},
    },
    respond::{self, Body},
    status::{ApiError, Result},
    table::Include,
    unread_body::Unread,
    user::{MASTERS, User},
    validation::{admit, scale},
    verbs::{
        self,
        create::{self, NewObject},
        delete::{self, Deleted},
        patch, read,
        update::{self, Edit},
    },
    virtual_resources::{self, components},
    watch,
};

/// Where credentials are revoked.
const REVOCATIONS: &str = "/capstan/v1/revocations";

/// Where the key of tokens is replaced.
const TOKEN_KEYS: &str = "/capstan/v1/token-keys";

/// Where a backup is taken from.
const BACKUP: &str = "/capstan/v1/backup";

/// What policies note about a request in the audit log; an extension of its response.
#[derive(Clone, Default)]
pub(crate) struct Annotations(pub(crate) BTreeMap<String, String>);

/// A request whose body has been read.
struct Incoming {
    headers: HeaderMap,
    body: Bytes,
}

/// Answers a request.
pub(crate) async fn handle<B>(
    plane: &Arc<Plane>,
    user: User,
    head: Head,
    body: Unread<'_, B>,
    shutdown: signal::Receiver<bool>,
) -> Response<Body>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let format = Format::of_errors(&head.parts.headers);
    match answer(plane, user, head, body, shutdown).await {
        Ok(response) => response,
        Err(error) => respond::error(&error, format),
    }
}

async fn answer<B>(
    plane: &Arc<Plane>,
    user: User,
    head: Head,
    body: Unread<'_, B>,
    shutdown: signal::Receiver<bool>,
) -> Result<Response<Body>>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Head { parts: Parts { method, uri, headers, .. }, query, info } = head;
    let path = uri.path();
    let info = info.ok_or_else(|| ApiError::method_not_allowed(""))?;
    // A watch has `timeoutSeconds` instead.
    if !matches!(&info, RequestInfo::Resource(request) if request.verb == Verb::Watch) {
        options::check_timeout(&query)?;
    }
    match info {
        RequestInfo::Resource(request) => {
            authorize::require(&plane.store, &user, &request.access())?;
            let call = Call::new(plane, &request, user, manager(&headers))?;
            let (body, _seat) = body.read_and_sit().await?;
            let incoming = Incoming { headers, body };
            let stored = plane.store.get(&call.key()).map_or(0, |stored| stored.json.len());
            let bytes = incoming.body.len().max(stored);
            let work = resource(&call, &request, &query, &incoming, shutdown);
            let answer = heavy::off_the_workers(bytes, work).await;
            let format = || Format::of_errors(&incoming.headers);
            let mut response = answer.unwrap_or_else(|error| respond::error(&error, format()));
            response = respond::warn(response, &call.notes.take_warnings());
            response.extensions_mut().insert(Annotations(call.notes.take_annotations()));
            if let Some(warning) = &call.version.deprecated {
                let (version, kind) = (call.api_version(), &call.resource.kind);
                let text = if warning.is_empty() {
                    format!("{version} {kind} is deprecated")
                } else {
                    warning.clone()
                };
                response = respond::warn(response, &[text]);
            }
            Ok(response)
        }
        RequestInfo::Other => {
            let verb = method.as_str().to_lowercase();
            authorize::require(&plane.store, &user, &Access::Path { verb: &verb, path })?;
            match path.trim_end_matches('/') {
                BACKUP => {
                    above_all_roles(&user, &headers)?;
                    backup(plane, &method)
                }
                REVOCATIONS => {
                    above_all_roles(&user, &headers)?;
                    let answer = match method {
                        Method::GET => revocation::list(&plane.revocations, &plane.store)?,
                        Method::POST => {
                            revocation::add(&plane.store, plane.now(), &body.read().await?).await?
                        }
                        _ => return Err(ApiError::method_not_allowed("")),
                    };
                    Ok(respond::value(StatusCode::OK, &answer, Output::JSON.format))
                }
                TOKEN_KEYS => {
                    above_all_roles(&user, &headers)?;
                    let answer = match method {
                        Method::GET => plane.issuer.keys.list(),
                        Method::POST => {
                            let keys = Arc::clone(&plane.issuer.keys);
                            token_keys::replace(keys, plane.now(), &body.read().await?).await?
                        }
                        _ => return Err(ApiError::method_not_allowed("")),
                    };
                    Ok(respond::value(StatusCode::OK, &answer, Output::JSON.format))
                }
                _ => other(plane, path, &query, &headers),
            }
        }
    }
}

/// Whose fields a plain write sets: the program's name.
fn manager(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let name: String = agent.split('/').next().unwrap_or_default().chars().take(128).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

fn other(plane: &Plane, path: &str, query: &Query, headers: &HeaderMap) -> Result<Response<Body>> {
    let registry = plane.registry();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let [first, below @ ..] = parts.as_slice()
        && let Some(endpoint) = Endpoint::of(first)
    {
        return health::answer(plane, endpoint, below, query);
    }
    match parts.as_slice() {
        ["metrics"] => {
            let mut objects: BTreeMap<String, usize> = BTreeMap::new();
            for stored in &plane.store.everything().items {
                *objects.entry(stored.key.resource.to_string()).or_default() += 1;
            }
            let seats = plane.flows.seats(&plane.store);
            let mut text = plane.metrics.text(&objects, &seats, plane.store.revision());
            text.extend(plane.more_metrics.as_ref().map(|more| more()));
            Ok(respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
        }
        ["version"] => Ok(respond::value(StatusCode::OK, &version(&plane.version), Output::JSON.format)),
        ["openapi", "v2"] => openapi::v2(&registry, &plane.documents, &plane.version, headers),
        ["openapi", "v3", rest @ ..] => {
            openapi::v3(&registry, &plane.documents, &plane.version, &rest.join("/"), headers)
        }
        ["api" | "apis", ..] => discovery::answer(&registry, &parts, headers),
        [] => {
            let paths = [
                "/api",
                "/apis",
                "/healthz",
                "/livez",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3",
                "/readyz",
                "/version",
            ];
            Ok(respond::value(StatusCode::OK, &json!({"paths": paths}), Output::JSON.format))
        }
        _ => Err(ApiError::no_such_path()),
    }
}

/// Requires a user who is above all roles: who may read all paths by a role, or may impersonate, may do neither of these.
fn above_all_roles(user: &User, headers: &HeaderMap) -> Result<()> {
    // The right to impersonate is part of the role cluster-admin, and is not the right to read the keys of the plane.
    if !user.is_in(MASTERS) || impersonate::is_asked_for(headers) {
        let message = format!("only the group {MASTERS} may do this, and not by impersonation");
        return Err(ApiError::forbidden_path(message));
    }
    Ok(())
}

/// All objects, with Secrets and the keys of the plane.
fn backup(plane: &Plane, method: &Method) -> Result<Response<Body>> {
    if method != Method::GET {
        return Err(ApiError::method_not_allowed(""));
    }
    let backup = plane.backup().map_err(|error| ApiError::internal(&error.to_string()))?;
    Ok(respond::stream("application/json", futures::stream::iter(backup.into_chunks())))
}

fn version(version: &str) -> Value {
    let mut numbers = version.trim_start_matches('v').split('.');
    json!({
        "major": numbers.next().unwrap_or_default(), "minor": numbers.next().unwrap_or_default(),
        "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": version, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

async fn resource(
    call: &Call,
    request: &ResourceRequest,
    query: &Query,
    incoming: &Incoming,
    shutdown: signal::Receiver<bool>,
) -> Result<Response<Body>> {
    if call.resource.virtual_kind == Some(Virtual::ComponentStatus) {
        return component_status(call, request, query, incoming).await;
    }
    if let Some(kind) = call.resource.virtual_kind {
        return answered(call, kind, request, query, incoming);
    }
    let output = match request.verb {
        Verb::Watch => Output::negotiate_stream(&incoming.headers, offer(call))?,
        _ => Output::negotiate(&incoming.headers, offer(call))?,
    };
    let include = Include::parse(query.get("includeObject"));
    if !call.side.is_main() && !matches!(request.verb, Verb::Get | Verb::Update | Verb::Patch) {
        return Err(ApiError::method_not_allowed(""));
    }
    match request.verb {
        Verb::Get => {
            let stored = call.stored()?;
            let object = call.present(&stored).await?;
            match call.side {
                Side::Scale => {
                    let object = object.value();
                    scale::check_shown(call, &object)?;
                    Ok(respond::value(StatusCode::OK, &scale::show(call, &object)?, output.format))
                }
                _ => Ok(respond::object(call, StatusCode::OK, &object, output, include)),
            }
        }
        Verb::List => {
            let page = read::list(call, &ListOptions::parse(query, false)?)?;
            chunked_list::list(call, page, output, include).await
        }
        Verb::Watch => watch::watch(call, query, output, shutdown).await,
        Verb::Create | Verb::Update | Verb::Patch => {
            write(call, request, query, incoming, output, include).await
        }
        Verb::Delete => {
            let options = DeleteOptions::parse(query, delete_body(incoming)?.as_ref())?;
            match delete::delete(call, &options).await? {
                Deleted::Gone(stored) if !call.resource.rules.returned => {
                    Ok(respond::value(StatusCode::OK, &read::success(call, &stored), output.format))
                }
                Deleted::Gone(stored) | Deleted::Pending(stored) => {
                    let object = call.present(&stored).await?;
                    Ok(respond::object(call, StatusCode::OK, &object, output, include))
                }
            }
        }
        Verb::DeleteCollection => {
            let options = DeleteOptions::parse(query, delete_body(incoming)?.as_ref())?;
            let page = read::list(call, &ListOptions::parse(query, false)?)?;
            for stored in &page.items {
                let mut one = call.clone();
                one.name.clone_from(&stored.key.name);
                one.namespace.clone_from(&stored.key.namespace);
                match delete::delete(&one, &options).await {
                    Err(error) if error.reason() == "NotFound" => {}
                    deleted => drop(deleted?),
                }
            }
            chunked_list::list(call, page, output, include).await
        }
    }
}

/// In which forms a resource can be sent. Custom resources have no protobuf form, but their scale has one.
fn offer(call: &Call) -> Offer {
    Offer::objects(!call.resource.is_custom() || matches!(call.side, Side::Scale))
}

/// Answers a post to a resource that keeps nothing.
fn answered(
    call: &Call,
    kind: Virtual,
    request: &ResourceRequest,
    query: &Query,
    incoming: &Incoming,
) -> Result<Response<Body>> {
    // There is nothing to list, so there are no tables.
    let output = Output::negotiate(&incoming.headers, Offer::PLAIN)?;
    if !request.name.is_empty() && request.subresource.is_empty() {
        return Err(ApiError::no_such_path());
    }
    if request.verb != Verb::Create || (call.resource.namespaced && call.namespace.is_empty()) {
        return Err(ApiError::method_not_allowed(""));
    }
    let options = WriteOptions::parse(query, "CreateOptions")?;
    let decoded = body::decode(media_type(&incoming.headers), &incoming.body)?;
    let (asked, warnings) = admit::incoming(call, decoded, options.field_validation)?;
    let response =
        respond::value(StatusCode::CREATED, &virtual_resources::answer(kind, call, asked)?, output.format);
    Ok(respond::warn(response, &warnings))
}

/// Answers a read of what is computed and not stored.
async fn component_status(
    call: &Call,
    request: &ResourceRequest,
    query: &Query,
    incoming: &Incoming,
) -> Result<Response<Body>> {
    let output = Output::negotiate(&incoming.headers, offer(call))?;
    let include = Include::parse(query.get("includeObject"));
    match request.verb {
        Verb::Get if request.subresource.is_empty() => {
            let object = call.present(&components::get(call)?).await?;
            Ok(respond::object(call, StatusCode::OK, &object, output, include))
        }
        Verb::List => {
            let page = components::list(call, &ListOptions::parse(query, false)?)?;
            chunked_list::list(call, page, output, include).await
        }
        _ => Err(ApiError::method_not_allowed("")),
    }
}

fn delete_body(incoming: &Incoming) -> Result<Option<Value>> {
    if incoming.body.is_empty() {
        return Ok(None);
    }
    Ok(Some(body::decode(media_type(&incoming.headers), &incoming.body)?.value))
}

async fn write(
    call: &Call,
    request: &ResourceRequest,
    query: &Query,
    incoming: &Incoming,
    output: Output,
    include: Include,
) -> Result<Response<Body>> {
    let kind = match request.verb {
        Verb::Create => "CreateOptions",
        Verb::Patch => "PatchOptions",
        _ => "UpdateOptions",
    };
    let media = media_type(&incoming.headers);
    if request.verb == Verb::Patch {
        patch::PatchType::of(media, call.resource.is_custom())?;
    }
    let options = WriteOptions::parse(query, kind)?;
    let outcome = match request.verb {
        Verb::Create => {
            if !request.name.is_empty() {
                return Err(ApiError::method_not_allowed(""));
            }
            let (object, warnings) =
                admit::incoming(call, body::decode(media, &incoming.body)?, options.field_validation)?;
            create::create(call, NewObject::posted(object, warnings), &options).await?
        }
        _ if request.name.is_empty() => return Err(ApiError::method_not_allowed("")),
        Verb::Patch => patch::patch(call, media, &incoming.body, &options).await?,
        _ if matches!(call.side, Side::Scale) => {
            verbs::scale::replace(call, &body::decode(media, &incoming.body)?.value, &options).await?
        }
        _ => put(call, media, &incoming.body, &options).await?,
    };
    let code = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
    let response = match call.side {
        Side::Scale => respond::value(code, &scale::show(call, &outcome.object.value())?, output.format),
        _ => respond::object(call, code, &outcome.object, output, include),
    };
    Ok(respond::warn(response, &outcome.warnings))
}

async fn put(call: &Call, media: &str, bytes: &[u8], options: &WriteOptions) -> Result<Outcome> {
    let (object, warnings) = admit::incoming(call, body::decode(media, bytes)?, options.field_validation)?;
    update::check_namespace(call, &object)
        .and_then(|()| update::check_name(call, &object))
        .map_err(|error| error.warned(warnings.clone()))?;
    let creates = call.resource.rules.create_on_update && call.side.is_main();
    let edit = |current: Option<&Value>| {
        match current {
            None if !creates => Err(call.not_found()),
            None => Ok(()),
            Some(current) => update::check_uid(call, &object, current),
        }
        .map_err(|error| error.warned(warnings.clone()))?;
        Ok(Edit { object: object.clone(), warnings: warnings.clone(), tracked: false })
    };
    update::update(call, options, edit).await
}

/// The header that ties an answer to the log.
pub(crate) fn audit(response: &mut Response<Body>, id: &str) {
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert("audit-id", id);
    }
}
