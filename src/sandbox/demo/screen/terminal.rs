//! The terminal: borrowed, painted on, and given back whatever happens.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{cursor, execute, terminal};
use futures_util::StreamExt as _;

use super::{Line, draw, paint};
use crate::sandbox::demo::snapshot::Snapshot;

/// What a person pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character.
    Char(char),
    /// Ctrl-C, which comes as a key while the terminal is ours.
    Interrupt,
    /// The terminal has another size.
    Resized,
}

/// A terminal in raw mode with a screen of its own. Dropped, or on a panic of any thread, it is as it
/// was.
pub(crate) struct Screen {
    /// What it shows.
    shown: Vec<Line>,
    size: (u16, u16),
    colour: bool,
    keys: EventStream,
    ours: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal that standard output is.
    ///
    /// # Errors
    /// Where it can't be put into raw mode.
    pub(crate) fn open(colour: bool) -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let ours = Arc::new(AtomicBool::new(true));
        // From here on the drop gives it back.
        let screen = Self {
            shown: Vec::new(),
            size: (0, 0),
            colour,
            keys: EventStream::new(),
            ours: ours.clone(),
        };
        // A panic's message would be lost with the screen that it is written on.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&ours);
            hook(panic);
        }));
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Shows a snapshot.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        if !self.ours.load(Ordering::Relaxed) {
            return Err(io::Error::other("a panic took it")); // its message stays in sight
        }
        let size = terminal::size()?;
        let mut out = io::stdout().lock();
        if size != self.size {
            (self.size, self.shown) = (size, Vec::new());
            execute!(out, terminal::Clear(terminal::ClearType::All))?;
        }
        let lines = draw(snapshot, size.0, size.1);
        out.write_all(paint(&self.shown, &lines, self.colour).as_bytes())?;
        out.flush()?;
        self.shown = lines;
        Ok(())
    }

    /// The next key; `None` once there can be none any more. Cancel-safe.
    pub(crate) async fn key(&mut self) -> Option<Key> {
        loop {
            match self.keys.next().await? {
                Err(error) => {
                    tracing::warn!(%error, "the terminal can't be read");
                    return None;
                }
                Ok(Event::Resize(..)) => return Some(Key::Resized),
                Ok(Event::Key(event)) => {
                    if let Some(key) = key(event) {
                        return Some(key);
                    }
                }
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(&self.ours);
    }
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('c') if control => Some(Key::Interrupt),
        KeyCode::Char(key) if !control => Some(Key::Char(key)),
        _ => None,
    }
}

/// Once. Failures have no remedy: the terminal is gone.
fn give_back(ours: &AtomicBool) {
    if ours.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_characters_and_an_interrupt() {
        let press = |code, modifiers| key(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('p'), none), Some(Key::Char('p')));
        assert_eq!(
            press(KeyCode::Char('P'), KeyModifiers::SHIFT),
            Some(Key::Char('P'))
        );
        assert_eq!(
            press(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Key::Interrupt)
        );
        assert_eq!(press(KeyCode::Char('k'), KeyModifiers::CONTROL), None);
        assert_eq!(press(KeyCode::Up, none), None);
        let mut released = KeyEvent::new(KeyCode::Char('p'), none);
        released.kind = KeyEventKind::Release;
        assert_eq!(key(released), None);
    }
}
