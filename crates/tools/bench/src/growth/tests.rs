use super::*;

#[test]
fn every_curve_begins_small_and_ends_where_it_is_asked_to() {
    let range = |name| {
        let plan = PLANS.iter().find(|plan| plan.name == name).unwrap();
        (plan.sizes[0], *plan.sizes.last().unwrap())
    };
    assert_eq!(range("daemons"), (1, 64));
    assert_eq!(range("stripes"), (1, 64));
    assert_eq!(range("clients"), (1, 256));
    assert_eq!(range("file_sizes"), (1 << 10, 1 << 40));
    assert_eq!(range("directory").1, 1_000_000);
    assert_eq!(range("pieces"), (1, 100_000));
}

#[test]
fn sizes_rise_and_a_quick_run_takes_three_of_them_or_fewer() {
    for plan in PLANS {
        assert!(plan.sizes.windows(2).all(|pair| pair[0] < pair[1]), "{}", plan.name);
        assert!(plan.quick.windows(2).all(|pair| pair[0] < pair[1]), "{}", plan.name);
        assert_eq!(plan.quick.len(), 3, "{}", plan.name);
        assert_eq!(plan.quick[0], plan.sizes[0], "{}", plan.name);
    }
}

#[test]
fn a_run_takes_the_sizes_that_it_is_asked_for() {
    let args = GrowthArgs::default();
    let plan = &PLANS[0];
    assert_eq!(plan.chosen(&args), plan.sizes);
    assert_eq!(plan.chosen(&GrowthArgs { quick: true, ..args.clone() }), plan.quick);
    assert_eq!(plan.chosen(&GrowthArgs { smallest: true, ..args }), [1]);
}

#[test]
fn a_curve_that_is_not_there_is_an_error_with_those_that_are() {
    assert_eq!(chosen(&[]).unwrap().len(), PLANS.len());
    assert!(chosen(&["x".to_owned()]).err().unwrap().to_string().contains("try: daemons, stripes"));
}
