//! What the client promises, over real sockets: that no answer can hurt it, and that credentials may
//! change under load.

mod bad_input;
mod certificates;
mod command_line;
mod credentials;
mod identities;
mod raw_server;
mod refusal;
