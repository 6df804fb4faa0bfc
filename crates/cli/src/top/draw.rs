//! Draws the view into the buffer of the terminal. Pure: the same input gives the same picture.

use capstan_ui::model::Tone;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier, Style};

use super::columns::{GAP, widths};
use super::page::{Body, Paint, PaintedText, Row, Shown, Table, TextLine};
use super::safe::Safe;
use super::state::{Mode, State};
use crate::describe;

/// Lines about the selected row.
const NOTE: usize = 4;
/// Smaller screens have no room for them.
const HIGH: usize = 14;

const HINTS: &str = "Enter open   d details   Esc back   / filter   : view   ? help   q quit";

const HELP: &[(&str, &str)] = &[
    ("j, k, arrows", "down, up"),
    ("PgDn, PgUp, Ctrl-F, Ctrl-B", "page down, page up"),
    ("g, G", "first, last"),
    ("Enter", "open: machines of a cluster, a machine, a host"),
    ("d", "details: conditions, events and rollouts of a cluster"),
    ("Esc", "clear the filter, go back"),
    ("/", "filter rows or lines; Enter keeps it, Esc clears it"),
    (":clusters", "all clusters"),
    (":machines [CLUSTER]", "all machines, or those of a cluster"),
    (":hosts", "all hosts"),
    ("?", "this help"),
    ("q, :q, Ctrl-C", "quit"),
];

/// State of the connection to the plane.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    /// Address of the plane, and the selected namespace.
    pub(super) place: String,
    /// Since when the plane does not respond, and the error.
    pub(super) outage: Option<(Timestamp, String)>,
}

/// Everything that is drawn.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) state: &'a State,
    pub(super) shown: &'a Shown,
    pub(super) status: &'a Status,
    pub(super) now: Timestamp,
    pub(super) color: bool,
}

/// Number of rows or lines that fit into the body.
pub(super) fn body_height(size: Size, shown: &Shown) -> usize {
    let height = usize::from(size.height);
    let rest = height.saturating_sub(2 + shown.summary.len());
    match shown.body {
        Body::Table(_) => rest.saturating_sub(1 + note_height(height)),
        Body::Text(_) => rest,
    }
}

fn note_height(height: usize) -> usize {
    if height >= HIGH { NOTE } else { 0 }
}

pub(super) fn draw(frame: &mut Frame<'_>, scene: Scene<'_>) {
    let area = frame.area();
    let cursor = Canvas { buffer: frame.buffer_mut(), area, color: scene.color }.scene(scene);
    if let Some(column) = cursor.filter(|_| area.height > 0) {
        let column = u16::try_from(column).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
        frame.set_cursor_position(Position { x: column, y: area.height - 1 });
    }
}

struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    color: bool,
}

