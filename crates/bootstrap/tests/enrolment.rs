//! Enrolment on a real API server.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod support;

use capstan_testkit::RealPlane;
use kube::client::ClientBuilder;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use support::{Address, Stage, story};

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_enrols_renews_and_loses_its_rights() {
    let plane = RealPlane::start().await.unwrap();
    let stage = Stage::new(plane.client(), Address::of(&plane), "default").await;
    Box::pin(story::story(&stage)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_it_goes_on() {
    let plane = RealPlane::start().await.unwrap();
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let stage = Stage::new(plane.client(), Address::of(&plane), "crash").await;
    let connect =
        |crash_point: &_| ClientBuilder::try_from(config.clone()).unwrap().with_layer(crash_point).build();
    Box::pin(story::killed_at_any_write(&stage, connect)).await;
}
