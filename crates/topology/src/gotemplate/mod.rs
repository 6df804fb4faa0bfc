//! Go templates: `text/template` with the functions of sprig that upstream allows in ClusterClasses.
//!
//! The language is the crate `gotmpl`. This module adds what it leaves open: sprig's functions, Go's text of numbers,
//! fuel for every step, and a limit of the output, because a template is written by a user and runs in a controller.
//! Templates see JSON, and every number is a `float64`, as upstream. Functions that are not supported are named in
//! [`functions::UNSUPPORTED`], and their use is an error before the template runs.
//!
//! Known difference: a field of a null is a null here and an error in Go.

mod format;
mod fuel;
mod functions;
mod rewrite;
mod value;

use gotmpl::parse::Parser;
use gotmpl::{MissingKey, Template};
use serde_json::Value as Json;

pub(crate) use value::Data;

/// The longest template, in bytes. CRDs allow 10,240 characters.
const MOST_TEXT: usize = 64 << 10;
/// The most rounds of all loops of one rendering.
const MOST_ROUNDS: u64 = 10_000;
/// The longest result, in bytes.
pub(crate) const MOST_OUTPUT: usize = 1 << 20;
/// The name of the main template. It cannot be written in a template that defines others by accident.
const MAIN: &str = "\u{0}main";

/// Why a template has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is not a template.
    #[error("template cannot be parsed: {0}")]
    Syntax(String),
    /// The template is too long.
    #[error("template is longer than {} bytes", MOST_TEXT)]
    TooLong,
    /// There is no such function.
    #[error("function {0:?} is not defined")]
    UnknownFunction(String),
    /// sprig has the function, but its result depends on the environment, the time or chance.
    #[error("function {0:?} cannot be used here: its result depends on the environment")]
    Hermetic(String),
    /// sprig has the function, but Capstan does not.
    #[error("function {name:?} is not supported: {why}")]
    UnsupportedFunction {
        /// Name of the function.
        name: String,
        /// Why it is not supported.
        why: &'static str,
    },
    /// The template failed while it was rendered.
    #[error("template cannot be rendered: {0}")]
    Failed(String),
    /// The result is too long.
    #[error("template cannot be rendered: the result is longer than {} bytes", MOST_OUTPUT)]
    OutputTooLong,
    /// The template takes too many steps.
    #[error("template cannot be rendered: it takes too many steps")]
    TooManySteps,
    /// The result is neither YAML nor JSON.
    #[error("result of the template is not YAML: {0}")]
    Yaml(String),
}

/// Which functions a template can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Templates of values: sprig. A missing key is a null.
    Values,
    /// Templates of names: only Go's own functions. A missing key is an error.
    Names,
}

/// Whether the text is a template that uses only supported functions.
///
/// # Errors
/// If it is not.
pub(crate) fn check(text: &str) -> Result<(), TemplateError> {
    prepare(text, Dialect::Values, &fuel::Fuel::full()).map(drop)
}

/// Renders a template.
///
/// # Errors
/// If the text is not a template, or it fails.
pub(crate) fn render(text: &str, data: &Data, dialect: Dialect) -> Result<String, TemplateError> {
    let fuel = fuel::Fuel::full();
    let template = prepare(text, dialect, &fuel)?;
    let mut output = fuel::Output::default();
    match template.execute_template_fmt(&mut output, MAIN, data.value()) {
        Ok(()) => Ok(output.text),
        Err(_) if output.is_full => Err(TemplateError::OutputTooLong),
        Err(_) if fuel.is_empty() => Err(TemplateError::TooManySteps),
        Err(gotmpl::TemplateError::RangeIterLimit | gotmpl::TemplateError::RecursionLimit) => {
            Err(TemplateError::TooManySteps)
        }
        Err(error) => Err(TemplateError::Failed(error.to_string())),
    }
}

/// Renders a template whose result is YAML.
///
/// # Errors
/// If the template fails, or the result is not YAML.
pub(crate) fn value(text: &str, data: &Data) -> Result<Json, TemplateError> {
    value::from_yaml(&render(text, data, Dialect::Values)?)
}

fn prepare(text: &str, dialect: Dialect, fuel: &fuel::Fuel) -> Result<Template, TemplateError> {
    if text.len() > MOST_TEXT {
        return Err(TemplateError::TooLong);
    }
    let syntax = |error: gotmpl::TemplateError| TemplateError::Syntax(error.to_string());
    let (body, defines) = Parser::new(text, "{{", "}}").and_then(Parser::parse).map_err(syntax)?;
    let missing = if dialect == Dialect::Names { MissingKey::Error } else { MissingKey::Invalid };
    let rewrite = rewrite::Rewrite { dialect };
    let mut template = Template::new(MAIN)
        .missing_key(missing)
        .max_range_iters(MOST_ROUNDS)
        .funcs(functions::all(dialect, fuel))
        .add_parse_tree(MAIN, rewrite.list(body)?);
    for define in defines {
        let is_new = template.lookup(&define.name).is_none_or(gotmpl::parse::ListNode::is_empty_tree);
        if define.body.is_empty_tree() && !is_new {
            continue;
        }
        if !is_new {
            return Err(TemplateError::Syntax(format!("template {:?} is defined twice", define.name)));
        }
        template = template.add_parse_tree(&define.name, rewrite.list(define.body)?);
    }
    Ok(template)
}

#[cfg(test)]
mod tests;
