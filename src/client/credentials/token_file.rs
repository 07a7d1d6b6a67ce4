//! A token in a file that somebody else rotates.

use std::path::Path;

use crate::client::secret::Secret;

/// The token in `file`, trimmed; an empty file is an error (it is being written, or broken).
pub(super) async fn read(file: &Path) -> Result<Secret, String> {
    let text = tokio::fs::read_to_string(file).await;
    let text =
        text.map_err(|error| format!("can't read token file {}: {error}", file.display()))?;
    match text.trim() {
        "" => Err(format!("token file {} is empty", file.display())),
        token => Ok(Secret::new(token)),
    }
}
