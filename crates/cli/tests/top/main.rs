//! `capstan top` in a real terminal, against an embedded plane: live views, keys, hostile text, a plane that stops and
//! restarts, and a terminal that is restored on every exit.

#![cfg(test)]

mod plane;
// No key makes `capstan top` panic, so this program does it with the same screen.
#[path = "../../src/top/screen.rs"]
mod screen;
mod terminal;

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use plane::{CAPSTAN, TopPlane, hostile, shop};
use screen::Screen;
use terminal::Terminal;

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const HOSTILE: &str = "\x1b]0;owned\x07\x1b[2J\x1b[31;1H\u{202e}evil";

fn top(plane: &TopPlane, args: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let kubeconfig = plane.kubeconfig();
    Terminal::run(CAPSTAN, &[&["top", "--kubeconfig", &kubeconfig], args].concat(), variables)
}

fn send(signal: &str, terminal: &Terminal) {
    let sent = Command::new("kill").args([signal, &terminal.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_up_before_your_eyes() {
    let plane = TopPlane::start("all");
    let mut top = top(&plane, &[], &[]);
    top.shows(&["Clusters [0]", "No clusters.", "all namespaces"]);
    assert!(top.is_coloured());

    // Nothing is pressed: it is live.
    plane.apply(&shop()).await;
    top.shows(&["Clusters [1]", ">default    shop", "v1.36.0+k3s1", "2 machines ready"]);
    top.until("the cluster to be available", |text| {
        text.lines()
            .any(|line| line.starts_with(">default") && line.contains(" available ") && line.contains("1/1"))
    });

    top.press(ENTER);
    top.shows(&["Clusters › Machines of shop [2]", "control-plane", "worker", "Running", "simulated-"]);
    top.press("j");
    top.until("the second row", |text| {
        text.lines().any(|line| line.starts_with(">shop") && line.contains("worker"))
    });
    top.press("k");
    top.press(ENTER);
    top.shows(&["› Machine shop-", "Hand-offs", "✓ machine ready", "Plan revision", "Applied", "✓ kubelet"]);
    top.press("G");
    top.shows(&["Events"]);
    top.press("/operating");
    top.shows(&["Operating system"]);
    top.until("other lines to go", |text| !text.contains("Hand-offs"));
    top.press(ESCAPE);
    top.press(":hosts\r");
    top.shows(&["Hosts [3]", "Claimed", "Available", "FAILURE DOMAIN"]);
    top.press("/claimed\r");
    top.shows(&["Hosts [2 of 3]"]);
    top.press("?");
    top.shows(&[":machines [CLUSTER]"]);
    top.press("x");
    top.press(":pods\r");
    top.shows(&["there is no command :pods"]);

    // Another size, and a small one.
    top.resize(9, 50);
    top.shows(&["Hosts [2 of 3]", ">default"]);
    top.resize(30, 120);
    // Keys that come together with a new size are read with the next key: crossterm waits for either of them.
    top.shows(&["PROBLEM"]);
    top.press(":clusters\r");
    top.shows(&["Clusters [1]", ">default    shop", "Enter open"]);
    top.press("d");
    top.shows(&["Clusters › Cluster shop", "Conditions of Cluster shop", "Rollouts of MachineDeployment"]);
    top.press("q");
    assert_eq!(top.ended(), 0);
    assert!(!top.text().contains("Conditions"), "what was drawn is gone: {}", top.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_does_not_steer_the_terminal() {
    let plane = TopPlane::start("none");
    plane.apply(&hostile(HOSTILE)).await;
    let mut top = top(&plane, &["-n", "default"], &[("NO_COLOR", "1")]);
    top.shows(&["Clusters [1]", "namespace default", "evil"]);
    for (keys, texts) in [
        ("\r", &["Machines of shop [1]", "shop-0", "waits for Hostile"][..]),
        ("\r", &["Machine shop-0", "Standard error", "✗ step 1 of 2: install", "evil"]),
        (":hosts\r", &["Hosts [1]", "rack-1", "evil"]),
        ("\r", &["Host rack-1", "Problem", "evil"]),
    ] {
        top.press(keys);
        top.shows(texts);
    }
    assert!(!top.is_coloured(), "NO_COLOR is set");
    // Ctrl-C is a key here.
    top.press("\x03");
    assert_eq!(top.ended(), 0);
    let bytes = top.bytes();
    let written = String::from_utf8_lossy(&bytes);
    for text in ["owned", "\x1b[31;1H", "\u{202e}"] {
        assert!(!written.contains(text), "{text:?} reached the terminal");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plane_that_goes_and_comes_back_is_followed() {
    let mut plane = TopPlane::start("none");
    plane.apply(&hostile("in the first life")[..1]).await;
    let mut top = top(&plane, &[], &[]);
    top.shows(&["Clusters [1]", "in the first life"]);
    plane.stop();
    top.shows(&["No connection for ", "in the first life"]);
    plane.start_again();
    top.until("the connection to be back", |text| !text.contains("o connection"));
    plane.apply(&hostile("in the second life")[..1]).await;
    top.shows(&["in the second life"]);
    top.press(":q\r");
    assert_eq!(top.ended(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_gives_the_terminal_back() {
    let plane = TopPlane::start("none");
    for signal in ["-TERM", "-INT", "-HUP", "-QUIT"] {
        let mut top = top(&plane, &[], &[]);
        top.shows(&["Clusters [0]"]);
        send(signal, &top);
        assert_eq!(top.ended(), 0, "{signal}");
    }
}

/// As when the window is closed, or the connection over SSH is lost.
#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_terminal() {
    let plane = TopPlane::start("none");
    let mut top = top(&plane, &[], &[]);
    top.shows(&["Clusters [0]"]);
    let process = PathBuf::from(format!("/proc/{}", top.id()));
    drop(top);
    let ended = async {
        while process.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it ends");
}

#[test]
fn a_plane_that_does_not_answer_is_an_error_on_the_usual_screen() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = "clusters: [{name: p, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n\
                contexts: [{name: c, context: {cluster: p, user: u}}]\ncurrent-context: c\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let mut top = Terminal::run(CAPSTAN, &["top", "--kubeconfig", kubeconfig.to_str().unwrap()], &[]);
    assert_eq!(top.ended(), 1);
    assert!(top.text().contains("capstan: cannot reach the management plane"), "{}", top.text());
}

#[test]
fn without_a_terminal_it_names_the_remedy() {
    let output = Command::new(CAPSTAN).arg("top").stdin(Stdio::null()).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(
        complaint.contains("needs a terminal") && complaint.contains("capstan get clusters"),
        "{complaint}"
    );
}

/// Says to the program in the terminal that it is that one.
const PANICS: &str = "CAPSTAN_TEST_PANICS";
const PANICKED: i32 = 3;

#[test]
fn a_panic_restores_the_terminal_and_can_be_read() {
    if std::env::var_os(PANICS).is_some() {
        panic_on_a_key();
    }
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "a_panic_restores_the_terminal_and_can_be_read", "--nocapture"];
    let mut terminal = Terminal::run(program.to_str().unwrap(), &args, &[(PANICS, "1")]);
    terminal.shows(&["a screen of its own"]);
    terminal.press("x");
    assert_eq!(terminal.ended(), PANICKED);
    assert!(terminal.text().contains("a task fails"), "{}", terminal.text());
}

fn panic_on_a_key() -> ! {
    screen::ensure_terminal().unwrap();
    let mut screen = Screen::enter().unwrap();
    screen.terminal.draw(|frame| frame.render_widget("a screen of its own", frame.area())).unwrap();
    screen.ensure_sound().unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
    std::thread::spawn(|| panic!("a task fails")).join().unwrap_err();
    screen.ensure_sound().unwrap_err();
    // Without a drop, which would restore the terminal, too.
    std::process::exit(PANICKED)
}