impl Canvas<'_> {
    fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    fn height(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Draws everything, and gives the column of the cursor in the last line, if there is one.
    fn scene(&mut self, scene: Scene<'_>) -> Option<usize> {
        let Scene { state, shown, .. } = scene;
        let (height, level) = (self.height(), state.level());
        self.header(scene);
        let mut top = 1;
        for line in &shown.summary {
            // The last line is for the status.
            if top + 1 < height {
                self.line(top, line);
            }
            top += 1;
        }
        let size = Size { width: self.area.width, height: self.area.height };
        let room = body_height(size, shown);
        match (&state.mode, &shown.body) {
            (Mode::Help, _) => self.help(top, height.saturating_sub(top + 1)),
            (_, Body::Text(lines)) => {
                for (place, line) in lines.iter().skip(level.offset).take(room).enumerate() {
                    self.line(top + place, line);
                }
            }
            (_, Body::Table(table)) if room > 0 => {
                self.table(top, room, table, level.offset, level.selected);
                if note_height(height) > 0 {
                    self.note(top + 1 + room, table.rows.get(level.selected));
                }
            }
            (_, Body::Table(_)) => {}
        }
        (height > 1).then(|| self.status(height - 1, scene)).flatten()
    }

    fn header(&mut self, Scene { state, shown, status, .. }: Scene<'_>) {
        if self.height() == 0 {
            return;
        }
        let count = match &shown.body {
            Body::Table(table) if table.rows.len() < table.total => {
                format!(" [{} of {}]", table.rows.len(), table.total)
            }
            Body::Table(table) => format!(" [{}]", table.total),
            Body::Text(_) => String::new(),
        };
        let left = Safe::line(&format!("{}{count}", state.path().join(" › ")));
        let right = Safe::line(&match &status.outage {
            Some(_) => format!("no connection  {}", status.place),
            None => status.place.clone(),
        });
        let width = self.width();
        let left = left.cut(width.saturating_sub(2));
        let room = width.saturating_sub(left.width() + 4);
        let style = self.style(Paint::Title).add_modifier(Modifier::REVERSED);
        self.fill(0, style);
        self.put(1, 0, &left, style);
        let right = right.cut(room);
        self.put(width.saturating_sub(right.width() + 1), 0, &right, style);
    }

    /// Prompt, complaint, lost connection, what could not be read, or keys: the first of these that there is.
    fn status(&mut self, row: usize, Scene { state, shown, status, now, .. }: Scene<'_>) -> Option<usize> {
        let filter = &state.level().filter;
        let prompt = match &state.mode {
            Mode::Filter => Some(format!("/{filter}")),
            Mode::Command(text) => Some(format!(":{text}")),
            Mode::Normal | Mode::Help => None,
        };
        if let Some(prompt) = prompt {
            let prompt = Safe::line(&prompt);
            self.put(1, row, &prompt.cut(self.width().saturating_sub(2)), Style::default());
            return Some(1 + prompt.width());
        }
        let (text, paint) = match (&state.complaint, &status.outage, shown.notices.as_slice()) {
            (Some(complaint), _, _) => (complaint.clone(), Paint::Tone(Tone::Bad)),
            (None, Some((since, why)), _) => {
                let since = describe::age(*since, now);
                (format!("No connection for {since}; what is shown is older. {why}"), Paint::Tone(Tone::Bad))
            }
            (None, None, [notice]) => (notice.clone(), Paint::Tone(Tone::Waiting)),
            (None, None, [notice, more @ ..]) => {
                (format!("{notice} (and {} more)", more.len()), Paint::Tone(Tone::Waiting))
            }
            (None, None, []) if !filter.is_empty() => {
                (format!("filter: {filter}   Esc clears it"), Paint::Dim)
            }
            (None, None, []) => (HINTS.to_owned(), Paint::Dim),
        };
        let style = self.style(paint);
        self.put(1, row, &Safe::line(&text).cut(self.width().saturating_sub(2)), style);
        None
    }

    fn help(&mut self, top: usize, room: usize) {
        for (place, (keys, meaning)) in HELP.iter().take(room).enumerate() {
            let line = TextLine::at(2).column(keys, Paint::Title, 28).with(meaning, Paint::Plain);
            self.line(top + place, &line);
        }
    }

    fn table(&mut self, top: usize, room: usize, table: &Table, offset: usize, selected: usize) {
        let rows: Vec<(usize, &Row)> = table.rows.iter().enumerate().skip(offset).take(room).collect();
        let titles: Vec<PaintedText> =
            table.titles.iter().map(|title| PaintedText::new(title, Paint::Title)).collect();
        let measured = |parts: &[PaintedText]| parts.iter().map(|part| part.text.width()).collect::<Vec<_>>();
        let cells: Vec<Vec<usize>> = rows.iter().map(|(_, row)| measured(&row.cells)).collect();
        // A column on each side is for the mark of the selection.
        let widths = widths(&measured(&titles), &cells, self.width().saturating_sub(2));
        self.cells(top, &titles, &widths, false);
        for (place, (index, row)) in rows.into_iter().enumerate() {
            self.cells(top + 1 + place, &row.cells, &widths, index == selected);
        }
        if table.rows.is_empty() {
            self.line(top + 1, &TextLine::at(1).with(table.empty, Paint::Dim));
        }
    }

    fn cells(&mut self, row: usize, cells: &[PaintedText], widths: &[usize], is_selected: bool) {
        let mark = if is_selected { Modifier::REVERSED } else { Modifier::empty() };
        if is_selected {
            self.fill(row, Style::default().add_modifier(mark));
            self.put(0, row, &Safe::line(">"), Style::default().add_modifier(mark));
        }
        let mut column = 1;
        for (cell, width) in cells.iter().zip(widths).filter(|(_, width)| **width > 0) {
            let style = self.style(cell.paint).add_modifier(mark);
            self.put(column, row, &cell.text.cut(*width), style);
            column += width + GAP;
        }
    }

    fn note(&mut self, top: usize, row: Option<&Row>) {
        let room = self.width().saturating_sub(2);
        let notes = row.map(|row| row.note.as_slice()).unwrap_or_default();
        let lines = notes.iter().flat_map(|(text, paint)| {
            let lines = Safe::lines(text).into_iter().filter(|line| line.width() > 0);
            lines.flat_map(move |line| line.wrapped(room)).map(move |line| (line, *paint))
        });
        let lines: Vec<(Safe, Paint)> = lines.take(NOTE).collect();
        for (place, (line, paint)) in lines.into_iter().enumerate() {
            let style = self.style(paint);
            self.put(1, top + place, &line, style);
        }
    }

    fn line(&mut self, row: usize, line: &TextLine) {
        let mut column = line.indent;
        for part in &line.parts {
            let style = self.style(part.paint);
            let text = part.text.cut(self.width().saturating_sub(column));
            self.put(column, row, &text, style);
            column += part.text.width() + 1;
        }
    }

    fn fill(&mut self, row: usize, style: Style) {
        let row = u16::try_from(row).unwrap_or(u16::MAX);
        self.buffer.set_style(Rect { y: row, height: 1, ..self.area }.intersection(self.area), style);
    }

    /// Puts a text somewhere, as far as the screen goes.
    fn put(&mut self, column: usize, row: usize, text: &Safe, style: Style) {
        if column < self.width() && row < self.height() {
            let (x, y) = (u16::try_from(column).unwrap_or(u16::MAX), u16::try_from(row).unwrap_or(u16::MAX));
            self.buffer.set_stringn(x, y, text.as_str(), self.width() - column, style);
        }
    }

    fn style(&self, paint: Paint) -> Style {
        let plain = Style::default();
        let color = |color: Color| if self.color { plain.fg(color) } else { plain };
        match paint {
            Paint::Plain | Paint::Tone(Tone::Neutral) => plain,
            Paint::Dim => color(Color::DarkGray),
            Paint::Title => color(Color::Cyan).add_modifier(Modifier::BOLD),
            Paint::Tone(Tone::Good) => color(Color::Green),
            Paint::Tone(Tone::Waiting) => color(Color::Yellow),
            Paint::Tone(Tone::Bad) => color(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}

#[cfg(test)]
mod tests;
