//! A management cluster that only an HTTP proxy reaches.

use serde_json::json;

use crate::connect_proxy::{ConnectProxy, NAME};
use crate::stage::{Program, Stage, plan, sh};

/// Where the proxy is named.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Configuration,
    Kubeconfig,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_of_the_configuration_or_the_kubeconfig_is_used() {
    for place in [Place::Configuration, Place::Kubeconfig] {
        let stage = Stage::new(Program::ours()).await;
        let proxy = ConnectProxy::to(stage.bound).await;
        stage.change("connection.json", |connection| {
            let text = connection["kubeConfig"].as_str().unwrap();
            let mut kubeconfig: serde_json::Value = serde_json::from_str(text).unwrap();
            let cluster = &mut kubeconfig["clusters"][0]["cluster"];
            cluster["server"] = json!(format!("https://{NAME}:8443"));
            if place == Place::Kubeconfig {
                cluster["proxy-url"] = json!(proxy.url);
            }
            connection["kubeConfig"] = json!(kubeconfig.to_string());
        });
        stage.change("config.json", |config| {
            // What counts for the kubeconfig is what it says itself.
            let url = if place == Place::Configuration { proxy.url.as_str() } else { "http://127.0.0.1:9" };
            config["proxy"] =
                json!({"url": url, "noProxy": ["10.0.0.0/8"], "username": "edge", "password": "hunter2"});
        });
        // What an instruction inherits is another thing.
        let plan = plan(&json!([sh("first", "echo $INHERITED")]));
        stage.create(&[("plan", &plan)]).await;
        let agent = stage.start();
        stage.is_applied(&plan).await;
        let heads = proxy.heads();
        assert!(!heads.is_empty());
        let with_password = "\r\nProxy-Authorization: Basic ZWRnZTpodW50ZXIy\r\n";
        for head in &heads {
            assert!(head.starts_with(&format!("CONNECT {NAME}:8443 ")), "{head}");
            assert_eq!(head.contains(with_password), place == Place::Configuration, "{head}");
        }
        drop(agent);
        assert!(!stage.read("log").contains("hunter2"));
        stage.ends().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_cannot_be_used_is_refused_with_the_field() {
    let stage = Stage::new(Program::ours()).await;
    stage.change("config.json", |config| config["proxy"] = json!({"url": "http://me:hunter2@127.0.0.1:1"}));
    let mut agent = stage.start();
    let said = crate::stage::eventually("end", async || agent.has_ended().then(|| stage.read("log"))).await;
    assert!(said.contains("proxy.url must be") && !said.contains("hunter2"), "{said}");
    stage.ends().await;
}
