use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

/// The naive model: every transaction by itself.
type Model = BTreeSet<(&'static str, &'static str, u64)>;

fn models() -> impl Strategy<Value = Model> {
    let one = (
        prop::sample::select(vec![A, B]),
        prop::sample::select(vec!["", "tag_a", "b"]),
        1u64..25,
    );
    prop::collection::btree_set(one, 0..60)
}

fn text(model: &Model) -> String {
    let item = |(uuid, tag, number): &(&str, &str, u64)| match *tag {
        "" => format!("{uuid}:{number}"),
        tag => format!("{uuid}:{tag}:{number}"),
    };
    model.iter().map(item).collect::<Vec<_>>().join(",\n")
}

fn set(model: &Model) -> GtidSet {
    text(model).parse().unwrap()
}

proptest! {
    #[test]
    fn agrees_with_sets_of_single_transactions(a in models(), b in models()) {
        let (x, y) = (set(&a), set(&b));
        prop_assert_eq!(x.union(&y), set(&a.union(&b).copied().collect()));
        prop_assert_eq!(x.subtract(&y), set(&a.difference(&b).copied().collect()));
        prop_assert_eq!(x.is_subset_of(&y), a.is_subset(&b));
        prop_assert!(x.is_subset_of(&x.union(&y)));
        prop_assert_eq!(x.count(), a.len() as u64);
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.of(A), set(&a.iter().filter(|one| one.0 == A).copied().collect()));
    }

    #[test]
    fn single_transactions_are_added_and_found(numbers in prop::collection::vec(1u64..25, 0..40)) {
        let (mut set, mut model) = (GtidSet::default(), BTreeSet::new());
        for number in numbers {
            set.insert(A, number);
            model.insert((A, "", number));
        }
        prop_assert_eq!(&set, &self::set(&model));
        for number in 1..26 {
            prop_assert_eq!(set.contains(A, number), model.contains(&(A, "", number)));
        }
        prop_assert!(!set.contains(A, set.next(A)) && !set.contains(B, 1));
        prop_assert!((1..set.next(A)).all(|number| set.contains(A, number)));
    }

    #[test]
    fn prints_what_it_parses(a in models()) {
        let x = set(&a);
        prop_assert_eq!(x.to_string().parse::<GtidSet>().unwrap(), x);
    }

    #[test]
    fn never_panics(text in "[0-9a-f:,\\- _]{0,80}") {
        let _ = text.parse::<GtidSet>();
    }
}

#[test]
fn reads_the_servers_text() {
    let text = "4E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:11:Domain_1:8-52:7,\n3e11fa47-71ca-11e1-9e33-c80aa9429562:5";
    let set: GtidSet = text.parse().unwrap();
    assert_eq!(set.to_string(), format!("{A}:5,{B}:1-3:11:domain_1:7-52"));
    assert_eq!(set.count(), 1 + 4 + 46);
    assert_eq!("".parse::<GtidSet>().unwrap(), GtidSet::default());
}

#[test]
fn refuses_what_is_no_set() {
    for bad in [
        "x",
        A,
        "3e11fa47:1",
        &format!("{A}:0"),
        &format!("{A}:3-2"),
        &format!("{A}:tag"),
        &format!("{A}:a:b:1"),
        &format!("{A}:1:9223372036854775807"),
        &format!("{A}:+1"),
        &format!("{A}:1-"),
    ] {
        assert!(bad.parse::<GtidSet>().is_err(), "{bad}");
    }
}
