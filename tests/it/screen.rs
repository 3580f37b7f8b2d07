//! The terminal UI in a real terminal (tmux), as a person uses it.

use crate::support::root;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take until it is on the screen.
const PATIENCE: Duration = Duration::from_secs(40);

/// A terminal.
pub(crate) struct Screen {
    socket: String,
}

impl Screen {
    /// Runs `plimsoll tui` with these words in a terminal of this size; when it has ended, the screen shows how.
    pub(crate) fn start(name: &str, size: (u16, u16), words: &[&str], home: &Path) -> Self {
        Self::start_under(name, size, "", words, home)
    }

    /// The same under another program, which gets the terminal.
    pub(crate) fn start_under(
        name: &str,
        (width, height): (u16, u16),
        above: &str,
        words: &[&str],
        home: &Path,
    ) -> Self {
        let own = Self { socket: format!("plimsoll-{name}-{}", std::process::id()) };
        let quoted: String = words.iter().fold(String::new(), |all, word| all + &format!(" '{word}'"));
        let program = env!("CARGO_BIN_EXE_plimsoll");
        let run = format!(
            "env -i PATH=\"$PATH\" HOME='{}' TERM=screen-256color TMPDIR='{}' {above} '{program}' tui{quoted}; echo \
             \"EXIT $?\"; stty -a | tr ';' '\\n' | grep -o -E '^ ?-?(icanon|echo)\\b|-?icanon|-?echo\\b' | sort -u | \
             tr '\\n' ' '; echo; exec sleep 1000",
            home.display(),
            home.display()
        );
        let size = [width.to_string(), height.to_string()];
        let status = own.tmux(&["new-session", "-d", "-x", &size[0], "-y", &size[1], &run]);
        assert!(status.0, "tmux is needed: run .ci/setup first: {}", status.1);
        own
    }

    pub(crate) fn tmux(&self, words: &[&str]) -> (bool, String) {
        let out = Command::new("tmux")
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(words)
            .current_dir(root())
            .output()
            .unwrap();
        (
            out.status.success(),
            String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr),
        )
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).0);
    }

    /// Types a text, and Enter.
    pub(crate) fn line(&self, text: &str) {
        self.keys(&["-l", text]);
        self.keys(&["Enter"]);
    }

    pub(crate) fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).1
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let text = self.text();
            if is(&text) {
                return text;
            }
            assert!(began.elapsed() < PATIENCE, "never came: {what}; the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// The screen, once nothing on it changes for a third of a second: tmux also shows what is only half drawn.
    #[track_caller]
    pub(crate) fn settled(&self) -> String {
        let began = Instant::now();
        let mut before = self.text();
        while began.elapsed() < PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let now = self.text();
            if now == before {
                return now;
            }
            before = now;
        }
        panic!("the screen never rests; it shows:\n{before}");
    }

    /// The process of the program.
    pub(crate) fn process(&self) -> String {
        let pane = self.tmux(&["list-panes", "-F", "#{pane_pid}"]).1;
        let found = Command::new("pgrep").args(["-P", pane.trim()]).output().unwrap();
        String::from_utf8_lossy(&found.stdout).split_whitespace().next().unwrap().to_owned()
    }

    /// The program has ended well, and the terminal is as it was: lines, echo, no leftovers of the screen.
    #[track_caller]
    pub(crate) fn is_sane(&self) {
        let text = self.shows("EXIT 0");
        let text = if text.contains("icanon") { text } else { self.shows("icanon") };
        assert!(text.contains(" icanon") || text.contains("\nicanon") || text.contains("echo icanon"), "{text}");
        assert!(!text.contains("-icanon") && !text.contains("-echo"), "{text}");
        assert!(!text.contains("Overview"), "the screen was given back: {text}");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// A page of an apiserver with so many requests.
pub(crate) fn page(requests: u64) -> String {
    format!(
        "# TYPE apiserver_request_total counter\napiserver_request_total{{code=\"200\",component=\"apiserver\",\
         group=\"\",resource=\"pods\",scope=\"cluster\",subresource=\"\",verb=\"LIST\",version=\"v1\"}} {requests}\n\
         # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7e9\n"
    )
}
