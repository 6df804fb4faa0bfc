//! The web view in a real browser: every page, live updates, actions with and without rights, hostile text, a large fleet,
//! a phone, the keyboard, contrast in both colour schemes.
//!
//! `CAPSTAN_SCREENSHOTS` names a folder to write pictures for the documentation to.

#![cfg(test)]

mod browser;
mod view;

use std::time::Duration;

use anyhow::ensure;
use capstan_testkit::eventually;
use capstan_tests::{Embedded, capstan, kubectl, simulated_hosts};
use serde_json::json;

use browser::Browser;
use view::View;

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";

fn cluster(version: &str) -> String {
    named("shop", version, "2")
}

fn named(name: &str, version: &str, workers: &str) -> String {
    let version = ["--kubernetes-version", version];
    let size = ["--control-plane-machine-count", "1", "--worker-machine-count", workers];
    capstan(&[&["generate", "cluster", name], &version[..], &size[..]].concat()).unwrap()
}

/// Relative luminance of a page's background and of its text, as WCAG defines it.
const LIGHTNESS: &str = r#"
    const style = getComputedStyle(document.body);
    const luminance = (colour) => {
        const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
            const share = Number(part) / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    return [luminance(style.backgroundColor), luminance(style.color)];
"#;

/// One test, because the parts need the same cluster, and it takes a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_watched_changed_and_previewed() {
    let view = View::with_controllers(&["--ui-allow-actions"]).await;
    let browser = Browser::start().await.unwrap();
    browser.open(&view.link).await;
    browser.shows("There is no cluster yet.").await;
    view.apply(&format!("{}---\n{}", simulated_hosts(6), cluster(OLD))).await;

    // Live: the page is never loaded again, and shows the cluster.
    browser.mark().await;
    browser.shows("shop").await;
    browser.shows("available").await;
    eventually(DEADLINE, "the cluster to be available on the page", async || {
        let text = browser.text("table.rows").await?;
        ensure!(text.contains("1/1") && text.contains("2/2") && text.contains(OLD), "{text}");
        Ok(())
    })
    .await
    .unwrap();
    assert!(browser.is_marked().await, "the page was loaded again");

    browser.follow("shop").await;
    for text in [
        "Nothing waits: the cluster is available.",
        "ControlPlane - CapstanControlPlane/shop-control-plane",
        "Rollouts",
        "No rollout is in progress.",
        "First start of Kubernetes v1.36.0",
    ] {
        browser.shows(text).await;
    }
    browser.picture("ui-cluster").await;
    let cluster_page = browser.address().await;

    // A plan is previewed, and nothing is changed by that.
    browser.follow("Plan preview").await;
    browser.fill("#manifests", &cluster(NEW)).await;
    browser.press("main form button").await;
    browser.shows("This would change something").await;
    for text in ["spec.version", OLD, NEW, "keeps its host"] {
        browser.shows(text).await;
    }
    browser.picture("ui-plan").await;
    assert!(view.kubectl(&["get", "machines", "-o", "jsonpath={.items[*].spec.version}"]).contains(OLD));

    // The rollout is seen live on the cluster's page.
    browser.open(&cluster_page).await;
    browser.mark().await;
    view.apply(&cluster(NEW)).await;
    // The rollout in progress, and what it has done with each machine.
    browser.shows("rolls out v1.36.1").await;
    browser.shows(&format!("machines on {NEW}")).await;
    browser.shows("Kubernetes v1.36.0+k3s1 to v1.36.1+k3s1").await;
    eventually(DEADLINE, "the page to show the new version alone", async || {
        let text = browser.text("main").await?;
        ensure!(!text.contains(&format!("machines on {OLD}")), "{text}");
        Ok(())
    })
    .await
    .unwrap();
    assert!(browser.is_marked().await, "the page was loaded again");

    // A machine, and an action on it.
    let machine = view.kubectl(&[
        "get",
        "machines",
        "-l",
        "cluster.x-k8s.io/deployment-name",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ]);
    browser.follow_containing(&machine).await;
    for text in [
        "Plan",
        "revision",
        "ready",
        "Operating system",
        "kubelet",
        "to v1.36.1",
        "Earlier plans",
        "First start of Kubernetes v1.36.0",
        "items that a reset takes back",
    ] {
        browser.shows(text).await;
    }
    browser.picture("ui-machine").await;
    browser.follow_containing("Hold changes back").await;
    browser.shows("Capstan writes no further plan for this machine").await;
    browser.press("#confirm").await;
    browser.shows("Done").await;
    let held = view.kubectl(&[
        "get",
        "machine",
        &machine,
        "-o",
        r"jsonpath={.metadata.annotations.capstan\.dev/hold}",
    ]);
    assert_eq!(held, "set in the web view");

    browser.follow("Hosts").await;
    browser.shows("Claimed").await;

    // A cluster with more machines than there are hosts: the one that waits is named, with who must act.
    view.apply(&named("bank", NEW, "3")).await;
    browser.follow("Fleet").await;
    browser.mark().await;
    browser.shows("NoHostAvailable").await;
    browser.shows("Who must act: you: add a host").await;
    assert!(browser.is_marked().await, "the page was loaded again");
    browser.picture("ui-fleet").await;
    browser.follow("bank").await;
    eventually(DEADLINE, "the hand-off that waits to be marked", async || {
        let waits = browser.text("[aria-current=step]").await?;
        ensure!(waits.contains("host claimed") && waits.contains("NoHostAvailable"), "{waits}");
        Ok(())
    })
    .await
    .unwrap();
    browser.picture("ui-waiting").await;
    browser.is_clean().await;
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_needs_the_flag_and_the_callers_own_rights() {
    let plane = Embedded::start().await.unwrap();
    let admin = plane.kubeconfig();
    view::apply(&admin, &json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
        "metadata": {"name": "rack-1", "namespace": "default"},
        "spec": {"simulated": {}, "quarantine": {"reason": "NotClean", "message": "files are left in /var/lib"}},
    })).await;
    let reader = view::reader(&admin).await;

    let browser = Browser::start().await.unwrap();
    let read_only = View::beside(&admin, &[]);
    browser.open(&read_only.link().await).await;
    browser.follow_titled("rack-1: not checked yet").await;
    browser.shows("files are left in /var/lib").await;
    assert!(
        !browser.text("main").await.unwrap().contains("End the quarantine"),
        "an action is offered without the flag"
    );
    let confirm = "/confirm?action=end-quarantine&kind=Host&namespace=default&name=rack-1";
    browser.open(&read_only.at(confirm).await).await;
    browser.shows("Start it with --allow-actions").await;

    let without_rights = View::beside(&reader, &["--allow-actions"]);
    browser.open(&without_rights.link().await).await;
    browser.follow_titled("rack-1: not checked yet").await;
    browser.follow_containing("End the quarantine").await;
    browser.press("#confirm").await;
    browser.shows("Not permitted").await;
    let quarantine = ["get", "host", "rack-1", "-o", "jsonpath={.spec.quarantine.reason}"];
    assert_eq!(kubectl(&admin, &quarantine, "").unwrap(), "NotClean");

    // The host is quarantined for another reason before the person confirms what was read.
    let with_rights = View::beside(&admin, &["--allow-actions"]);
    browser.open(&with_rights.link().await).await;
    browser.follow_titled("rack-1: not checked yet").await;
    browser.follow_containing("End the quarantine").await;
    let changed = r#"{"spec":{"quarantine":{"reason":"DiskFails"}}}"#;
    kubectl(&admin, &["patch", "host", "rack-1", "--type=merge", "-p", changed], "").unwrap();
    browser.press("#confirm").await;
    browser.shows("the object has been modified").await;
    assert_eq!(kubectl(&admin, &quarantine, "").unwrap(), "DiskFails");

    browser.follow("Hosts").await;
    browser.follow("rack-1").await;
    browser.shows("DiskFails").await;
    browser.follow_containing("End the quarantine").await;
    browser.press("#confirm").await;
    browser.shows("Done").await;
    assert_eq!(kubectl(&admin, &quarantine, "").unwrap(), "");

    // Another browser with the same link gets nothing.
    let stranger = Browser::start().await.unwrap();
    stranger.open(&with_rights.link().await).await;
    stranger.shows("Login link is not valid").await;
    stranger.end().await;
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_hostile_machine_stays_text() {
    const HOSTILE: &str = r#"</pre><script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">"#;
    let plane = Embedded::start().await.unwrap();
    let admin = plane.kubeconfig();
    let planted = view::plant(&admin, HOSTILE).await;
    let view = View::beside(&admin, &[]);
    let browser = Browser::start().await.unwrap();
    browser.open(&view.link().await).await;
    let pages =
        ["/", "/clusters/default/shop", "/machines/default/shop-0", "/hosts", "/hosts/default/rack-1"];
    let mut seen = String::new();
    for page in pages {
        browser.open(&view.at(page).await).await;
        browser.shows("window.pwned = 1").await;
        is_only_text(&browser, page).await;
        seen += browser.run("return document.body.textContent").await.as_str().unwrap();
    }
    let missing: Vec<usize> =
        (1..=planted).filter(|number| !seen.contains(&format!("planted{number}."))).collect();
    assert!(missing.is_empty(), "no page shows the planted texts {missing:?}");

    // The preview shows the text of manifests, what the server says of it, and the text itself.
    browser.open(&view.at("/plan").await).await;
    let quoted = json!(HOSTILE).to_string();
    let manifests = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{k: {quoted}}}}}\n---\n\
         {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {quoted}}}}}\n"
    );
    browser.fill("#manifests", &manifests).await;
    browser.press("main form button").await;
    browser.shows("This would be refused").await;
    is_only_text(&browser, "/plan").await;

    // The longest texts there are, on a phone, and in both colour schemes.
    browser.resize(360, 740).await;
    for page in pages {
        browser.open(&view.at(page).await).await;
        browser.shows("window.pwned = 1").await;
        assert!(browser.fits().await, "{page} is wider than a phone");
        for scheme in ["light", "dark"] {
            browser.prefer(scheme).await;
            let faint = browser.faint_texts().await;
            assert!(faint.is_empty(), "{page}, {scheme}: these texts have too little contrast: {faint:#?}");
        }
    }
    browser.is_clean().await;
    browser.end().await;
}

