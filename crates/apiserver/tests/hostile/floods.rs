//! Too much of everything. After each flood somebody else is answered, and memory and files are what they were, give or take.

use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::server::{LIMITS, SOON, Server, open, request, send, until_hung_up};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Megabytes that a server may have grown by: far less than what is thrown at it.
const GROWN: u64 = 350;

/// Lets mallory and bob do with ConfigMaps and widgets of the namespace as they like.
async fn let_in(server: &Server) {
    let mut admin = server.client("admin").many().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rules = json!([{"apiGroups": ["", "example.com"], "resources": ["configmaps", "widgets", "widgets/status"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    let binding = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "mallory"}, {"kind": "User", "name": "bob"}],
    });
    let crd = crate::support::widgets();
    let crds = crate::support::CRDS.to_owned();
    for (path, body) in
        [(format!("{rbac}/roles"), role), (format!("{rbac}/rolebindings"), binding), (crds, crd)]
    {
        let (code, text) = send(&mut admin, "POST", &path, "application/json", &body.to_string()).await;
        assert_eq!(code, 201, "{text}");
    }
}

/// ConfigMaps of about a megabyte.
async fn fill(server: &Server, count: usize) {
    let mut mallory = server.client("mallory").many().await;
    for number in 0..count {
        let map =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"k": "x".repeat(1 << 20)}})
                .to_string();
        let (code, text) = send(&mut mallory, "POST", MAPS, "application/json", &map).await;
        assert_eq!(code, 201, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_leave_room_for_others() {
    let server = Server::start();
    let mallory = server.client("mallory");
    let files = server.files();
    let mut held = Vec::new();
    for last in 1..=6 {
        for _ in 0..80 {
            held.push(mallory.tcp([127, 0, 0, last]).await.unwrap());
        }
    }
    server.still_serves().await;
    assert!(server.files() <= files + LIMITS().all_connections + 10, "{} files", server.files());
    drop(held);
    // The server hears of it when it gets round to it; until then there is no room.
    let noticed = async {
        while server.files() > files + 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, noticed).await.unwrap();
    server.still_serves().await;
}

/// What a client of HTTP/2 sends first, and an empty frame of settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_an_authenticated_request_is_closed() {
    let server = Server::start();
    let mallory = server.client("mallory");
    for (protocol, bytes) in [
        (&b"http/1.1"[..], &b""[..]),
        (b"http/1.1", b"G"),
        (b"h2", b""),
        (b"h2", &PREFACE[..10]),
        (b"h2", PREFACE),
    ] {
        let mut silent = mallory.tls_from([127, 0, 0, 1], protocol).await.unwrap();
        until_hung_up(&mut silent, bytes).await;
    }
    server.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_from_many_addresses_make_room() {
    let server = Server::start();
    let (mallory, admin) = (server.client("mallory"), server.client("admin"));
    // A watch of an authenticated client goes on meanwhile.
    let mut watching = admin.many().await;
    let watch = open(&mut watching, "GET", &format!("{MAPS}?watch=true"), "", "").await;
    let mut held = Vec::new();
    for last in 2..=25 {
        for _ in 0..10 {
            // The server may close it while it shakes hands.
            held.extend(mallory.tls_from([127, 0, 0, last], b"h2").await);
        }
    }
    server.still_serves().await;
    let event = timeout(SOON, watch.into_body().frame()).await.unwrap().unwrap().unwrap();
    assert!(String::from_utf8_lossy(event.data_ref().unwrap()).contains("alive-"));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_too_slow_is_cut_off() {
    let server = Server::start();
    let_in(&server).await;
    let mallory = server.client("mallory");
    let post = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{{"
    );
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut connection = mallory.one().await.unwrap();
        connection.write_all(post.as_bytes()).await.unwrap();
        slow.push(connection);
        let mut headers = mallory.one().await.unwrap();
        headers.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        slow.push(headers);
    }
    server.still_serves().await;
    for connection in slow.iter_mut().step_by(2) {
        let answer = until_hung_up(connection, b" ").await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    // Whoever may not write is told so before anything is read.
    let forbidden = post.replace("configmaps", "secrets");
    let answer = until_hung_up(&mut mallory.one().await.unwrap(), forbidden.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    server.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_grow_are_refused() {
    let server = Server::start();
    let_in(&server).await;
    let before = server.memory();
    let mut mallory = server.client("mallory").many().await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let head = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
    let bomb: String =
        (1..40).map(|n| format!("b{n}: &b{n} [{}]\n", vec![format!("*b{}", n - 1); 10].join(","))).collect();
    let nested =
        |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    let bodies = [
        ("POST", "application/json", format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20)), 413),
        ("POST", "application/json", nested("[", "]", 1_000_000), 400),
        ("POST", "application/json", nested("{\"a\":", "}", 500_000), 400),
        ("POST", "application/yaml", format!("{head}b0: &b0 x\n{bomb}"), 400),
        ("POST", "application/yaml", format!("{head}status: {}", nested("[", "]", 100_000)), 400),
        ("POST", "application/yaml", format!("{head}status: {}", nested("{a: ", "}", 100_000)), 400),
        (
            "POST",
            "application/yaml",
            format!(
                "{head}status:{}",
                (1..2000).map(|n| format!("\n{}a:", " ".repeat(n))).collect::<String>()
            ),
            400,
        ),
    ];
    for (method, media, body, expected) in &bodies {
        let (code, text) = send(&mut mallory, method, widgets, media, body).await;
        let text: String = text.chars().take(200).collect();
        assert_eq!(code, *expected, "{media} {}: {text}", body.chars().take(60).collect::<String>());
    }
    let (code, text) =
        send(&mut mallory, "POST", widgets, "application/yaml", &format!("{head}spec: {{size: S}}")).await;
    assert_eq!(code, 201, "{text}");
    // What can be read, and not once it is stored with the account of who owns what.
    let status = format!("{widgets}/w/status");
    for (levels, expected) in [(90, 200), (100, 400), (120, 400)] {
        let deep = format!(r#"{{"status":{}}}"#, nested("{\"a\":", "}", levels));
        let (code, text) = send(&mut mallory, "PATCH", &status, "application/merge-patch+json", &deep).await;
        assert_eq!(code, expected, "{levels} levels: {text}");
    }
    let none = r#"{"status":null}"#;
    assert_eq!(send(&mut mallory, "PATCH", &status, "application/merge-patch+json", none).await.0, 200);
    // Patches that would make it as deep, or as large, as no request could be.
    let start = json!({"status": {"a": {}}}).to_string();
    assert_eq!(send(&mut mallory, "PATCH", &status, "application/merge-patch+json", &start).await.0, 200);
    let deeper: Vec<_> = (0..18)
        .map(|step| json!({"op": "copy", "from": "/status/a", "path": format!("/status{}", "/a".repeat(1 + (1 << step)))}))
        .collect();
    let (code, text) =
        send(&mut mallory, "PATCH", &status, "application/json-patch+json", &json!(deeper).to_string()).await;
    assert_eq!(code, 422, "{text}");
    let mut codes = Vec::new();
    for round in 0..6 {
        let larger = json!({"status": {format!("b{round}"): "x".repeat(1 << 20)}}).to_string();
        codes.push(send(&mut mallory, "PATCH", &status, "application/merge-patch+json", &larger).await.0);
    }
    assert!(codes.contains(&200) && codes.last() == Some(&413), "{codes:?}");
    // Steps that nest a little more each time.
    let mut code = 200;
    for round in 1..20 {
        let path = format!("/status{}", "/a".repeat(round * 10));
        let nest = json!([{"op": "add", "path": path, "value": serde_json::from_str::<serde_json::Value>(&nested("{\"a\":", "}", 10)).unwrap()}]);
        code = send(&mut mallory, "PATCH", &status, "application/json-patch+json", &nest.to_string()).await.0;
    }
    assert!((400..500).contains(&code), "{code}");
    let selector = format!("{widgets}?labelSelector=a%20in%20%28{}%29", "x%2C".repeat(3000));
    assert!(send(&mut mallory, "GET", &selector, "", "").await.0 < 500);
    server.still_serves().await;
    assert!(server.memory() < before + GROWN, "from {before} to {} MB", server.memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_lists_that_nobody_reads_cost_little() {
    let server = Server::start();
    let_in(&server).await;
    fill(&server, 12).await;
    let before = server.memory();
    let mallory = server.client("mallory");
    let (mut held, mut codes, mut connections) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut connection = mallory.many().await;
        for _ in 0..40 {
            let watch = open(&mut connection, "GET", &format!("{MAPS}?watch=1"), "", "").await;
            codes.push(watch.status().as_u16());
            held.push(watch);
        }
        connections.push(connection);
    }
    // What is made whole must not be large.
    let mut yaml = request("GET", MAPS, "", "");
    yaml.headers_mut().insert("accept", "application/yaml".parse().unwrap());
    let yaml = timeout(SOON, connections[0].send_request(yaml)).await.unwrap().unwrap();
    assert_eq!(yaml.status(), 400);
    let watches = codes.iter().filter(|code| **code == 200).count();
    assert_eq!(watches, LIMITS().watches, "and the rest is refused: {codes:?}");
    for (number, form) in
        ["", ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"]
            .iter()
            .cycle()
            .take(70)
            .enumerate()
    {
        let connection = &mut connections[number % 4];
        let mut list = request("GET", &format!("{MAPS}?includeObject=Object"), "", "");
        list.headers_mut().insert("accept", format!("application/json{form}").parse().unwrap());
        let list = timeout(SOON, connection.send_request(list)).await.unwrap().unwrap();
        assert!([200, 429].contains(&list.status().as_u16()), "{list:?}");
        held.push(list);
    }
    server.still_serves().await;
    assert!(server.memory() < before + GROWN, "from {before} to {} MB", server.memory());
    drop((held, connections));
    // One after the other, over a connection that is never read: it is cut, and with it what waits in it.
    let mut connection = mallory.one().await.unwrap();
    let many = format!("GET {MAPS} HTTP/1.1\r\nhost: x\r\n\r\n").repeat(200);
    connection.write_all(many.as_bytes()).await.unwrap();
    let files = server.files();
    let cut = async {
        while server.files() >= files {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, cut).await.expect("the connection is cut");
    drop(connection);
    server.still_serves().await;
    assert!(server.memory() < before + GROWN, "from {before} to {} MB", server.memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_to_a_large_object_are_not_kept_for_ever() {
    let server = Server::start();
    let_in(&server).await;
    fill(&server, 1).await;
    let before = server.memory();
    let mut mallory = server.client("mallory").many().await;
    for round in 0..300 {
        let patch = json!({"data": {"k": format!("{round}{}", "x".repeat(1 << 20))}}).to_string();
        let path = format!("{MAPS}/large-0");
        let (code, text) = send(&mut mallory, "PATCH", &path, "application/merge-patch+json", &patch).await;
        assert_eq!(code, 200, "{text}");
    }
    server.still_serves().await;
    assert!(server.memory() < before + GROWN, "from {before} to {} MB", server.memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_taken_back_are_forgotten() {
    let server = Server::start();
    let_in(&server).await;
    let before = server.memory();
    let mallory = server.client("mallory");
    let watch = format!("{MAPS}?watch=1");
    for _ in 0..10 {
        let mut connection = mallory.many().await;
        for number in 0..300 {
            if connection.ready().await.is_err() {
                break;
            }
            // Dropped at once, or when the answer has begun: the stream is reset.
            let response = connection.send_request(request("GET", &watch, "", ""));
            if number % 2 == 0 {
                drop(timeout(SOON, response).await.unwrap());
            }
        }
    }
    server.still_serves().await;
    let mut connection = mallory.many().await;
    let counts_no_longer = async {
        while open(&mut connection, "GET", &watch, "", "").await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, counts_no_longer).await.expect("what was taken back no longer counts");
    assert!(server.memory() < before + GROWN, "from {before} to {} MB", server.memory());
}

/// Mallory's requests wait for a webhook that never answers. She has only half of the seats, and bob is answered before any of
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_requests_hang_leaves_seats_to_others() {
    let server = Server::start();
    let_in(&server).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/hangs", silent.local_addr().unwrap());
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let hook = json!({
        "metadata": {"name": "hangs"},
        "webhooks": [{
            "name": "hangs.example.com", "rules": [rule], "clientConfig": {"url": url}, "timeoutSeconds": 30,
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let mut admin = server.client("admin").many().await;
    let (code, text) = send(&mut admin, "POST", hooks, "application/json", &hook.to_string()).await;
    assert_eq!(code, 201, "{text}");

    let mallory = server.client("mallory").many().await;
    let hanging: Vec<_> = (0..LIMITS().requests)
        .map(|number| {
            let (mut mallory, map) = (mallory.clone(), json!({"metadata": {"name": format!("m{number}")}}));
            tokio::spawn(async move {
                let request = request("POST", MAPS, "application/json", &map.to_string());
                mallory.send_request(request).await.map(|response| response.status())
            })
        })
        .collect();
    let mut asked = Vec::new();
    for _ in 0..LIMITS().seats / 2 {
        asked.push(timeout(SOON, silent.accept()).await.expect("as many as she has seats").unwrap());
    }
    let mut bob = server.client("bob").many().await;
    let (code, text) = send(&mut bob, "GET", MAPS, "", "").await;
    assert_eq!(code, 200, "{text}");
    assert!(hanging.iter().all(|request| !request.is_finished()), "bob has waited for mallory");
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    drop(asked);
}

/// Each request would take minutes if a list were searched once for each of its items.
#[tokio::test(flavor = "multi_thread")]
async fn long_lists_are_answered_in_time() {
    const ITEMS: usize = 20_000;
    let server = Server::start();
    let_in(&server).await;
    let mut mallory = server.client("mallory").many().await;
    let map = json!({"metadata": {"name": "owned"}}).to_string();
    assert_eq!(send(&mut mallory, "POST", MAPS, "application/json", &map).await.0, 201);
    let owner =
        |number: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": number.to_string()});
    let owners: Vec<_> = (0..ITEMS).map(owner).collect();
    let patch = json!({"metadata": {"ownerReferences": owners}}).to_string();
    for _ in 0..2 {
        let media = "application/strategic-merge-patch+json";
        let (code, text) = send(&mut mallory, "PATCH", &format!("{MAPS}/owned"), media, &patch).await;
        assert_eq!(code, 200, "{}", &text[..text.len().min(500)]);
    }

    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str, parts: serde_json::Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"parts": parts}})
            .to_string()
    };
    let wrong = widget("wrong", (0..ITEMS).map(|number| json!({"name": number})).collect());
    let (code, text) = send(&mut mallory, "POST", widgets, "application/json", &wrong).await;
    assert_eq!(code, 422);
    assert!(text.len() < 100_000, "an answer of {} bytes", text.len());

    let parts = |n: usize| (0..ITEMS).map(|number| json!({"name": format!("p{number}"), "n": n})).collect();
    let (code, text) =
        send(&mut mallory, "POST", widgets, "application/json", &widget("long", parts(1))).await;
    assert_eq!(code, 201, "{}", &text[..text.len().min(500)]);
    let path = format!("{widgets}/long");
    let (code, text) =
        send(&mut mallory, "PATCH", &path, "application/merge-patch+json", &widget("long", parts(2))).await;
    assert_eq!(code, 200, "{}", &text[..text.len().min(500)]);
    server.still_serves().await;
}

/// No rate of requests is reached: each is just expensive.
#[tokio::test(flavor = "multi_thread")]
async fn expensive_requests_use_up_the_cpu_time_of_their_client() {
    let server = Server::with_cpu_time(200);
    let_in(&server).await;
    let mut mallory = server.client("mallory").many().await;
    let data: serde_json::Map<_, _> =
        (0..20_000).map(|number| (format!("k{number}"), json!("value"))).collect();
    let map = json!({"metadata": {"name": "large"}, "data": data}).to_string();
    assert_eq!(send(&mut mallory, "POST", MAPS, "application/json", &map).await.0, 201);
    let mut codes = Vec::new();
    while codes.len() < 1000 && !codes.contains(&429) {
        let path = format!("{MAPS}/large");
        let patch = json!({"data": {"k0": codes.len().to_string()}}).to_string();
        codes.push(send(&mut mallory, "PATCH", &path, "application/merge-patch+json", &patch).await.0);
    }
    assert_eq!(codes.pop(), Some(429), "{codes:?}");
    assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
    let mut bob = server.client("bob").many().await;
    let map = json!({"metadata": {"name": "small"}}).to_string();
    assert_eq!(send(&mut bob, "POST", MAPS, "application/json", &map).await.0, 201, "others have theirs");
    server.still_serves().await;
}
