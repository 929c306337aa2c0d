//! What idle time is put down to.

use super::*;

/// Two CPUs with ticks of 100 ps, of which the second idles from 0 on, with a stopped tick.
fn idle() -> Idlers {
    let idlers = Idlers::new(2);
    idlers.tick_ps.set(100);
    idlers.looked(1, IdleCause::Hot, 0);
    idlers.ticks(1, false, 0);
    idlers
}

#[test]
fn a_look_counts_for_a_tick_and_then_that_nobody_looks() {
    let idlers = idle();
    idlers.queues(IdleCause::Forked);
    idlers.crowd_begins(50);
    idlers.looked(1, IdleCause::Hot, 60);
    idlers.crowd_ends(200);
    idlers.crowd_begins(300);
    idlers.serves_not(IdleCause::KickLost, 410);
    idlers.runs(1, 450);
    let times = idlers.times(1000);
    let of = |cause| times[cause as usize];
    assert_eq!(of(IdleCause::Forked), 10);
    assert_eq!(of(IdleCause::Hot), 100);
    assert_eq!(of(IdleCause::NotServed), 40 + 10);
    assert_eq!((of(IdleCause::Moved), of(IdleCause::KickLost)), (100, 40));
    assert_eq!(times.iter().sum::<u64>(), 10 + 140 + 150);
}

#[test]
fn a_look_that_is_due_and_does_not_come_is_unexplained() {
    let idlers = idle();
    idlers.crowd_begins(0);
    // The look for all is due at 200, and this CPU's own, once its tick goes on, at 350.
    idlers.serves(IdleCause::NotDue, 200, IdleCause::NotServed, 0);
    idlers.serves(IdleCause::Asked, 300, IdleCause::Unexplained, 250);
    idlers.due(1, 350);
    idlers.ticks(1, true, 400);
    idlers.runs(1, 600);
    let times = idlers.times(1000);
    let of = |cause| times[cause as usize];
    assert_eq!(
        (of(IdleCause::Moved), of(IdleCause::NotServed), of(IdleCause::Asked)),
        (100, 50, 50)
    );
    assert_eq!(of(IdleCause::NotDue), 100 + 150);
    assert_eq!(of(IdleCause::Unexplained), 100 + 50, "asked and not looked at, then overdue");
}

#[test]
fn a_wakeup_that_passes_over_an_idle_cpu_it_searches_is_unexplained() {
    let idlers = idle();
    idlers.crowd_begins(10);
    idlers.passed_over(0..2, 0, 20);
    assert_eq!(idlers.times(30)[IdleCause::Unexplained as usize], 0, "it began to idle meanwhile");
    idlers.passed_over(0..2, 25, 40);
    assert_eq!(idlers.times(50)[IdleCause::Unexplained as usize], 10);
}

#[test]
fn causes_stand_in_the_order_of_their_numbers() {
    for (number, cause) in IdleCause::ALL.iter().enumerate() {
        assert_eq!(*cause as usize, number);
    }
}
