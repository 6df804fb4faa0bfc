//! cloud-config templates, which may contain properties of the instance. Pure.
//!
//! An author of bootstrap data may lack the permission to stop the manager. So a template cannot produce more text than
//! it contains: it has conditions and values, and no loops, variables, macros or repetition.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context, filters};

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
    check(body)?;
    environment().render_str(body, metadata.values()).map_err(|error| not_rendered(&error))
}

/// Filters that make a text no longer, and `replace` up to a limit. Nothing else of the language's library.
fn environment<'source>() -> Environment<'source> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("default", filters::default);
    environment.add_filter("first", filters::first);
    environment.add_filter("last", filters::last);
    environment.add_filter("lower", filters::lower);
    environment.add_filter("trim", filters::trim);
    environment.add_filter("upper", filters::upper);
    environment.add_filter("replace", replace);
    environment
}

/// The longest text that `replace` makes. Host names and addresses are what it is used for.
const MOST_REPLACED: usize = 4096;

fn replace(value: &str, from: &str, to: &str) -> Result<String, Error> {
    let made = value.len().saturating_add(value.matches(from).count().saturating_mul(to.len()));
    if made > MOST_REPLACED {
        return Err(Error::new(ErrorKind::InvalidOperation, "replace makes too long a text"));
    }
    Ok(value.replace(from, to))
}

/// Refuses a template with a statement other than a condition, or with repetition.
///
/// Reads it with the lexer that renders it: a second reading could see the end of a tag elsewhere, for example in a string, and
/// miss what comes after it.
fn check(body: &str) -> Result<(), Refused> {
    let mut starts_statement = false;
    for token in tokenize(body, false, SyntaxConfig::default()) {
        let (token, span) = token.map_err(|error| not_rendered(&error))?;
        let refused = |what: &str| {
            let line = span.start_line.saturating_add(1);
            Refused::new(format!("the template of the bootstrap data in line {line}: {what}"))
        };
        if matches!(token, Token::Mul | Token::Pow) {
            return Err(refused("the operator * is not supported"));
        }
        if starts_statement && !matches!(token, Token::Ident("if" | "elif" | "else" | "endif")) {
            return Err(refused("only if, elif, else, endif, raw and endraw are supported as statements"));
        }
        starts_statement = matches!(token, Token::BlockStart);
    }
    Ok(())
}

/// The error's own words may repeat the template: only their sort and place are told.
fn not_rendered(error: &Error) -> Refused {
    let line = error.line().map(|line| format!(" in line {}", line + 1)).unwrap_or_default();
    Refused::new(format!("the template of the bootstrap data cannot be filled in: {}{line}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(body: &str) -> Result<String, String> {
        let metadata = Metadata {
            instance_id: "i".to_owned(),
            hostname: "web-0.example".to_owned(),
            provider_id: "p".to_owned(),
        };
        render(&format!("## template: jinja\n{body}"), &metadata).map_err(|error| error.to_string())
    }

    #[test]
    fn values_conditions_and_text_are_filled_in() {
        for (body, expected) in [
            ("a {{ ds.meta_data.local_hostname }} b", "a web-0.example b"),
            ("{{ local_hostname | upper }}", "WEB-0.EXAMPLE"),
            ("{{ local_hostname | replace('.', '-') }}", "web-0-example"),
            ("{% if v1.platform == 'nocloud' %}x{% else %}y{% endif %}", "x"),
            ("{%- raw %}{{ a * b }}{% for %}{% endraw %}z", "{{ a * b }}{% for %}z"),
            ("no tag: 2 * 3, {x}, 100 %}", "no tag: 2 * 3, {x}, 100 %}"),
        ] {
            assert_eq!(rendered(body).as_deref(), Ok(expected), "{body}");
        }
    }

    #[test]
    fn a_template_cannot_make_more_text_than_is_in_it() {
        let long = format!("{{{{ local_hostname | replace('e', '{}') }}}}", "x".repeat(4096));
        for (body, why) in [
            (
                "{% for a in [1, 2] %}{% for b in [1, 2] %}x{% endfor %}{% endfor %}",
                "in line 2: only if, elif",
            ),
            ("\n{%- set a = 'x' %}", "in line 3: only if, elif"),
            ("{% macro f() %}{{ f() }}{% endmacro %}", "only if, elif"),
            ("{{ 'x' * 1000000000 }}", "the operator * is not supported"),
            ("{{ 'x' | indent(1000000000) }}", "cannot be filled in"),
            ("{{ range(1000000000) }}", "cannot be filled in"),
            ("{{ '}}' ~ 'x' * 1000 }}", "the operator * is not supported"),
            ("{{ '}}{% raw' }}{% for a in [1, 2] %}x{% endfor %}", "only if, elif"),
            ("{# {% raw %} #}{% set a = 1 %}", "only if, elif"),
            ("{%}{{ a }}", "only if, elif"),
            ("{%", "cannot be filled in"),
            (long.as_str(), "cannot be filled in"),
        ] {
            let refused = rendered(body).expect_err(body);
            assert!(refused.contains(why), "{body}: {refused}");
        }
    }
}
