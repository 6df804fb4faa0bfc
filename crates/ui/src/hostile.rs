//! Tests with a source that puts markup into every text, because every text on a page may come from a hostile machine. Each
//! text has a number, so that a field that a page does not show is noticed.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::action::{Action, Target};
use crate::model::{
    Age, ClusterPage, ClusterRow, Condition, ConditionList, Count, Domain, EarlierPlan, Event, Fact, Fleet,
    HandOff, HostCell, HostPage, HostRow, Hosts, LedgerLine, LedgerView, MachineChange, MachinePage, Offer,
    Paging, PlanProgress, PlanStep, Preview, PreviewField, PreviewMachine, PreviewObject, Probe, Revision,
    Rollout, RolloutMachineRow, Tone, TreeLine, Waiting,
};
use crate::render::Renderer;
use crate::server::{Options, Shared, router};
use crate::source::{Answer, Filter, Problem, Source};

const HOSTILE: &str = r#""'></td><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}"#;

/// A text that no other field has.
fn text() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("f{}_{HOSTILE}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The texts in a page's content.
fn texts(content: &serde_json::Value, into: &mut Vec<String>) {
    match content {
        serde_json::Value::String(text) => into.extend(text.contains(HOSTILE).then(|| text.clone())),
        serde_json::Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        serde_json::Value::Object(fields) => fields.values().for_each(|field| texts(field, into)),
        _ => {}
    }
}

fn age() -> Option<Age> {
    Some(Age { at: text(), text: text() })
}

fn waiting() -> Waiting {
    Waiting { object: text(), reason: text(), message: text(), since: age(), owner: text() }
}

fn condition() -> Condition {
    Condition {
        type_: text(),
        status: text(),
        reason: text(),
        message: text(),
        since: age(),
        tone: Tone::Bad,
    }
}

fn conditions() -> Vec<ConditionList> {
    vec![ConditionList { object: text(), conditions: vec![condition()] }]
}

fn events() -> Vec<Event> {
    vec![Event { last: age(), object: text(), reason: text(), message: text(), count: 1, tone: Tone::Bad }]
}

fn counts() -> Vec<Count> {
    vec![Count { label: text(), count: 1, tone: Tone::Good }]
}

fn paging() -> Paging {
    Paging { page: 2, last: 3, total: 120 }
}

fn handoffs() -> Vec<HandOff> {
    // Its object is that of the hand-off.
    let waiting = Waiting { object: String::new(), ..waiting() };
    vec![HandOff { what: text(), state: "waiting".to_owned(), object: text(), waiting: Some(waiting) }]
}

fn facts() -> Vec<Fact> {
    vec![Fact { label: text(), value: text() }]
}

fn target() -> Target {
    Target { kind: text(), namespace: text(), name: text(), version: text() }
}

fn offers() -> Vec<Offer> {
    vec![Offer::new(Action::Hold, target())]
}

fn row() -> ClusterRow {
    ClusterRow {
        namespace: text(),
        name: text(),
        version: text(),
        phase: text(),
        health: text(),
        tone: Tone::Bad,
        servers: text(),
        workers: text(),
        waiting: Some(waiting()),
    }
}

fn host_row() -> HostRow {
    HostRow {
        namespace: text(),
        name: text(),
        state: text(),
        tone: Tone::Bad,
        address: text(),
        domain: text(),
        cluster: text(),
        machine: text(),
        reason: text(),
        problem: text(),
    }
}

fn fields() -> Vec<PreviewField> {
    let one = PreviewField { field: text(), from: Some(text()), to: Some(text()), cost: text(), why: text() };
    vec![one.clone(), PreviewField { from: None, to: None, ..one }]
}

struct Hostile {
    changes: watch::Sender<u64>,
    /// The texts that the pages since the last check must show.
    planted: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    fn ready<'a, T: Serialize + Send + 'a>(&self, value: T) -> Answer<'a, T> {
        let content = serde_json::to_value(&value).expect("JSON");
        texts(&content, &mut self.planted.lock().expect("a lock"));
        Box::pin(async { Ok(value) })
    }
}

