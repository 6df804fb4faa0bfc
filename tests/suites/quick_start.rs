//! The quick start on simulated hosts, as printed; and that the book is whole.

use std::path::Path;

use capstan_tests::{Surroundings, follow};

#[tokio::test]
async fn on_simulated_hosts() {
    let printed = follow("simulated.md", Surroundings::Nothing).await.unwrap();
    for expected in ["the same machines", "v1.36.0+k3s1", "cluster.cluster.x-k8s.io/first condition met"] {
        assert!(printed.contains(expected), "{printed}");
    }
}

#[test]
fn every_page_of_the_book_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let links: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        assert!(docs.join(link).exists(), "docs/SUMMARY.md names {link}, which is not there");
    }
}
