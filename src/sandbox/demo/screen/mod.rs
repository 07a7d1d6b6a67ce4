//! The screen: [`draw`] makes lines of a snapshot and is pure, [`Screen`] puts them on a terminal.

mod draw;
mod line;
mod paint;
mod terminal;

pub(crate) use draw::draw;
pub(crate) use line::{Line, Style};
pub(crate) use paint::paint;
pub(super) use terminal::{Key, Screen};
