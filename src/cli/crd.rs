//! stub
pub(super) fn run() -> Result<(), std::io::Error> {
    todo!()
}
