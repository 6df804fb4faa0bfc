//! One machine, host or cluster as lines of text. Pure.

use capstan_ui::model::{
    ClusterPage, ConditionList, Event, Fact, HandOff, HostPage, LedgerView, MachinePage, PlanProgress, Probe,
    Rollout, Tone, Waiting,
};
use jiff::Timestamp;

use super::page::{Paint, Shown, TextLine, ago, paragraph};
use super::safe::Safe;
use super::tables::counts;

/// Lines of the output of a machine that are shown, from the end.
const OUTPUT: usize = 20;
/// Width of the column of names.
const NAMES: usize = 28;

/// What lines are made for.
#[derive(Clone, Copy)]
struct Sheet {
    width: usize,
    now: Timestamp,
}

pub(super) fn machine(page: &MachinePage, width: usize, now: Timestamp) -> Shown {
    let sheet = Sheet { width, now };
    let head = TextLine::at(1)
        .with(&format!("{}/{}", page.namespace, page.name), Paint::Title)
        .with(&page.phase, Paint::Tone(page.tone))
        .with(&page.version, Paint::Plain)
        .with(&labelled("cluster", &page.cluster), Paint::Plain)
        .with(&labelled("host", page.host.as_deref().unwrap_or_default()), Paint::Plain)
        .with(&labelled("node", &page.node), Paint::Plain)
        .with(&labelled("last contact", &ago(page.contact.as_ref(), now)), Paint::Plain);
    let lines = [
        sheet.handoffs(&page.handoffs),
        page.plan.as_ref().map(|plan| sheet.plan(plan)).unwrap_or_default(),
        sheet.probes(&page.probes),
        page.ledger.as_ref().map(|ledger| sheet.ledger(ledger)).unwrap_or_default(),
        sheet.conditions(&page.conditions),
        facts(&page.facts),
        sheet.events(&page.events),
    ];
    Shown { summary: vec![head], ..Shown::text(lines.concat()) }
}

pub(super) fn host(page: &HostPage, width: usize, now: Timestamp) -> Shown {
    let (sheet, row) = (Sheet { width, now }, &page.row);
    let head = TextLine::at(1)
        .with(&format!("{}/{}", row.namespace, row.name), Paint::Title)
        .with(&row.state, Paint::Tone(row.tone))
        .with(&row.address, Paint::Plain)
        .with(&labelled("failure domain", &row.domain), Paint::Plain)
        .with(&labelled("cluster", &row.cluster), Paint::Plain)
        .with(&labelled("machine", &row.machine), Paint::Plain);
    let mut problem = Vec::new();
    if !row.reason.is_empty() {
        problem.push(heading("Problem"));
        problem.push(TextLine::at(2).with(&row.reason, Paint::Tone(row.tone)));
        problem.extend(paragraph(4, &row.problem, Paint::Plain, width));
    }
    let lines = [problem, facts(&page.facts), sheet.conditions(&page.conditions), sheet.events(&page.events)];
    Shown { summary: vec![head], ..Shown::text(lines.concat()) }
}

pub(super) fn cluster(page: &ClusterPage, width: usize, now: Timestamp) -> Shown {
    let (sheet, row) = (Sheet { width, now }, &page.row);
    let head = TextLine::at(1)
        .with(&format!("{}/{}", row.namespace, row.name), Paint::Title)
        .with(&row.health, Paint::Tone(row.tone))
        .with(&row.phase, Paint::Plain)
        .with(&row.version, Paint::Plain)
        .with(&labelled("control plane", &row.servers), Paint::Plain)
        .with(&labelled("workers", &row.workers), Paint::Plain)
        .with(&labelled("endpoint", &page.endpoint), Paint::Plain);
    let mut chain = Vec::new();
    if !page.chain.is_empty() {
        chain.push(heading("What waits"));
        for (depth, waits) in page.chain.iter().enumerate() {
            chain.push(TextLine::at(2 + 2 * depth).with(&waits.object, Paint::Plain));
            chain.extend(sheet.waits(waits, 4 + 2 * depth));
        }
    }
    let handoffs = match &page.machine {
        Some(machine) => {
            let title = TextLine::at(2).with(&format!("of Machine {machine}"), Paint::Dim);
            let mut lines = sheet.handoffs(&page.handoffs);
            if !lines.is_empty() {
                lines.insert(1, title);
            }
            lines
        }
        None => Vec::new(),
    };
    let versions = if page.versions.is_empty() { Vec::new() } else { vec![counts(&page.versions)] };
    let lines = [
        chain,
        handoffs,
        sheet.rollouts(page),
        sheet.conditions(&page.conditions),
        sheet.events(&page.events),
    ];
    Shown { summary: std::iter::once(head).chain(versions).collect(), ..Shown::text(lines.concat()) }
}

