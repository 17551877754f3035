use super::slots::CallbackSlots;

#[test]
fn lowest_free_slot_is_used_first() {
    let mut slots = CallbackSlots::new(3);
    assert_eq!((slots.take(), slots.take()), (Some(0), Some(1)));
    assert_eq!(slots.highest_used(), 1);
    slots.release(0);
    assert_eq!((slots.take(), slots.take(), slots.take()), (Some(0), Some(2), None));
    for slot in [2, 0, 1] {
        slots.release(slot);
    }
    assert_eq!(slots.take(), Some(0));
}

#[test]
fn numbers_of_slots_are_independent() {
    let mut slots = CallbackSlots::new(2);
    assert_eq!((slots.next(0), slots.next(1)), (1, 1));
    slots.advance(1);
    assert_eq!((slots.next(0), slots.next(1)), (1, 2));
}

#[test]
fn slots_whose_callback_was_given_up_are_used_last() {
    let mut slots = CallbackSlots::new(2);
    let first = slots.take().unwrap();
    slots.sent(first);
    slots.release(first);
    assert_eq!((slots.take(), slots.take(), slots.take()), (Some(1), Some(0), None));
    slots.sent(0);
    slots.advance(0);
    slots.release(0);
    slots.release(1);
    assert_eq!(slots.take(), Some(0), "its reply has arrived");
}
