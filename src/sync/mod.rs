//! What tasks tell each other by, where the order in which tokio's own wakes them is random.
//!
//! The simulation replays a history from its seed, so whoever is woken must be woken in an order that
//! depends on nothing but what happened before.

pub mod watch;