/// Fails if the page has run a script of its content, or contains an element of it.
async fn is_only_text(browser: &Browser, page: &str) {
    assert!(browser.run("return typeof window.pwned").await == "undefined", "{page} ran a script");
    let elements = browser.run("return document.querySelectorAll('main script, main img').length").await;
    assert!(elements == 0, "{page} has elements of its content");
}

/// Every page and every action is reached without a pointer, and what has the focus is marked.
#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_is_enough() {
    let plane = Embedded::start().await.unwrap();
    let admin = plane.kubeconfig();
    view::apply(&admin, &json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
        "metadata": {"name": "rack-1", "namespace": "default"},
        "spec": {"simulated": {}, "quarantine": {"reason": "NotClean", "message": "files are left in /var/lib"}},
    })).await;
    let view = View::beside(&admin, &["--allow-actions"]);
    let browser = Browser::start().await.unwrap();
    browser.open(&view.link().await).await;
    browser.shows("rack-1").await;
    // The first stop leads past the head of the page.
    assert_eq!(browser.tab().await, "Skip to content");
    browser.key("\n").await;
    assert!(browser.run("return document.activeElement.id === 'main'").await == true);
    browser.tab_to("rack-1: not checked yet").await;
    browser.key("\n").await;
    browser.shows("files are left in /var/lib").await;
    browser.tab_to("End the quarantine: Host rack-1").await;
    browser.key("\n").await;
    browser.shows("The host can be claimed by a new machine").await;
    browser.tab_to("End the quarantine").await;
    browser.key("\n").await;
    browser.shows("Done").await;
    let quarantine = ["get", "host", "rack-1", "-o", "jsonpath={.spec.quarantine.reason}"];
    assert_eq!(kubectl(&admin, &quarantine, "").unwrap(), "");
    for (section, shown) in
        [("Hosts", "Problem and remedy"), ("Plan preview", "Show the plan"), ("Fleet", "Clusters")]
    {
        browser.tab_to(section).await;
        browser.key("\n").await;
        browser.shows(shown).await;
    }
    browser.is_clean().await;
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clusters_are_paged_and_a_phone_is_wide_enough() {
    let plane = Embedded::start().await.unwrap();
    let admin = plane.kubeconfig();
    let cluster = |number: usize| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": format!("edge-{number:04}"), "namespace": "default"},
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostCluster", "name": "edge"}},
        })
    };
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": (0..1000).map(cluster).collect::<Vec<_>>()});
    view::apply(&admin, &list).await;
    let view = View::beside(&admin, &[]);
    let browser = Browser::start().await.unwrap();
    browser.open(&view.link().await).await;
    browser.shows("Page 1 of 20 (1000 in total)").await;
    assert_eq!(browser.run("return document.querySelectorAll('table.rows tbody tr').length").await, 50);
    let bytes = browser.run("return document.documentElement.outerHTML.length").await;
    assert!(bytes.as_u64().unwrap() < 100_000, "{bytes}");
    browser.follow("Next").await;
    browser.shows("edge-0099").await;
    // By keyboard: "/" goes to the filter.
    browser.key("/").await;
    browser.type_text("edge-0777\n").await;
    browser.shows("edge-0777").await;
    assert_eq!(browser.run("return document.querySelectorAll('table.rows tbody tr').length").await, 1);

    browser.resize(360, 740).await;
    for page in ["/", "/hosts", "/plan", "/clusters/default/edge-0777"] {
        browser.open(&view.at(page).await).await;
        browser.shows("Capstan").await;
        assert!(browser.fits().await, "{page} is wider than a phone");
    }
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        let lightness = browser.run(LIGHTNESS).await;
        let (back, text) = (lightness[0].as_f64().unwrap(), lightness[1].as_f64().unwrap());
        assert_eq!(back < text, scheme == "dark", "{scheme}: background {back}, text {text}");
        // The least contrast that WCAG asks for.
        let contrast = (back.max(text) + 0.05) / (back.min(text) + 0.05);
        assert!(contrast >= 4.5, "{scheme}: contrast {contrast}");
    }
    browser.is_clean().await;
    browser.end().await;
}
