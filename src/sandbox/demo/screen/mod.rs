//! The screen: [`draw`] makes lines of a snapshot and is pure, [`Screen`] puts them on a terminal.

mod draw;
mod line;
mod paint;
mod terminal;

pub use draw::draw;
pub use line::{Line, Span, Style};
pub use paint::paint;
pub(super) use terminal::{Key, Screen};
