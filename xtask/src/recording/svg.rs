//! A recorded session as an animated SVG: no script, readable on light and on dark pages. Pure.

use std::fmt::Write as _;

use super::screen::{Color, Line, lines};

/// One command and what it printed.
pub(super) struct Scene {
    pub(super) command: String,
    pub(super) output: String,
}

/// Columns of the terminal.
const WIDTH: usize = 104;
const COLUMN: f64 = 7.8;
const ROW: usize = 18;
const MARGIN: usize = 16;
const BAR: usize = 30;
/// A command is read before its output comes, line by line.
const TYPED: f64 = 1.0;
const EACH_LINE: f64 = 0.06;
/// How long each line of a scene may be looked at.
const READ: f64 = 0.45;
const READ_AT_LEAST: f64 = 5.0;

/// The picture. Scenes come one after the other, again and again.
pub(super) fn render(title: &str, scenes: &[Scene]) -> String {
    let drawn: Vec<Vec<Line>> = scenes.iter().map(|scene| lines(&scene.output, WIDTH)).collect();
    let lasts: Vec<f64> = drawn
        .iter()
        .map(|lines| {
            let lines = lines.len() as f64;
            TYPED + EACH_LINE * lines + (READ * lines).max(READ_AT_LEAST)
        })
        .collect();
    let total: f64 = lasts.iter().sum();
    let rows = drawn.iter().map(Vec::len).max().unwrap_or(0) + 1;
    let width = (WIDTH as f64 * COLUMN).ceil() as usize + 2 * MARGIN;
    let height = BAR + rows * ROW + MARGIN;

    let mut svg = String::new();
    // Writing to a String cannot fail.
    _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{}\">",
        escaped(title)
    );
    _ = writeln!(svg, "<title>{}</title>", escaped(title));
    _ = writeln!(svg, "<style>\n{}{}</style>", STYLE, keyframes(&lasts, total));
    _ = writeln!(
        svg,
        "<rect class=\"w\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>",
        width - 1,
        height - 1
    );
    for (number, x) in [(1, 18), (2, 36), (3, 54)] {
        _ = writeln!(svg, "<circle class=\"d{number}\" cx=\"{x}\" cy=\"16\" r=\"5\"/>");
    }
    for (number, (scene, lines)) in (1..).zip(scenes.iter().zip(&drawn)) {
        _ = writeln!(svg, "<g class=\"s s{number}\">");
        let y = BAR + ROW - 4;
        _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\"><tspan class=\"p\">$ </tspan><tspan class=\"c\">{}</tspan></text>",
            escaped(&scene.command)
        );
        for (row, line) in (1..).zip(lines) {
            if line.is_empty() {
                continue;
            }
            let y = y + row * ROW;
            _ = writeln!(
                svg,
                "<text class=\"l\" x=\"{MARGIN}\" y=\"{y}\" style=\"--n:{row}\">{}</text>",
                spans(line)
            );
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

const STYLE: &str = "\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:#1f2328}
.w{fill:#f6f8fa;stroke:#d0d7de}.d1{fill:#ff5f57}.d2{fill:#febc2e}.d3{fill:#28c840}
.p{fill:#656d76}.c{font-weight:600}
.r{fill:#cf222e}.g{fill:#1a7f37}.y{fill:#9a6700}.b{fill:#0969da}.a{fill:#656d76}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.w{fill:#0d1117;stroke:#30363d}.p,.a{fill:#8b949e}
.r{fill:#ff7b72}.g{fill:#3fb950}.y{fill:#d29922}.b{fill:#58a6ff}}
";

/// A scene is seen for its part of the whole; its lines come one after the other.
fn keyframes(lasts: &[f64], total: f64) -> String {
    let mut css = format!(".s{{opacity:0;animation:{total:.2}s step-end infinite}}\n");
    let mut from = 0.0;
    for (number, lasts) in (1..).zip(lasts) {
        let percent = |seconds: f64| 100.0 * seconds / total;
        let (start, end) = (percent(from), percent(from + lasts));
        // The first scene begins with the animation.
        let before = if start > 0.0 { "0%{opacity:0}".to_owned() } else { String::new() };
        let after = if end < 99.99 { format!("{end:.2}%{{opacity:0}}") } else { String::new() };
        _ = writeln!(
            css,
            ".s{number}{{animation-name:k{number}}}@keyframes k{number}{{{before}{start:.2}%{{opacity:1}}{after}}}"
        );
        _ = writeln!(
            css,
            ".s{number} .l{{animation:m{number} {total:.2}s step-end calc(var(--n)*{EACH_LINE}s) infinite backwards}}\
             @keyframes m{number}{{0%{{opacity:0}}{:.2}%{{opacity:1}}}}",
            percent(from + TYPED)
        );
        from += lasts;
    }
    // Who wants no motion sees the first scene, whole.
    css.push_str(
        "@media (prefers-reduced-motion:reduce){.s,.s .l{animation:none!important}.s1{opacity:1}}\n",
    );
    css
}

fn spans(line: &Line) -> String {
    line.iter()
        .map(|span| match span.color.map(class) {
            Some(class) => format!("<tspan class=\"{class}\">{}</tspan>", escaped(&span.text)),
            None => escaped(&span.text),
        })
        .collect()
}

const fn class(color: Color) -> &'static str {
    match color {
        Color::Red => "r",
        Color::Green => "g",
        Color::Yellow => "y",
        Color::Cyan => "b",
        Color::Gray => "a",
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    // Viewers that do not know white-space drop blanks at the beginning of a line.
    let blanks = text.len() - text.trim_start_matches(' ').len();
    format!("{}{}", "\u{a0}".repeat(blanks), &text[blanks..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn session() -> Vec<Scene> {
        let scene =
            |command: &str, output: &str| Scene { command: command.to_owned(), output: output.to_owned() };
        vec![
            scene(
                "capstan plan -f upgraded.yaml",
                "CapstanControlPlane/demo \x1b[33mwould be changed\x1b[0m\n    spec.version: v1 -> v2\n\n\x1b[32mMachines: 1 restarted.\x1b[0m\n",
            ),
            scene("capstan why demo", "<a & \"b\">\n    \x1b[36mnext\x1b[0m   Machine/x\n"),
        ]
    }

    /// `UPDATE_GOLDEN=1 cargo test -p xtask recording` writes the file anew.
    #[test]
    fn a_session_is_drawn_as_in_the_golden_file() {
        let drawn = render("A session", &session());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recording/golden.svg");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &drawn).expect("the golden file can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(drawn, golden, "UPDATE_GOLDEN=1 writes {} anew", path.display());
    }

    #[test]
    fn it_has_no_script_and_nothing_from_elsewhere() {
        let drawn = render("A session", &session());
        for never in ["<script", "javascript:", "href", "url(", "@import", "\x1b"] {
            assert!(!drawn.contains(never), "{never}");
        }
        assert!(
            drawn.contains("&lt;a &amp; &quot;b&quot;&gt;") && drawn.contains("prefers-color-scheme:dark")
        );
    }
}