fn heading(text: &str) -> TextLine {
    TextLine::at(1).with(text, Paint::Title)
}

fn labelled(label: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{label} {value}") }
}

/// What a state is marked with, so that it is seen without colours too.
fn mark(state: &str) -> (&'static str, Paint) {
    match state {
        "done" | "healthy" => ("✓", Paint::Tone(Tone::Good)),
        "waiting" | "running" => ("▶", Paint::Tone(Tone::Waiting)),
        "failed" => ("✗", Paint::Tone(Tone::Bad)),
        _ => ("·", Paint::Dim),
    }
}

fn facts(facts: &[Fact]) -> Vec<TextLine> {
    let line =
        |fact: &Fact| TextLine::at(2).column(&fact.label, Paint::Dim, NAMES).with(&fact.value, Paint::Plain);
    section("Facts", facts.iter().map(line).collect())
}

/// Lines below a title; nothing where there are none.
fn section(title: &str, lines: Vec<TextLine>) -> Vec<TextLine> {
    if lines.is_empty() { lines } else { std::iter::once(heading(title)).chain(lines).collect() }
}

impl Sheet {
    fn handoffs(self, handoffs: &[HandOff]) -> Vec<TextLine> {
        let lines = handoffs.iter().flat_map(|handoff| {
            let (mark, paint) = mark(&handoff.state);
            let what = if handoff.state == "waiting" { paint } else { Paint::Plain };
            let line = TextLine::at(2)
                .with(mark, paint)
                .column(&handoff.what, what, NAMES)
                .with(&handoff.object, Paint::Dim);
            let waits = handoff.waiting.as_ref().map(|waits| self.waits(waits, 6)).unwrap_or_default();
            std::iter::once(line).chain(waits)
        });
        section("Hand-offs", lines.collect())
    }

    /// Reason, since when, message and who must act.
    fn waits(self, waits: &Waiting, indent: usize) -> Vec<TextLine> {
        let since = labelled("for", &ago(waits.since.as_ref(), self.now));
        let mut lines = vec![
            TextLine::at(indent).with(&waits.reason, Paint::Tone(Tone::Waiting)).with(&since, Paint::Plain),
        ];
        lines.extend(paragraph(indent, &waits.message, Paint::Plain, self.width));
        let actor = labelled("Who must act:", &waits.owner);
        lines.extend(paragraph(indent, &actor, Paint::Plain, self.width));
        lines.retain(|line| !line.parts.is_empty());
        lines
    }

    fn plan(self, plan: &PlanProgress) -> Vec<TextLine> {
        let done = plan.steps.iter().filter(|step| step.state == "done").count();
        let attempts = match plan.attempts {
            0 | 1 => String::new(),
            attempts => format!("attempt {attempts}"),
        };
        let head = TextLine::at(1)
            .with("Plan", Paint::Title)
            .with(&format!("revision {}", plan.revision), Paint::Plain)
            .with(&plan.phase, Paint::Tone(plan.tone))
            .with(&format!("{done}/{} steps", plan.steps.len()), Paint::Plain)
            .with(&attempts, Paint::Tone(Tone::Waiting))
            .with(&plan.applied.map(|applied| format!("applied: {applied}")).unwrap_or_default(), Paint::Dim)
            .with(&labelled("digest", &plan.digest), Paint::Dim);
        let mut lines = vec![head];
        if !plan.change.is_empty() {
            let written = labelled("written", &ago(plan.written.as_ref(), self.now));
            lines.push(TextLine::at(2).with(&plan.change, Paint::Plain).with(&written, Paint::Dim));
        }
        lines.extend(plan.steps.iter().map(|step| {
            let (mark, paint) = mark(&step.state);
            let name = if step.state == "pending" { Paint::Dim } else { Paint::Plain };
            TextLine::at(2).with(mark, paint).with(&step.name, name)
        }));
        lines.extend(paragraph(4, &plan.message, Paint::Tone(plan.tone), self.width));
        let omitted =
            if plan.omitted > 0 { format!("({} bytes left out)", plan.omitted) } else { String::new() };
        for (title, text) in [("Standard output", &plan.stdout), ("Standard error", &plan.stderr)] {
            let tail = self.tail(text);
            if !tail.is_empty() {
                lines.push(heading(title).with(&omitted, Paint::Dim));
                lines.extend(tail);
            }
        }
        lines
    }

    /// The end of an output.
    fn tail(self, text: &str) -> Vec<TextLine> {
        let lines = Safe::lines(text);
        let last = lines.len().saturating_sub(OUTPUT);
        lines[last..].iter().flat_map(|line| paragraph(2, line.as_str(), Paint::Plain, self.width)).collect()
    }