impl Source for Hostile {
    fn fleet(&self, _: Filter) -> Answer<'_, Fleet> {
        let cell = HostCell { namespace: text(), name: text(), state: text(), tone: Tone::Bad };
        let domain = Domain { name: text(), states: counts(), hosts: vec![cell], more: 3 };
        let (domains, notices) = (vec![domain], vec![text()]);
        // The health sums the phase up.
        let cluster = ClusterRow { phase: String::new(), ..row() };
        self.ready(Fleet { totals: counts(), clusters: vec![cluster], paging: paging(), domains, notices })
    }

    fn cluster<'a>(&'a self, _: &'a str, name: &'a str) -> Answer<'a, ClusterPage> {
        if name == "missing" {
            return Box::pin(async { Err(Problem::NotFound(text())) });
        }
        let line = TreeLine {
            depth: 1,
            name: text(),
            machine: Some(text()),
            host: None,
            version: text(),
            ready: text(),
            up_to_date: text(),
            condition: Some(condition()),
        };
        let host = TreeLine { machine: None, host: Some(text()), ..line.clone() };
        let revision =
            Revision { number: 1, set: text(), version: text(), created: age(), replicas: 1, current: true };
        let turn = RolloutMachineRow {
            machine: text(),
            turn: text(),
            doing: text(),
            since: age(),
            tone: Tone::Waiting,
        };
        let change = MachineChange {
            machine: text(),
            change: text(),
            written: age(),
            state: text(),
            ended: age(),
            tone: Tone::Good,
        };
        let rollout = Rollout {
            object: text(),
            progress: text(),
            since: age(),
            waits: text(),
            turns: vec![turn],
            changes: vec![change],
            changes_more: 1,
            revisions: vec![revision],
        };
        self.ready(ClusterPage {
            // The chain says the same.
            row: ClusterRow { waiting: None, ..row() },
            endpoint: text(),
            versions: counts(),
            machine: Some(text()),
            handoffs: handoffs(),
            chain: vec![waiting()],
            tree: vec![line, host],
            tree_more: 1,
            conditions: conditions(),
            events: events(),
            rollouts: vec![rollout],
            offers: offers(),
        })
    }

    fn machine<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, MachinePage> {
        let earlier =
            EarlierPlan { revision: 1, change: text(), written: age(), ending: text(), tone: Tone::Bad };
        let plan = PlanProgress {
            revision: 1,
            digest: text(),
            phase: text(),
            tone: Tone::Bad,
            steps: vec![PlanStep { name: text(), state: "failed".to_owned() }],
            attempts: 2,
            message: text(),
            stdout: text(),
            stderr: text(),
            omitted: 5,
            applied: Some(1),
            change: text(),
            written: age(),
            earlier: vec![earlier],
        };
        let line = LedgerLine { kind: text(), name: text(), reset: text() };
        self.ready(MachinePage {
            namespace: text(),
            name: text(),
            cluster: text(),
            host: Some(text()),
            version: text(),
            phase: text(),
            tone: Tone::Bad,
            node: text(),
            handoffs: handoffs(),
            plan: Some(plan),
            probes: vec![Probe { name: text(), healthy: false, message: text(), since: age() }],
            facts: facts(),
            ledger: Some(LedgerView { total: 2, items: vec![line] }),
            contact: age(),
            conditions: conditions(),
            events: events(),
            offers: offers(),
        })
    }

    fn hosts(&self, _: Filter) -> Answer<'_, Hosts> {
        self.ready(Hosts {
            hosts: vec![host_row()],
            paging: paging(),
            states: counts(),
            notices: vec![text()],
        })
    }

    fn host<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, HostPage> {
        self.ready(HostPage {
            row: host_row(),
            facts: facts(),
            conditions: conditions(),
            events: events(),
            offers: offers(),
        })
    }

    fn preview(&self, _: String) -> Answer<'_, Preview> {
        let machine = PreviewMachine {
            name: text(),
            owner: text(),
            outcome: text(),
            tone: Tone::Bad,
            step: Some(1),
            kept: true,
            fields: fields(),
            notes: vec![text()],
        };
        let object = PreviewObject {
            name: text(),
            action: text(),
            tone: Tone::Bad,
            fields: fields(),
            refusals: vec![text()],
        };
        self.ready(Preview {
            summary: text(),
            tone: Tone::Bad,
            machines: vec![machine],
            objects: vec![object],
            refusals: vec![text()],
            notes: vec![text()],
        })
    }

    fn act(&self, _: Action, target: Target) -> Answer<'_, String> {
        self.ready(format!("did it to {}", target.name))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9000))
}

