//! `capstan top`: a live view of the management plane in the terminal, with the keys of k9s. Read-only.
//!
//! Content comes from the watches and pure functions of the web view (`crate::ui`). A key changes the `state`, the
//! `schedule` decides when to load, `content` becomes pages and tables of safe text, and `draw` puts them on the
//! screen. All of these are pure; only this file, `plane`, `input` and `screen` do I/O. Nothing is logged, because a
//! log line would corrupt the screen.

mod args;
mod columns;
mod command;
mod content;
mod details;
mod draw;
mod input;
mod page;
mod plane;
mod safe;
mod schedule;
mod screen;
mod state;
mod tables;

pub(crate) use args::TopArgs;

use anyhow::{Context as _, Result};
use capstan_controller::Scope;
use capstan_ui::{Problem, Source as _};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, pin_mut, stream};
use jiff::Timestamp;
use kube::Client;
use ratatui::crossterm::event::{Event, KeyEventKind};
use std::io;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

use crate::client::{ASKING, Place};
use crate::progress::waiting;
use crate::stop::{self, Stop};
use crate::terminal::Look;
use crate::ui::PlaneSource;
use content::{Content, shown};
use draw::{Scene, Status, body_height, draw};
use input::Input;
use page::Shown;
use plane::{load, responds};
use schedule::Schedule;
use screen::{Screen, ensure_terminal};
use state::{Query, State};

/// Ages count on.
const TICK: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: &TopArgs) -> Result<()> {
    ensure_terminal()?;
    let config = args.plane.config().await?;
    let server = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("cannot make a client")?;
    let scope = Scope::new(args.namespace.clone(), None);
    let place = Place { client: client.clone(), namespace: namespace.clone() };
    let source = waiting(ASKING, PlaneSource::start(place, scope.clone(), false)).await?;
    let shown_namespace = match &args.namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "all namespaces".to_owned(),
    };
    let stop = on_signal()?;
    let mut top = Top {
        source: &source,
        state: State::new(&namespace),
        content: Content::Loading,
        shown: (Shown::text(Vec::new()), 0),
        schedule: Schedule::new(),
        status: Status { place: format!("{server}, {shown_namespace}"), outage: None },
        color: Look::of_stdout(None, false).color,
        screen: Screen::enter()?,
    };
    top.run(&client, &scope, stop).await
}

/// Any signal that would end the process: the terminal is to be given back first.
fn on_signal() -> Result<Stop> {
    let usual = stop::on_signal()?;
    let mut hangups = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let mut quits = signal(SignalKind::quit()).context("cannot wait for SIGQUIT")?;
    Ok(stop::when(async move {
        tokio::select! {
            () = usual => {}
            _ = hangups.recv() => {}
            _ = quits.recv() => {}
        }
    }))
}

type Loaded = (Query, Result<Content, Problem>);

struct Top<'a> {
    source: &'a PlaneSource,
    state: State,
    content: Content,
    /// What was drawn last, and the rows or lines that it had room for.
    shown: (Shown, usize),
    schedule: Schedule,
    status: Status,
    color: bool,
    screen: Screen,
}

impl<'a> Top<'a> {
    /// Until a key or a signal ends it.
    async fn run(&mut self, client: &Client, scope: &Scope, stop: Stop) -> Result<()> {
        let mut input = Input::start();
        let mut changes = self.source.changes();
        let mut tick = tokio::time::interval(TICK);
        let mut loading: Option<(Query, BoxFuture<'a, Loaded>)> = None;
        let looking = stream::unfold((), move |()| async move { Some((responds(client, scope).await, ())) });
        pin_mut!(looking);
        let mut is_news = true;
        while !self.state.is_done {
            self.screen.ensure_sound()?;
            if is_news {
                self.draw()?;
            }
            let (wanted, now) = (self.state.query(&self.shown.0, self.shown.1), Instant::now());
            // What another view needs is no longer wanted.
            loading = loading.filter(|(query, _)| query.view == wanted.view);
            let due = self.schedule.due(&wanted, now).filter(|_| loading.is_none());
            if due.is_some_and(|due| due <= now) {
                self.schedule.begun();
                loading = Some((wanted.clone(), self.load(wanted)));
            }
            let later = due.map(|due| due.saturating_duration_since(now)).filter(|_| loading.is_none());
            is_news = tokio::select! {
                event = input.next() => self.events(event, &mut input)?,
                loaded = arrival(loading.as_mut()) => {
                    loading = None;
                    self.take(loaded)
                }
                // One change is enough to load again; what is loaded is news, not the change.
                changed = changes.changed(), if !self.schedule.is_old() => {
                    changed.context("the watches have ended")?;
                    self.schedule.changed();
                    false
                }
                Some(answer) = looking.next() => self.heard(answer.err()),
                () = tokio::time::sleep(later.unwrap_or(TICK)), if later.is_some() => false,
                _ = tick.tick() => true,
                () = stop.clone() => return Ok(()),
            };
        }
        Ok(())
    }

    fn load(&self, query: Query) -> BoxFuture<'a, Loaded> {
        let source = self.source;
        async move {
            let loaded = load(source, &query).await;
            (query, loaded)
        }
        .boxed()
    }

    fn draw(&mut self) -> Result<()> {
        let size = self.screen.terminal.size().context("cannot read the size of the terminal")?;
        let (filter, now) = (&self.state.level().filter, Timestamp::now());
        let shown = shown(&self.content, filter, usize::from(size.width), now);
        let height = body_height(size, &shown);
        // The place in a view is kept until its content is there.
        if !matches!(self.content, Content::Loading) {
            self.state.adapt_to(&shown, height);
        }
        let (state, status, color) = (&self.state, &self.status, self.color);
        let scene = Scene { state, shown: &shown, status, now, color };
        self.screen.terminal.draw(|frame| draw(frame, scene)).context("cannot draw on the terminal")?;
        self.shown = (shown, height);
        Ok(())
    }

    /// An event, and all that have come meanwhile: a text that is pasted is drawn once.
    fn events(&mut self, first: io::Result<Event>, input: &mut Input) -> Result<bool> {
        let mut next = Some(first);
        while let Some(event) = next {
            let event = event.context("cannot read from the terminal")?;
            if let Event::Key(key) = event.clone()
                && key.kind != KeyEventKind::Release
            {
                let view = self.state.level().view.clone();
                self.state.press(key, &self.shown.0, self.shown.1);
                if self.state.level().view != view {
                    self.content = Content::Loading;
                    self.draw()?;
                }
            }
            next = input.waiting();
        }
        Ok(true)
    }

    /// What was loaded. What is known stays on the screen while the plane does not answer.
    fn take(&mut self, (query, loaded): Loaded) -> bool {
        self.schedule.ended(query, loaded.is_ok(), Instant::now());
        match loaded {
            Ok(content) => self.content = content,
            Err(problem) => _ = self.heard(Some(problem.to_string())),
        }
        true
    }

    /// Whether the plane answers, or why not.
    fn heard(&mut self, outage: Option<String>) -> bool {
        let since = self.status.outage.as_ref().map_or_else(Timestamp::now, |(since, _)| *since);
        self.status.outage = outage.map(|why| (since, why));
        true
    }
}

/// What is being loaded, once it is there.
async fn arrival(loading: Option<&mut (Query, BoxFuture<'_, Loaded>)>) -> Loaded {
    match loading {
        Some((_, loaded)) => loaded.await,
        None => futures::future::pending().await,
    }
}
