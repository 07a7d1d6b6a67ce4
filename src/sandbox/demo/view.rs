//! Where a demo is shown: a screen on a terminal, or lines.

use std::io::{self, IsTerminal as _, Write as _};

use super::lines::changes;
use super::screen::{Key, Screen};
use super::snapshot::Snapshot;

/// A screen, or lines.
pub(super) enum View {
    /// On a terminal.
    Screen(Box<Screen>),
    /// Only what changed since this.
    Lines(Box<Snapshot>),
}

impl View {
    /// A screen where there is a terminal, but for `once`, which is read afterwards.
    ///
    /// # Errors
    /// Where the terminal can't be used.
    pub(super) fn open(once: bool) -> io::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let terminal = io::stdin().is_terminal()
            && io::stdout().is_terminal()
            && set("TERM").is_none_or(|term| term != "dumb");
        if once || !terminal {
            return Ok(Self::Lines(Box::default()));
        }
        Ok(Self::Screen(Box::new(Screen::open(
            set("NO_COLOR").is_none(),
        )?)))
    }

    /// Shows how it is now.
    ///
    /// # Errors
    /// Where nobody can see it any more.
    pub(super) fn show(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.show(snapshot),
            Self::Lines(before) => {
                let mut out = io::stdout().lock();
                if before.mysql.is_empty() {
                    writeln!(out, "MySQL is {}", snapshot.mysql)?;
                    let kubeconfig = snapshot.kubeconfig.display();
                    writeln!(out, "kubectl --kubeconfig {kubeconfig} get myc,pods")?;
                }
                for line in changes(before, snapshot) {
                    writeln!(out, "{line}")?;
                }
                out.flush()?;
                **before = snapshot.clone();
                Ok(())
            }
        }
    }

    /// The next key; never where there are none. Cancel-safe.
    pub(super) async fn key(&mut self) -> Key {
        match self {
            Self::Screen(screen) => match screen.key().await {
                Some(key) => key,
                None => std::future::pending().await,
            },
            Self::Lines(_) => std::future::pending().await,
        }
    }
}
