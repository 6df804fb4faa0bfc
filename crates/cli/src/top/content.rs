//! The loaded content of a view, and how it is shown. Pure.

use capstan_ui::model::{ClusterPage, Fleet, HostPage, Hosts, MachinePage};
use jiff::Timestamp;

use super::page::{Body, Paint, Shown, TextLine, matches, paragraph};
use super::{details, tables};
use crate::ui::Machines;

/// Loaded content.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing is loaded yet.
    Loading,
    Clusters(Fleet),
    Machines(Box<Machines>),
    Hosts(Hosts),
    Cluster(Box<ClusterPage>),
    Machine(Box<MachinePage>),
    Host(Box<HostPage>),
    /// The object does not exist or may not be read: the reason, for people.
    Absent(String),
}

/// The content for a screen of this width, filtered.
pub(super) fn shown(content: &Content, filter: &str, width: usize, now: Timestamp) -> Shown {
    let mut shown = match content {
        Content::Loading => Shown::text(vec![TextLine::at(1).with("Loading…", Paint::Dim)]),
        Content::Clusters(fleet) => tables::clusters(fleet, filter, now),
        Content::Machines(machines) => tables::machines(machines, filter, now),
        Content::Hosts(hosts) => tables::hosts(hosts, filter),
        Content::Cluster(page) => details::cluster(page, width, now),
        Content::Machine(page) => details::machine(page, width, now),
        Content::Host(page) => details::host(page, width, now),
        Content::Absent(why) => Shown::text(paragraph(1, why, Paint::Plain, width)),
    };
    if let Body::Text(lines) = &mut shown.body {
        lines.retain(|line| matches(&line.text(), filter));
    }
    shown
}
