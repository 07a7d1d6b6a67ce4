//! The instance manager: PID 1 of a MySQL container.

mod protocol;

pub use protocol::{
    AppAccount, Command, CommandError, CommandRefusal, Follow, InstancePhase, InstanceStatus, PORT,
    Promote, TERM_HEADER, TOKEN_HEADER,
};
