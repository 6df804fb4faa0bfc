//! Templates. Every value is escaped by the engine: no template marks a value as safe, which a test checks.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

/// Templates by name.
pub(crate) const TEMPLATES: [(&str, &str); 10] = [
    ("page.html", include_str!("../templates/page.html")),
    ("parts.html", include_str!("../templates/parts.html")),
    ("fleet.html", include_str!("../templates/fleet.html")),
    ("cluster.html", include_str!("../templates/cluster.html")),
    ("machine.html", include_str!("../templates/machine.html")),
    ("hosts.html", include_str!("../templates/hosts.html")),
    ("host.html", include_str!("../templates/host.html")),
    ("preview.html", include_str!("../templates/preview.html")),
    ("confirm.html", include_str!("../templates/confirm.html")),
    ("message.html", include_str!("../templates/message.html")),
];

/// Renders pages.
#[derive(Debug)]
pub(crate) struct Renderer(Environment<'static>);

impl Renderer {
    /// # Errors
    /// If a template is malformed.
    pub(crate) fn new() -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        for (name, text) in TEMPLATES {
            environment.add_template(name, text)?;
        }
        Ok(Self(environment))
    }

    /// # Errors
    /// If the template names a value that is not there.
    pub(crate) fn page(&self, template: &str, content: impl Serialize) -> Result<String, minijinja::Error> {
        self.0.get_template(template)?.render(Serde(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_template_prints_a_value_without_escaping_it() {
        for (name, text) in TEMPLATES {
            assert!(!text.contains("|safe") && !text.contains("| safe"), "{name} marks a value as safe");
            assert!(!text.contains("autoescape"), "{name} switches escaping off");
            for forbidden in [" style=", " onclick=", " onload=", "<script>", "javascript:"] {
                assert!(
                    !text.contains(forbidden),
                    "{name} has {forbidden}: the content security policy forbids it"
                );
            }
        }
        Renderer::new().expect("templates");
    }
}
