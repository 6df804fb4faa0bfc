//! What is committed in `config/admission` is what the code says.

use capstan_webhooks::manifest;
use std::path::Path;

#[test]
fn the_manifest_is_up_to_date() {
    let mut text = format!(
        "# The plane calls the admission webhooks of the core provider. The manager needs in addition:\n#   {}\n",
        manifest::arguments().join("\n#   ")
    );
    for object in manifest::objects() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object).expect("YAML"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/admission/webhooks.yaml");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let committed = std::fs::read_to_string(&path).expect("config/admission/webhooks.yaml");
    assert!(committed == text, "run it with UPDATE_GOLDEN=1 and commit config/admission/webhooks.yaml");
}
