//! The terminal: taken over, drawn on, given back whatever happens.

use super::{Effect, Msg, State, draw};
use base64::Engine as _;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use crossterm::cursor::Show;
use crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, Stdout, Write};
use std::time::{Duration, Instant};

/// How often the time is looked at, while something plays and else.
const PLAYING: Duration = Duration::from_millis(200);
const RESTING: Duration = Duration::from_secs(1);
/// Messages that are taken before anything is drawn.
const AT_ONCE: usize = 512;
/// Bytes that are put into a clipboard.
const COPIED: usize = 64 << 10;

/// The terminal while it is ours. Dropped, it is as it was.
struct Taken {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    has_mouse: bool,
}

impl Taken {
    fn take(has_mouse: bool) -> io::Result<Self> {
        enable_raw_mode()?;
        let enter = || -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
            execute!(io::stdout(), EnterAlternateScreen)?;
            if has_mouse {
                execute!(io::stdout(), EnableMouseCapture)?;
            }
            Terminal::new(CrosstermBackend::new(io::stdout()))
        };
        match enter() {
            Ok(terminal) => Ok(Self { terminal, has_mouse }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Gives the terminal back until the shell wakes us.
    #[cfg(unix)]
    fn sleep(&mut self) -> io::Result<()> {
        give_back();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        if self.has_mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        self.terminal.clear()
    }

    #[cfg(not(unix))]
    fn sleep(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal. Nothing can be done about one that was closed.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
}

/// Should the thread that draws panic, the terminal is given back before anything is said. What happens to others is
/// theirs to report.
fn guard() {
    let ours = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == ours {
            give_back();
            before(info);
        }
    }));
}

/// Keys, the mouse and sizes become messages, until nobody listens.
fn listen(messages: Sender<Msg>) {
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let msg = match event {
                Event::Key(key) => Msg::Key(key),
                Event::Mouse(mouse) => Msg::Mouse(mouse),
                Event::Resize(width, height) => Msg::Resize(width, height),
                _ => continue,
            };
            if messages.send(msg).is_err() {
                return;
            }
        }
        // The terminal was closed.
        let _ = messages.send(Msg::Quit);
    });
}

/// Puts a text into the clipboard of whoever sits at the terminal, also over ssh: OSC 52.
fn copy(text: &str) -> io::Result<()> {
    let end = (0..=text.len().min(COPIED)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let packed = base64::engine::general_purpose::STANDARD.encode(&text[..end]);
    let mut out = io::stdout();
    write!(out, "\u{1b}]52;c;{packed}\u{7}")?;
    out.flush()
}

/// Runs until the user leaves. Effects that need no terminal are handed on.
pub fn run(
    mut state: State,
    (sender, receiver): (Sender<Msg>, Receiver<Msg>),
    has_mouse: bool,
    now: impl Fn() -> i64,
    mut outside: impl FnMut(Effect),
) -> io::Result<()> {
    guard();
    let mut taken = Taken::take(has_mouse)?;
    let size = taken.terminal.size()?;
    let mut effects = state.update(Msg::Tick(now()));
    effects.extend(state.update(Msg::Resize(size.width, size.height)));
    listen(sender);
    let mut ticked = Instant::now();
    loop {
        for effect in effects.drain(..) {
            match effect {
                Effect::Quit => return Ok(()),
                Effect::Suspend => taken.sleep()?,
                Effect::Redraw => taken.terminal.clear()?,
                Effect::Copy(text) => copy(&text)?,
                other => outside(other),
            }
        }
        taken.terminal.draw(|frame| draw::draw(&state, frame))?;
        let every = if state.clock.is_playing && !state.is_live { PLAYING } else { RESTING };
        match receiver.recv_timeout((ticked + every).saturating_duration_since(Instant::now())) {
            Ok(msg) => effects.extend(state.update(msg)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        for _ in 0..AT_ONCE {
            let Ok(msg) = receiver.try_recv() else { break };
            effects.extend(state.update(msg));
        }
        if ticked.elapsed() >= every {
            ticked = Instant::now();
            effects.extend(state.update(Msg::Tick(now())));
        }
    }
}