/// A server, and the cookie and CSRF token of a browser that has logged in.
fn logged_in(allow_actions: bool) -> (Shared, String, String) {
    logged_in_with(allow_actions, Arc::default())
}

/// The same. The server adds the texts that its pages must show to `planted`.
fn logged_in_with(allow_actions: bool, planted: Arc<Mutex<Vec<String>>>) -> (Shared, String, String) {
    let shared = Shared {
        source: Arc::new(Hostile { changes: watch::Sender::new(0), planted }),
        access: Arc::default(),
        renderer: Arc::new(Renderer::new().expect("templates")),
        address: address(),
        options: Options { allow_actions },
    };
    let link = shared.access.link(address()).to_string();
    let token = link.rsplit_once('=').expect("a token").1;
    let cookie =
        shared.access.log_in(token, std::time::Instant::now()).expect("a session").header(address().port());
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let csrf = shared.access.session(&cookie, address().port()).expect("a session").csrf;
    (shared, cookie, csrf)
}

struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<(&'a str, String)>,
    body: String,
}

impl<'a> Ask<'a> {
    fn get(path: &'a str, cookie: &str) -> Self {
        let headers = vec![("host", address().to_string()), ("cookie", cookie.to_owned())];
        Self { method: "GET", path, headers, body: String::new() }
    }

    fn post(path: &'a str, cookie: &str, body: String) -> Self {
        let mut asked = Self { method: "POST", body, ..Self::get(path, cookie) };
        asked.headers.push(("origin", format!("http://{}", address())));
        asked.headers.push(("content-type", "application/x-www-form-urlencoded".to_owned()));
        asked
    }

    async fn answer(self, shared: &Shared) -> (StatusCode, String, axum::http::HeaderMap) {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Body::from(self.body)).expect("a request");
        let response = router(shared.clone()).oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let text = body.collect().await.expect("a body").to_bytes();
        (parts.status, String::from_utf8(text.to_vec()).expect("text"), parts.headers)
    }
}

