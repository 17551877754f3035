use std::collections::HashSet;

use proptest::prelude::*;

use super::super::*;

#[test]
fn each_number_of_the_window_is_accepted_once_in_any_order() {
    let mut window = SequenceWindow::new();
    assert!(window.accept(1000));
    for sequence in (1000 - SEQUENCE_WINDOW + 1..1000).rev() {
        assert!(window.accept(sequence), "{sequence}");
        assert!(!window.accept(sequence), "{sequence} again");
    }
    assert!(!window.accept(1000));
}

#[test]
fn number_below_the_window_is_refused() {
    let mut window = SequenceWindow::new();
    assert!(window.accept(1000));
    assert!(!window.accept(1000 - SEQUENCE_WINDOW));
    assert!(!window.accept(0));
    assert!(window.accept(1000 - SEQUENCE_WINDOW + 1));
}

#[test]
fn first_number_may_be_zero() {
    let mut window = SequenceWindow::new();
    assert!(window.accept(0));
    assert!(!window.accept(0));
    assert!(window.accept(1));
}

#[test]
fn jump_beyond_the_window_forgets_all_before_it() {
    let mut window = SequenceWindow::new();
    assert!(window.accept(5));
    assert!(window.accept(5 + SEQUENCE_WINDOW));
    assert!(!window.accept(5));
    assert!(window.accept(6));
    assert!(window.accept(u32::MAX));
    assert!(!window.accept(5 + SEQUENCE_WINDOW));
    assert!(window.accept(u32::MAX - 1));
}

proptest! {
    #[test]
    fn window_equals_a_set_of_all_numbers(
        steps in proptest::collection::vec(prop_oneof![0u32..400, any::<u32>()], 0..200),
    ) {
        let mut window = SequenceWindow::new();
        let (mut seen, mut highest) = (HashSet::new(), 0);
        for sequence in steps {
            highest = highest.max(sequence);
            let expected = highest - sequence < SEQUENCE_WINDOW && seen.insert(sequence);
            prop_assert_eq!(window.accept(sequence), expected);
        }
    }
}