    fn probes(self, probes: &[Probe]) -> Vec<TextLine> {
        let lines = probes.iter().flat_map(|probe| {
            let (mark, paint) = mark(if probe.healthy { "healthy" } else { "failed" });
            let line = TextLine::at(2)
                .with(mark, paint)
                .column(&probe.name, Paint::Plain, NAMES)
                .with(&labelled("for", &ago(probe.since.as_ref(), self.now)), Paint::Dim);
            std::iter::once(line).chain(paragraph(6, &probe.message, Paint::Plain, self.width))
        });
        section("Probes", lines.collect())
    }

    fn conditions(self, lists: &[ConditionList]) -> Vec<TextLine> {
        let of = |list: &ConditionList| {
            let lines = list.conditions.iter().flat_map(|condition| {
                let line = TextLine::at(2)
                    .column(&condition.type_, Paint::Plain, NAMES)
                    .column(&condition.status, Paint::Tone(condition.tone), 8)
                    .with(&condition.reason, Paint::Plain)
                    .with(&labelled("for", &ago(condition.since.as_ref(), self.now)), Paint::Dim);
                std::iter::once(line).chain(paragraph(4, &condition.message, Paint::Dim, self.width))
            });
            section(&format!("Conditions of {}", list.object), lines.collect())
        };
        lists.iter().flat_map(of).collect()
    }

    fn events(self, events: &[Event]) -> Vec<TextLine> {
        let lines = events.iter().flat_map(|event| {
            let times = if event.count > 1 { format!("{} times", event.count) } else { String::new() };
            let line = TextLine::at(2)
                .column(&ago(event.last.as_ref(), self.now), Paint::Dim, 5)
                .with(&event.reason, Paint::Tone(event.tone))
                .with(&event.object, Paint::Dim)
                .with(&times, Paint::Dim);
            std::iter::once(line).chain(paragraph(8, &event.message, Paint::Plain, self.width))
        });
        section("Events", lines.collect())
    }

    fn rollouts(self, page: &ClusterPage) -> Vec<TextLine> {
        page.rollouts.iter().flat_map(|rollout| self.rollout(rollout)).collect()
    }

    /// The rollout in progress, the last change of each machine, and revisions.
    fn rollout(self, rollout: &Rollout) -> Vec<TextLine> {
        let mut lines = Vec::new();
        if !rollout.progress.is_empty() {
            let since = labelled("for", &ago(rollout.since.as_ref(), self.now));
            let progress = TextLine::at(2).with(&rollout.progress, Paint::Tone(Tone::Waiting));
            lines.push(progress.with(&since, Paint::Plain));
            lines.extend(paragraph(4, &rollout.waits, Paint::Plain, self.width));
        }
        for turn in &rollout.turns {
            let since = labelled("for", &ago(turn.since.as_ref(), self.now));
            let line = TextLine::at(2).column(&turn.turn, Paint::Tone(turn.tone), 8);
            lines.push(line.with(&turn.machine, Paint::Plain).with(&since, Paint::Dim));
            lines.extend(paragraph(10, &turn.doing, Paint::Plain, self.width));
        }
        lines.extend(rollout.changes.iter().map(|change| {
            TextLine::at(2)
                .column(&change.machine, Paint::Plain, NAMES)
                .with(&change.change, Paint::Plain)
                .with(&change.state, Paint::Tone(change.tone))
                .with(&labelled("written", &ago(change.written.as_ref(), self.now)), Paint::Dim)
                .with(&labelled("ended", &ago(change.ended.as_ref(), self.now)), Paint::Dim)
        }));
        lines.extend(rollout.revisions.iter().map(|revision| {
            let (mark, paint) = mark(if revision.current { "running" } else { "" });
            TextLine::at(2)
                .with(mark, paint)
                .column(&format!("revision {}", revision.number), Paint::Plain, 12)
                .with(&revision.version, Paint::Plain)
                .with(&format!("{} machines", revision.replicas), Paint::Plain)
                .with(&revision.set, Paint::Dim)
                .with(&labelled("created", &ago(revision.created.as_ref(), self.now)), Paint::Dim)
        }));
        section(&format!("Rollouts of {}", rollout.object), lines)
    }

    /// What the agent has put on the machine.
    fn ledger(self, ledger: &LedgerView) -> Vec<TextLine> {
        let lines = ledger.items.iter().map(|item| {
            TextLine::at(2)
                .column(&item.kind, Paint::Dim, 10)
                .with(&item.name, Paint::Plain)
                .with(&labelled("a reset", &item.reset), Paint::Dim)
        });
        let total = format!("{} items that a reset reverts", ledger.total);
        let total = TextLine::at(2).with(&total, Paint::Plain);
        section("On this machine", std::iter::once(total).chain(lines).collect())
    }
}
