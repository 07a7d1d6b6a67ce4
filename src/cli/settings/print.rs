//! The settings in words: `--print-config`, and the line in the log. Pure.

use std::fmt::Write as _;

use super::{Loaded, Settings, table};

impl Loaded {
    /// All options as a file for `--config`, each with where it came from.
    pub(in crate::cli) fn print(&self) -> String {
        let mut out = String::from(
            "# Options of `mainstay run`. Flags and environment variables go before this file; what is\n\
             # left out here has its default.\n",
        );
        for group in table::GROUPS {
            // Writing to a String can't fail.
            let _ = writeln!(out, "\n# --- {} ---", group.heading);
            for entry in group.entries {
                let (key, value) = (entry.key(), entry.field.show(&self.settings));
                // A path may hold anything, and a comment ends with its line.
                let source = self.source(entry.name).of(entry);
                let source = source.replace(char::is_control, "?");
                let _ = writeln!(out, "\n# {}\n{key}: {value} # {source}", entry.help);
            }
        }
        out
    }

    /// Which options differ from the defaults, as `workers=16 (flag --workers), …`; empty for none.
    pub(in crate::cli) fn differences(&self) -> String {
        let defaults = Settings::default();
        let differing = table::entries().filter_map(|entry| {
            let value = entry.field.show(&self.settings);
            let source = self.source(entry.name).of(entry);
            (value != entry.field.show(&defaults))
                .then(|| format!("{}={value} ({source})", entry.name))
        });
        differing.collect::<Vec<_>>().join(", ")
    }
}
