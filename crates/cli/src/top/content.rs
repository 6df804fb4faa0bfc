//! The loaded content of a view, and how it is shown. Pure.

use capstan_ui::model::{ClusterPage, Fleet, HostPage, Hosts, MachinePage};
use jiff::Timestamp;

use super::page::{Body, Paint, Shown, TextLine, matches, paragraph};
use super::{details, tables};
use crate::ui::Machines;

/// What was loaded.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Nothing yet.
    Loading,
    Clusters(Fleet),
    Machines(Box<Machines>),
    Hosts(Hosts),
    Cluster(Box<ClusterPage>),
    Machine(Box<MachinePage>),
    Host(Box<HostPage>),
    /// There is no such object, or it may not be read: why, for people.
    Absent(String),
}

/// The content as it fits a screen of this width, as far as the filter wants it.
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
