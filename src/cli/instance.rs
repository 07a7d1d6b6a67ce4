//! stub
#[derive(Debug, clap::Args)]
pub(super) struct InstanceArgs {}
pub(super) async fn run(_args: InstanceArgs) -> Result<(), Box<dyn std::error::Error>> {
    todo!()
}
