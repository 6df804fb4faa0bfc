//! Runs a program in a real terminal: a pseudo terminal of the kernel, with an emulator that tracks the screen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// A second is usual; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(120);

/// What the shell says when the program has ended.
const ENDED: &str = "ended with ";

/// A terminal with a program in it. Dropping it kills the program.
pub(super) struct Terminal {
    shell: Child,
    /// The end of the person.
    keyboard: File,
    /// The end of the program, kept open to look at its settings.
    line: OwnedFd,
    before: Termios,
    drawn: Arc<Mutex<Drawn>>,
}

struct Drawn {
    emulator: vt100::Parser,
    bytes: Vec<u8>,
}

fn size(rows: u16, columns: u16) -> (NonZeroU16, NonZeroU16) {
    (NonZeroU16::new(rows).unwrap(), NonZeroU16::new(columns).unwrap())
}

impl Terminal {
    /// Runs a program in a shell with this controlling terminal. The shell stays after the program has ended, because
    /// the kernel would reset the settings of the terminal together with its session.
    pub(super) fn run(program: &str, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let (rows, columns) = (40, 160);
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let line = ioctl_tiocgptpeer(&person, flags).unwrap();
        tcsetwinsize(&line, winsize(rows, columns)).unwrap();
        let before = tcgetattr(&line).unwrap();
        let script = format!("\"$0\" \"$@\"; echo \"{ENDED}$?.\"; read line");
        let shell = Command::new("setsid")
            .args(["--ctty", "sh", "-c", &script, program])
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .stdin(line.try_clone().unwrap())
            .stdout(line.try_clone().unwrap())
            .stderr(line.try_clone().unwrap())
            .spawn()
            .unwrap();
        let (height, width) = size(rows, columns);
        let emulator = vt100::Parser::new(height, width, 0);
        let drawn = Arc::new(Mutex::new(Drawn { emulator, bytes: Vec::new() }));
        let keyboard = File::from(person);
        std::thread::spawn({
            let (drawn, mut output) = (Arc::clone(&drawn), keyboard.try_clone().unwrap());
            move || {
                let mut buffer = [0; 4096];
                // It fails once no process has the other end open.
                while let Ok(count @ 1..) = output.read(&mut buffer) {
                    let mut drawn = drawn.lock().unwrap_or_else(PoisonError::into_inner);
                    drawn.emulator.process(&buffer[..count]);
                    drawn.bytes.extend_from_slice(&buffer[..count]);
                }
            }
        });
        Self { shell, keyboard, line, before, drawn }
    }

    /// Process ID of the program.
    pub(super) fn id(&self) -> u32 {
        let shell = self.shell.id();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.trim().parse().unwrap()
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Resizes the terminal; the kernel notifies the program.
    pub(super) fn resize(&mut self, rows: u16, columns: u16) {
        let (height, width) = size(rows, columns);
        self.drawn.lock().unwrap().emulator.screen_mut().set_size(height, width);
        tcsetwinsize(&self.keyboard, winsize(rows, columns)).unwrap();
    }

    pub(super) fn text(&self) -> String {
        self.drawn.lock().unwrap().emulator.screen().contents()
    }

    /// All bytes that the program has written.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.drawn.lock().unwrap().bytes.clone()
    }

    /// Whether any character on the screen has a colour.
    pub(super) fn is_coloured(&self) -> bool {
        let drawn = self.drawn.lock().unwrap();
        let screen = drawn.emulator.screen();
        let (rows, columns) = screen.size();
        let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        cells
            .filter_map(|(row, column)| screen.cell(row, column))
            .any(|cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default)
    }

    /// Waits until the screen contains all of these texts.
    pub(super) fn shows(&mut self, texts: &[&str]) {
        self.until(&format!("{texts:?}"), |text| texts.iter().all(|one| text.contains(one)));
    }

    /// Waits until the screen satisfies a condition.
    pub(super) fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let started = Instant::now();
        loop {
            let text = self.text();
            if is_so(&text) {
                return;
            }
            assert!(!text.contains(ENDED), "it ended before it showed {what}:\n{text}");
            assert!(started.elapsed() < DEADLINE, "it does not show {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the program ends, and returns its exit code. Checks that the terminal is restored: lines, echo,
    /// signals, screen and cursor.
    pub(super) fn ended(&mut self) -> i32 {
        self.until("its end", |text| text.contains(ENDED));
        let now = tcgetattr(&self.line).unwrap();
        assert_eq!(now.local_modes, self.before.local_modes);
        assert_eq!(now.input_modes, self.before.input_modes);
        assert_eq!(now.output_modes, self.before.output_modes);
        assert_eq!(now.control_modes, self.before.control_modes);
        let drawn = self.drawn.lock().unwrap();
        let screen = drawn.emulator.screen();
        assert!(!screen.alternate_screen(), "the other screen is still there");
        assert!(!screen.hide_cursor(), "the cursor is still hidden");
        let text = screen.contents();
        let code = text.split_once(ENDED).and_then(|(_, rest)| rest.split_once('.')).unwrap().0;
        code.parse().unwrap()
    }
}

fn winsize(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.shell.kill();
        _ = self.shell.wait();
    }
}
