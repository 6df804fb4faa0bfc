//! `capstan generate cluster`: manifests from a template.
//!
//! A flag goes before the environment, the environment before the template's default, as with clusterctl.

use anyhow::{Context, Result};
use capstan_template::Template;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::args::GenerateClusterArgs;

/// The template that comes with Capstan.
pub(crate) const BUILT_IN: &str = include_str!("../../../templates/cluster-template.yaml");

pub(crate) fn cluster(args: &GenerateClusterArgs) -> Result<()> {
    let text = match &args.from {
        None => BUILT_IN.to_owned(),
        Some(path) => read(path)?,
    };
    let origin = args.from.as_deref().map_or_else(|| "the built-in template".into(), Path::to_string_lossy);
    let template = Template::parse(&text).with_context(|| format!("cannot parse {origin}"))?;
    let out = match args.list_variables {
        true => list(&template),
        false => {
            let flags = flags(args);
            let environment = |name: &str| std::env::var(name).ok();
            template.render(|name| flags(name).or_else(|| environment(name)))?
        }
    };
    match &args.write_to {
        Some(path) => std::fs::write(path, out).with_context(|| format!("cannot write {}", path.display())),
        None => std::io::stdout().write_all(out.as_bytes()).map_err(Into::into),
    }
}

fn read(path: &Path) -> Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What flags say of the variables every template knows.
fn flags(args: &GenerateClusterArgs) -> impl Fn(&str) -> Option<String> {
    |name| match name {
        "CLUSTER_NAME" => args.name.clone(),
        "NAMESPACE" => Some(args.target_namespace.clone()),
        "KUBERNETES_VERSION" => args.kubernetes_version.clone(),
        "CONTROL_PLANE_MACHINE_COUNT" => args.control_plane_machine_count.map(|count| count.to_string()),
        "WORKER_MACHINE_COUNT" => args.worker_machine_count.map(|count| count.to_string()),
        _ => None,
    }
}

fn list(template: &Template) -> String {
    let variables = template.variables();
    let (optional, required): (Vec<_>, Vec<_>) = variables.iter().partition(|(_, default)| default.is_some());
    let mut text = String::new();
    for (title, variables) in [("Required Variables", required), ("Optional Variables", optional)] {
        if !variables.is_empty() {
            // Writing to a String cannot fail.
            _ = writeln!(text, "{title}:");
        }
        for (name, default) in variables {
            match default {
                Some(default) => _ = writeln!(text, "  - {name}  (defaults to {default})"),
                None => _ = writeln!(text, "  - {name}"),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::args::{Args, Generate, Verb};
    use clap::Parser;

    fn parsed(words: &[&str]) -> GenerateClusterArgs {
        match Args::try_parse_from([&["capstan", "generate", "cluster"], words].concat()).unwrap().verb {
            Verb::Generate(Generate::Cluster(args)) => args,
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_built_in_template_renders_from_flags_alone() {
        let args = parsed(&["demo", "--kubernetes-version", "v1.36.1+k3s1", "--worker-machine-count=3"]);
        let rendered = Template::parse(BUILT_IN).unwrap().render(flags(&args)).unwrap();
        assert!(rendered.contains("name: demo-control-plane\n"), "{rendered}");
        assert!(rendered.contains("version: v1.36.1+k3s1\n") && rendered.contains("replicas: 3\n"));
        assert!(!rendered.contains("${"), "{rendered}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = Template::parse(BUILT_IN).unwrap().render(flags(&parsed(&["demo"]))).unwrap_err();
        assert!(error.to_string().contains("[KUBERNETES_VERSION]"), "{error}");
    }

    #[test]
    fn variables_are_listed_by_need() {
        let text = list(&Template::parse("${B:=b} ${A}").unwrap());
        assert_eq!(text, "Required Variables:\n  - A\nOptional Variables:\n  - B  (defaults to b)\n");
    }
}
