//! The command line that is made of the table.

use std::collections::BTreeMap;

use clap::builder::ArgAction;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::Settings;
use super::table::{Entry, GROUPS, Group, entries};
use super::value::Field;

/// What the command line says of the options in the table.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Given(BTreeMap<&'static str, Vec<String>>);

impl Given {
    /// What was given for a flag, if it was.
    pub(super) fn words(&self, name: &str) -> Option<&[String]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self::default();
        given.update_from_arg_matches(matches)?;
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for entry in entries() {
            if let Some(words) = matches.get_many::<String>(entry.name) {
                self.0.insert(entry.name, words.cloned().collect());
            }
        }
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        let defaults = Settings::default();
        let groups = GROUPS.iter();
        let arguments = groups.flat_map(|group| {
            let defaults = &defaults;
            group
                .entries
                .iter()
                .map(move |entry| argument(group, entry, defaults))
        });
        command.args(arguments)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(group: &Group, entry: &'static Entry, defaults: &Settings) -> Arg {
    let action = match entry.field {
        Field::List(..) => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let default = entry.field.show(defaults);
    let help = match default.trim_matches(['"', '[', ']']) {
        "" => entry.help.to_owned(),
        default => format!("{} [default: {default}]", entry.help),
    };
    Arg::new(entry.name)
        .long(entry.name)
        .value_name(entry.value)
        .help(help)
        .help_heading(group.heading)
        .action(action)
        // What is wrong with -1 is for us to say.
        .allow_negative_numbers(true)
}
