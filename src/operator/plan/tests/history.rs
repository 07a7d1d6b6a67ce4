//! Random histories of faults.

use proptest::prelude::*;

use super::running;
use crate::api::PROMOTE_ANNOTATION;

#[derive(Clone, Debug)]
enum Fault {
    Kill(u32),
    Delete(u32),
    DeleteByForce(u32),
    Cut(u32),
    Slow(u32),
    Heal,
    Promote(u32),
    Scale(u32),
    Tick(bool),
    /// A reconcile whose operator dies after so many effects.
    Reconcile(usize),
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        1 => (0u32..5).prop_map(Fault::Kill),
        1 => (0u32..5).prop_map(Fault::Delete),
        1 => (0u32..5).prop_map(Fault::DeleteByForce),
        1 => (0u32..5).prop_map(Fault::Cut),
        1 => (0u32..5).prop_map(Fault::Slow),
        2 => Just(Fault::Heal),
        1 => (0u32..3).prop_map(Fault::Promote),
        1 => (1u32..6).prop_map(Fault::Scale),
        6 => any::<bool>().prop_map(Fault::Tick),
        3 => (0usize..6).prop_map(Fault::Reconcile),
        3 => Just(Fault::Reconcile(usize::MAX)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// Whatever happens, in whatever order, with the operator dying between any two effects: no
    /// acknowledged write is lost (checked whenever a primary is opened and at the end), and once
    /// faults stop the cluster comes to rest and is left alone.
    #[test]
    fn no_history_loses_an_acknowledged_write(
        instances in 1u32..6,
        faults in proptest::collection::vec(fault(), 0..60),
    ) {
        let mut world = running(instances);
        for fault in faults {
            match fault {
                Fault::Kill(o) => world.kill(o),
                Fault::Delete(o) => world.delete(o),
                Fault::DeleteByForce(o) => world.delete_by_force(o),
                Fault::Cut(o) => { world.cut.insert(o); }
                Fault::Slow(o) => { world.slow.insert(o); }
                Fault::Heal => {
                    world.cut.clear();
                    world.slow.clear();
                }
                Fault::Promote(o) => {
                    let promote = (PROMOTE_ANNOTATION.to_owned(), format!("demo-{o}"));
                    world.cluster.metadata.annotations.extend([promote]);
                }
                Fault::Scale(n) => world.cluster.spec.instances = n,
                Fault::Tick(write) => world.tick(write),
                Fault::Reconcile(budget) => world.reconcile(budget),
            }
        }
        world.cut.clear();
        world.slow.clear();
        world.cluster.metadata.annotations.clear();
        world.must_settle();
    }
}
