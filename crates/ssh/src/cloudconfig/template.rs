//! cloud-config may be a template that asks for what is known of the instance. Pure.

use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::Refused;

/// What a template may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) instance_id: String,
    pub(crate) hostname: String,
    /// What the Node of this machine must carry, so that it is known whose it is.
    pub(crate) provider_id: String,
}

impl Metadata {
    /// Under the names that cloud-init gives them for the NoCloud source.
    fn values(&self) -> Value {
        let Self { instance_id, hostname, provider_id } = self;
        let metadata = Value::from_pairs([
            ("instance_id", instance_id),
            ("instance-id", instance_id),
            ("local_hostname", hostname),
            ("local-hostname", hostname),
            ("hostname", hostname),
            ("provider_id", provider_id),
            ("provider-id", provider_id),
        ]);
        context! {
            ds => context! { meta_data => metadata },
            v1 => context! { instance_id, local_hostname => hostname, cloud_name => "unknown", platform => "nocloud" },
            instance_id,
            local_hostname => hostname,
        }
    }
}

/// The text, with what the template asks for in it. A text that does not say that it is a template is none.
pub(super) fn render(text: &str, metadata: &Metadata) -> Result<String, Refused> {
    let Some((header, body)) = text.split_once('\n') else { return Ok(text.to_owned()) };
    let is_template = header
        .trim()
        .strip_prefix("##")
        .and_then(|rest| rest.trim_start().strip_prefix("template:"))
        .is_some_and(|kind| kind.trim() == "jinja");
    if !is_template {
        return Ok(text.to_owned());
    }
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.render_str(body, metadata.values()).map_err(|error| {
        // Its own words may repeat the template: only their sort and place are told.
        let line = error.line().map(|line| format!(" in line {}", line + 1)).unwrap_or_default();
        Refused::new(format!(
            "the template of the bootstrap data cannot be filled in: {}{line}",
            error.kind()
        ))
    })
}
