//! The pages: each queries the source and renders the result.

use axum::Extension;
use axum::extract::{Form, Path, Query, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use std::time::Instant;

use crate::access::Session;
use crate::action::{Action, Target};
use crate::live;
use crate::model::{ClusterPage, Fleet, HostPage, Hosts, MachinePage, Preview};
use crate::server::Shared;
use crate::source::{Filter, Problem};

/// What every page shows around its content.
#[derive(Serialize)]
struct Page<'a, T> {
    title: &'a str,
    section: &'static str,
    /// Whether the page is fetched again when something changes.
    live: bool,
    allow_actions: bool,
    csrf: &'a str,
    content: T,
}

type LoggedIn = Extension<Session>;

/// A list as a URL asks for it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct List {
    #[serde(default)]
    q: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    page: Option<usize>,
}

impl List {
    fn filter(&self) -> Filter {
        Filter { text: self.q.clone(), state: self.state.clone(), page: self.page.unwrap_or(1) }
    }
}

#[derive(Serialize)]
struct Listed<T> {
    list: T,
    q: String,
    state: String,
}

pub(crate) async fn fleet(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Query(list): Query<List>,
) -> Response {
    let found: Result<Fleet, _> = shared.source.fleet(list.filter()).await;
    let found = found.map(|fleet| Listed { list: fleet, q: list.q, state: list.state });
    show(&shared, &session, ("fleet.html", "Fleet", "fleet"), found)
}

pub(crate) async fn cluster(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let found: Result<ClusterPage, _> = shared.source.cluster(&namespace, &name).await;
    show(&shared, &session, ("cluster.html", &format!("Cluster {name}"), "fleet"), found)
}

pub(crate) async fn machine(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let found: Result<MachinePage, _> = shared.source.machine(&namespace, &name).await;
    show(&shared, &session, ("machine.html", &format!("Machine {name}"), "fleet"), found)
}

pub(crate) async fn hosts(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Query(list): Query<List>,
) -> Response {
    let found: Result<Hosts, _> = shared.source.hosts(list.filter()).await;
    let found = found.map(|hosts| Listed { list: hosts, q: list.q, state: list.state });
    show(&shared, &session, ("hosts.html", "Hosts", "hosts"), found)
}

pub(crate) async fn host(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let found: Result<HostPage, _> = shared.source.host(&namespace, &name).await;
    show(&shared, &session, ("host.html", &format!("Host {name}"), "hosts"), found)
}

#[derive(Serialize)]
struct PreviewContent {
    manifests: String,
    preview: Option<Preview>,
    error: Option<String>,
}

pub(crate) async fn preview_form(State(shared): State<Shared>, Extension(session): LoggedIn) -> Response {
    let content = PreviewContent { manifests: String::new(), preview: None, error: None };
    show(&shared, &session, ("preview.html", "Plan preview", "plan"), Ok(content))
}

#[derive(Deserialize)]
pub(crate) struct PreviewRequest {
    csrf: String,
    manifests: String,
}

pub(crate) async fn preview(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Form(form): Form<PreviewRequest>,
) -> Response {
    if !session.has_csrf(&form.csrf) {
        return stale_form(&shared, &session);
    }
    let (preview, error) = match shared.source.preview(form.manifests.clone()).await {
        Ok(preview) => (Some(preview), None),
        Err(problem) => (None, Some(problem.to_string())),
    };
    let content = PreviewContent { manifests: form.manifests, preview, error };
    show(&shared, &session, ("preview.html", "Plan preview", "plan"), Ok(content))
}

/// An action on an object, as a link or a form names it.
#[derive(Deserialize)]
pub(crate) struct ActionRequest {
    action: String,
    kind: String,
    namespace: String,
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    csrf: String,
}

#[derive(Serialize)]
struct Confirmation {
    action: &'static str,
    label: &'static str,
    consequence: &'static str,
    target: Target,
}

pub(crate) async fn confirm(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Query(wanted): Query<ActionRequest>,
) -> Response {
    match admissible(&shared, &wanted) {
        Ok((action, target)) => {
            let (label, consequence) = (action.label(), action.consequence());
            let content = Confirmation { action: action.name(), label, consequence, target };
            show(&shared, &session, ("confirm.html", label, ""), Ok(content))
        }
        Err(problem) => show_problem(&shared, &session, &problem),
    }
}

pub(crate) async fn act(
    State(shared): State<Shared>,
    Extension(session): LoggedIn,
    Form(wanted): Form<ActionRequest>,
) -> Response {
    if !session.has_csrf(&wanted.csrf) {
        return stale_form(&shared, &session);
    }
    let done = match admissible(&shared, &wanted) {
        Ok((action, target)) => {
            tracing::info!(%action, kind = target.kind, namespace = target.namespace, name = target.name, "web view: action");
            shared.source.act(action, target).await
        }
        Err(problem) => Err(problem),
    };
    match done {
        Ok(text) => message(&shared, Some(&session), StatusCode::OK, "Done", &text),
        Err(problem) => show_problem(&shared, &session, &problem),
    }
}

