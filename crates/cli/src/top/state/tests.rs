//! Tests of keys and their effects.

use super::*;
use crate::top::page::{Table, TextLine};

fn name(name: &str) -> Name {
    Name { namespace: "default".to_owned(), name: name.to_owned() }
}

fn rows(names: &[&str]) -> Shown {
    let row = |text: &&str| Row {
        name: name(text),
        cells: Vec::new(),
        opens: View::Machines(Some(name(text))),
        details: View::Cluster(name(text)),
        note: Vec::new(),
    };
    let table = Table { rows: names.iter().map(row).collect(), ..Table::default() };
    Shown { summary: Vec::new(), body: Body::Table(table), notices: Vec::new() }
}

fn code(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Presses keys: letters, and `<Enter>`, `<Esc>`, `<C-f>` and so on.
fn type_keys(state: &mut State, keys: &str, shown: &Shown, height: usize) {
    let mut rest = keys;
    while !rest.is_empty() {
        let special = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let key = match special {
            Some((name, after)) => {
                rest = after;
                match name {
                    "Enter" => code(KeyCode::Enter),
                    "Esc" => code(KeyCode::Esc),
                    "Up" => code(KeyCode::Up),
                    "Down" => code(KeyCode::Down),
                    "PgUp" => code(KeyCode::PageUp),
                    "PgDn" => code(KeyCode::PageDown),
                    "Home" => code(KeyCode::Home),
                    "End" => code(KeyCode::End),
                    "BS" => code(KeyCode::Backspace),
                    other => {
                        let letter = other.chars().last().unwrap_or_default();
                        KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
                    }
                }
            }
            None => {
                let letter = rest.chars().next().unwrap_or_default();
                rest = &rest[letter.len_utf8()..];
                code(KeyCode::Char(letter))
            }
        };
        state.press(key, shown, height);
        state.adapt_to(shown, height);
    }
}

fn after(keys: &str, shown: &Shown, height: usize) -> State {
    let mut state = State::new("default");
    type_keys(&mut state, keys, shown, height);
    state
}

#[test]
fn alt_is_escape_and_the_key() {
    let (mut state, shown) = (State::new("default"), rows(&["a", "b"]));
    type_keys(&mut state, "/b", &shown, 5);
    let colon = KeyEvent::new(KeyCode::Char(':'), KeyModifiers::ALT);
    state.press(colon, &shown, 5);
    assert_eq!(state.level().filter, "");
    type_keys(&mut state, "hosts<Enter>", &shown, 5);
    assert_eq!(state.level().view, View::Hosts);
}

#[test]
fn keys_move_the_selection_and_it_stays_on_the_screen() {
    let shown = rows(&["a", "b", "c", "d", "e", "f"]);
    for (keys, selected, offset) in [
        ("", 0, 0),
        ("k", 0, 0),
        ("jj", 2, 0),
        ("<Down><Down><Up>", 1, 0),
        ("jjj", 3, 1),
        ("jjjk", 2, 1),
        ("jjjkkk", 0, 0),
        ("G", 5, 3),
        ("Gj", 5, 3),
        ("<End>g", 0, 0),
        ("<End><Home>", 0, 0),
        ("<PgDn>", 3, 1),
        ("<PgDn><PgDn><PgDn>", 5, 3),
        ("G<PgUp>", 2, 2),
        ("<C-f>", 3, 1),
        ("G<C-b>", 2, 2),
        ("<C-d>", 1, 0),
    ] {
        let state = after(keys, &shown, 3);
        assert_eq!((state.level().selected, state.level().offset), (selected, offset), "{keys}");
    }
}

#[test]
fn text_is_scrolled_to_its_end_and_not_further() {
    let shown = Shown::text(vec![TextLine::default(); 10]);
    for (keys, offset) in [("j", 1), ("G", 7), ("Gj", 7), ("<PgDn>k", 2), ("Gg", 0), ("k", 0)] {
        assert_eq!(after(keys, &shown, 3).level().offset, offset, "{keys}");
    }
    let short = Shown::text(vec![TextLine::default(); 2]);
    assert_eq!(after("G", &short, 3).level().offset, 0);
}

#[test]
fn enter_opens_and_escape_goes_back() {
    let shown = rows(&["a", "b"]);
    for (keys, path) in [
        ("", vec!["Clusters"]),
        ("j<Enter>", vec!["Clusters", "Machines of b"]),
        ("jd", vec!["Clusters", "Cluster b"]),
        ("<Enter><Esc>", vec!["Clusters"]),
        ("<Esc><Esc>", vec!["Clusters"]),
        (":hosts<Enter>", vec!["Hosts"]),
        ("<Enter>:machines<Enter>", vec!["Machines"]),
        (":machines prod/shop<Enter>", vec!["Machines of shop"]),
        (":hosts<Esc>", vec!["Clusters"]),
        (":h<BS><BS>j", vec!["Clusters"]),
    ] {
        let state = after(keys, &shown, 5);
        assert_eq!(state.path(), path, "{keys}");
        assert_eq!(state.mode, Mode::Normal, "{keys}");
    }
    assert_eq!(after("j<Enter><Esc>", &shown, 5).level().selected, 1, "the selection is where it was");
    assert_eq!(after("<Enter>", &rows(&[]), 5).path(), ["Clusters"], "nothing to open");
}

#[test]
fn a_filter_is_kept_by_enter_and_cleared_by_escape() {
    let shown = rows(&["a"]);
    for (keys, filter, mode) in [
        ("/shop", "shop", Mode::Filter),
        ("/shop<Enter>", "shop", Mode::Normal),
        ("/shop<Esc>", "", Mode::Normal),
        ("/shop<Enter><Esc>", "", Mode::Normal),
        ("/sh<BS>", "s", Mode::Filter),
        ("/<BS>", "", Mode::Normal),
        ("/shop<C-u>x", "x", Mode::Filter),
        ("/q?:", "q?:", Mode::Filter),
        ("/shop<Enter>/x", "shopx", Mode::Filter),
    ] {
        let state = after(keys, &shown, 5);
        assert_eq!((state.level().filter.as_str(), &state.mode), (filter, &mode), "{keys}");
        assert!(!state.is_done, "{keys}");
    }
    let state = after("/x<Enter><Enter><Esc>", &shown, 5);
    assert_eq!((state.path().len(), state.level().filter.as_str()), (1, "x"), "back to what was filtered");
}

#[test]
fn help_ends_with_any_key_and_quitting_is_always_possible() {
    let shown = rows(&["a", "b"]);
    assert_eq!(after("?", &shown, 5).mode, Mode::Help);
    assert_eq!(after(":help<Enter>", &shown, 5).mode, Mode::Help);
    let helped = after("?j", &shown, 5);
    assert_eq!((helped.mode, helped.levels[0].selected), (Mode::Normal, 0));
    assert!(!after("?q", &shown, 5).is_done, "q ends the help first");
    for keys in ["q", "<C-c>", "/x<C-c>", ":x<C-c>", "?<C-c>", ":q<Enter>", ":quit<Enter>"] {
        assert!(after(keys, &shown, 5).is_done, "{keys}");
    }
}

#[test]
fn a_command_that_is_none_is_complained_of_until_the_next_key() {
    let shown = rows(&["a"]);
    let mut state = after(":pods<Enter>", &shown, 5);
    assert!(state.complaint.as_ref().is_some_and(|text| text.contains(":pods")), "{:?}", state.complaint);
    type_keys(&mut state, "j", &shown, 5);
    assert_eq!(state.complaint, None);
}

#[test]
fn the_selection_follows_its_object() {
    let mut state = after("jj", &rows(&["b", "c", "d"]), 5);
    state.adapt_to(&rows(&["a", "b", "c", "d"]), 5);
    assert_eq!(state.level().selected, 3, "d has moved");
    state.adapt_to(&rows(&["a", "b"]), 5);
    assert_eq!(state.level().selected, 1, "d is gone");
    state.adapt_to(&rows(&[]), 5);
    state.adapt_to(&rows(&["a", "b"]), 5);
    assert_eq!(state.level().selected, 1, "it is remembered while there are no rows");
}

#[test]
fn rows_on_the_screen_are_asked_for() {
    let shown = rows(&["a", "b", "c", "d"]);
    let state = after("G", &shown, 2);
    let seen = ["c", "d"].map(|name| ("default".to_owned(), name.to_owned())).into_iter().collect();
    assert_eq!(state.query(&shown, 2), Query { view: View::Clusters, seen });
}