#[tokio::test]
async fn markup_in_any_field_is_only_text() {
    let planted = Arc::new(Mutex::new(Vec::new()));
    let (shared, cookie, csrf) = logged_in_with(true, Arc::clone(&planted));
    let encoded = "%22%27%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E";
    let confirm = format!("/confirm?action=hold&kind={encoded}&namespace={encoded}&name={encoded}");
    let filter = format!("/?q={encoded}&state={encoded}&page=2");
    let hosts = format!("/hosts?q={encoded}&state={encoded}");
    let pages = [
        "/",
        filter.as_str(),
        "/clusters/a/b",
        "/clusters/a/missing",
        "/machines/a/b",
        "/hosts",
        hosts.as_str(),
        "/hosts/a/b",
        confirm.as_str(),
    ];
    let mut asked: Vec<Ask<'_>> = pages.into_iter().map(|page| Ask::get(page, &cookie)).collect();
    for (path, body) in [
        ("/plan", format!("csrf={csrf}&manifests={encoded}")),
        ("/actions", format!("csrf={csrf}&action=hold&kind=Machine&namespace=a&name={encoded}")),
    ] {
        asked.push(Ask::post(path, &cookie, body));
    }
    for ask in asked {
        let page = ask.path.to_owned();
        let (status, html, headers) = ask.answer(&shared).await;
        let planted = std::mem::take(&mut *planted.lock().expect("a lock"));
        let is_shown = |text: &&String| {
            let (number, _) = text.split_once('_').expect("a number");
            html.contains(&format!("{number}_"))
        };
        let hidden: Vec<_> = planted.iter().filter(|text| !is_shown(text)).collect();
        assert!(hidden.is_empty(), "{page} does not show {hidden:?}: {html}");
        let expected = if page.ends_with("missing") { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(status, expected, "{page}: {html}");
        assert!(html.contains("&lt;script&gt;"), "{page} does not show the text");
        for forbidden in ["<script>alert", "<img src=x", "49</", "\"'>"] {
            assert!(!html.contains(forbidden), "{page} has {forbidden}");
        }
        let policy = headers["content-security-policy"].to_str().expect("a policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn nothing_is_shown_without_a_session() {
    let (shared, cookie, _) = logged_in(true);
    for path in ["/", "/clusters/a/b", "/hosts", "/live", "/plan", "/nowhere"] {
        let (status, html, _) = Ask::get(path, "").answer(&shared).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!html.contains("&lt;script&gt;"), "{path}");
        let mut foreign = Ask::get(path, &cookie);
        foreign.headers[0].1 = "attacker.example:9000".to_owned();
        assert_eq!(foreign.answer(&shared).await.0, StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
    assert_eq!(Ask::get("/nowhere", &cookie).answer(&shared).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_login_link_sets_a_strict_cookie_once() {
    let (shared, ..) = logged_in(false);
    let link = shared.access.link(address()).to_string();
    let path = link.strip_prefix("http://127.0.0.1:9000").expect("our address");
    let (status, _, headers) = Ask::get(path, "").answer(&shared).await;
    assert_eq!((status, headers["location"].to_str().ok()), (StatusCode::SEE_OTHER, Some("/")));
    let cookie = headers["set-cookie"].to_str().expect("a cookie").to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    assert_eq!(Ask::get(path, "").answer(&shared).await.0, StatusCode::UNAUTHORIZED);
    let cookie = cookie.split(';').next().expect("a pair");
    assert_eq!(Ask::get(path, cookie).answer(&shared).await.0, StatusCode::SEE_OTHER, "the same browser");
}

#[tokio::test]
async fn actions_need_permission_a_token_and_our_own_page() {
    let body = |csrf: &str| format!("csrf={csrf}&action=hold&kind=Machine&namespace=a&name=b");
    let (shared, cookie, csrf) = logged_in(true);
    assert_eq!(Ask::post("/actions", &cookie, body(&csrf)).answer(&shared).await.0, StatusCode::OK);
    for wrong in ["", "guess"] {
        let (status, ..) = Ask::post("/actions", &cookie, body(wrong)).answer(&shared).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{wrong}");
        let preview = format!("csrf={wrong}&manifests=x");
        assert_eq!(
            Ask::post("/plan", &cookie, preview).answer(&shared).await.0,
            StatusCode::FORBIDDEN,
            "{wrong}"
        );
    }
    let mut foreign = Ask::post("/actions", &cookie, body(&csrf));
    foreign.headers[2].1 = "http://attacker.example".to_owned();
    assert_eq!(foreign.answer(&shared).await.0, StatusCode::FORBIDDEN);
    let mut silent = Ask::post("/actions", &cookie, body(&csrf));
    silent.headers.remove(2);
    assert_eq!(
        silent.answer(&shared).await.0,
        StatusCode::FORBIDDEN,
        "a browser always says where a form is from"
    );
    let unknown = body(&csrf).replace("hold", "delete");
    assert_eq!(
        Ask::post("/actions", &cookie, unknown).answer(&shared).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let (read_only, cookie, csrf) = logged_in(false);
    let (status, html, _) = Ask::post("/actions", &cookie, body(&csrf)).answer(&read_only).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(html.contains("--allow-actions"), "{html}");
}