fn admissible(shared: &Shared, wanted: &ActionRequest) -> Result<(Action, Target), Problem> {
    if !shared.options.allow_actions {
        let why = "The web view is read-only. Start it with --allow-actions to change objects.";
        return Err(Problem::Forbidden(why.to_owned()));
    }
    let action = wanted.action.parse::<Action>().map_err(|error| Problem::Invalid(error.to_string()))?;
    let ActionRequest { kind, namespace, name, version, .. } = wanted;
    let target = Target {
        kind: kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        version: version.clone(),
    };
    Ok((action, target))
}

fn stale_form(shared: &Shared, session: &Session) -> Response {
    let why = "The form is from an earlier session. Go back, load the page again and repeat the action.";
    message(shared, Some(session), StatusCode::FORBIDDEN, "Form expired", why)
}

pub(crate) async fn live(State(shared): State<Shared>) -> Response {
    live::events(shared.source.changes()).into_response()
}

#[derive(Deserialize)]
pub(crate) struct Login {
    #[serde(default)]
    token: String,
}

pub(crate) async fn login(
    State(shared): State<Shared>,
    session: Option<LoggedIn>,
    Query(login): Query<Login>,
) -> Response {
    let home = |cookie: Option<String>| {
        let mut response = (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response();
        if let Some(cookie) = cookie.and_then(|cookie| cookie.parse().ok()) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    };
    match (shared.access.log_in(&login.token, Instant::now()), session) {
        (Some(cookie), _) => home(Some(cookie.header(shared.address.port()))),
        // A browser that loads its tabs again has logged in before.
        (None, Some(_)) => home(None),
        (None, None) => {
            let why = "This login link was used already, is older than 15 minutes, or was replaced by a newer one. Run `capstan ui` \
                       for a new link.";
            message(&shared, None, StatusCode::UNAUTHORIZED, "Login link is not valid", why)
        }
    }
}

pub(crate) async fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../assets/style.css")).into_response()
}

pub(crate) async fn script() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../assets/script.js")).into_response()
}

pub(crate) async fn icon() -> Response {
    ([(CONTENT_TYPE, "image/svg+xml")], include_str!("../assets/icon.svg")).into_response()
}

pub(crate) async fn nothing(State(shared): State<Shared>, Extension(session): LoggedIn) -> Response {
    message(&shared, Some(&session), StatusCode::NOT_FOUND, "Not found", "There is no such page.")
}

/// A page with a title and a sentence.
pub(crate) fn message(
    shared: &Shared,
    session: Option<&Session>,
    status: StatusCode,
    title: &str,
    text: &str,
) -> Response {
    #[derive(Serialize)]
    struct Message<'a> {
        text: &'a str,
        logged_in: bool,
    }
    let content = Message { text, logged_in: session.is_some() };
    let csrf = session.map_or("", |session| &session.csrf);
    let page =
        Page { title, section: "", live: false, allow_actions: shared.options.allow_actions, csrf, content };
    (status, html(shared, "message.html", &page)).into_response()
}

fn show<T: Serialize>(
    shared: &Shared,
    session: &Session,
    (template, title, section): (&str, &str, &'static str),
    found: Result<T, Problem>,
) -> Response {
    match found {
        Ok(content) => {
            let live = !matches!(template, "preview.html" | "confirm.html");
            let allow_actions = shared.options.allow_actions;
            let page = Page { title, section, live, allow_actions, csrf: &session.csrf, content };
            html(shared, template, &page)
        }
        Err(problem) => show_problem(shared, session, &problem),
    }
}

fn show_problem(shared: &Shared, session: &Session, problem: &Problem) -> Response {
    let (status, title) = match problem {
        Problem::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
        Problem::Forbidden(_) => (StatusCode::FORBIDDEN, "Not permitted"),
        Problem::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "Not possible"),
        Problem::Unavailable(_) => (StatusCode::BAD_GATEWAY, "The management plane does not answer"),
    };
    message(shared, Some(session), status, title, &problem.to_string())
}

fn html(shared: &Shared, template: &str, page: &impl Serialize) -> Response {
    match shared.renderer.page(template, page) {
        Ok(text) => {
            let headers: HeaderMap =
                [(CONTENT_TYPE, axum::http::HeaderValue::from_static("text/html; charset=utf-8"))]
                    .into_iter()
                    .collect();
            (headers, text).into_response()
        }
        Err(error) => {
            tracing::error!(%error, template, "cannot render a page");
            (StatusCode::INTERNAL_SERVER_ERROR, "cannot render the page; see the log of capstan")
                .into_response()
        }
    }
}
