//! The files of the directory `rcu` of debugfs, as `kernel/rcutree_trace.c` of 3.0 prints them.
//! Each text is for one flavour, without the line that names it. Reading them costs a simulated CPU
//! nothing, so it does not affect a run.

use super::{Local, Rcu, Steps};
use crate::{Atomic, Platform};
use core::fmt::Write as _;

/// Returns `letter` if there is any, else the dot that marks none.
fn mark(letter: char, any: bool) -> char {
    if any { letter } else { '.' }
}

impl<P: Platform, C> Local<P, C> {
    fn data_text(&self, cpu: usize) -> String {
        let (counts, dynticks) = (self.counts.get(), self.dynticks.get());
        let (parts, length) = (self.segments.get(), self.callbacks.borrow().len());
        let limit = isize::try_from(self.limit.get()).unwrap_or(isize::MAX);
        format!(
            "{cpu:3} c={} g={} pq={} pqc={} qp={} dt={dynticks}/{}/0 df={} of=0 ri={} \
             ql={length} qs={}{}{}{} b={limit} ci={} co=0 ca=0\n",
            self.completed.get(),
            self.gpnum.get(),
            u8::from(self.passed.get()),
            self.tag.get(),
            u8::from(self.owes.get()),
            dynticks % 2,
            counts.stopped,
            counts.hurried,
            mark('N', parts.next > 0),
            mark('R', parts.next_ready > 0),
            mark('W', parts.wait > 0),
            mark('D', parts.done > 0),
            counts.invoked
        )
    }

    fn pending_text(&self, cpu: usize) -> String {
        let counts = self.counts.get();
        format!(
            "{cpu:3} np={} qsp={} rpq={} cbr={} cng={} gpc={} gps={} nf={} nn={}\n",
            counts.asked,
            counts.owes_qs,
            counts.report_qs,
            counts.callbacks_ready,
            counts.needs_period,
            counts.period_ended,
            counts.period_began,
            counts.force_due,
            counts.no_work
        )
    }
}

impl<P: Platform, C, S: Steps> Rcu<P, C, S> {
    fn each_cpu(&self, text: impl Fn(&Local<P, C>, usize) -> String) -> String {
        self.locals.iter().enumerate().map(|(cpu, local)| text(local, cpu)).collect()
    }

    /// `rcudata`: a line for each CPU.
    pub fn data_text(&self) -> String {
        self.each_cpu(Local::data_text)
    }

    /// `rcu_pending`: a line for each CPU.
    pub fn pending_text(&self) -> String {
        self.each_cpu(Local::pending_text)
    }

    /// `rcugp`: the line of the flavour `name`.
    pub fn period_text(&self, name: &str) -> String {
        let numbers = &self.tree.numbers.0;
        let (completed, gpnum) = (numbers.completed.peek(), numbers.gpnum.peek());
        format!("{name}: completed={}  gpnum={gpnum}\n", completed.cast_signed())
    }

    /// `rcuhier`: its state at `jiffies`, and a line for each level of the tree.
    pub fn tree_text(&self, jiffies: u64) -> String {
        let tree = &self.tree;
        let (completed, gpnum) = (tree.numbers.completed.peek(), tree.numbers.gpnum.peek());
        let forces = tree.forces.get();
        let state = if completed == gpnum { 0 } else { tree.signaled.get() as u32 };
        let mut text = format!(
            "c={completed} g={gpnum} s={state} jfq={} j={:x} nfqs={}/nfqsng={}({}) fqlh={}\n",
            tree.force_at.get().cast_signed() - jiffies.cast_signed(),
            jiffies & 0xffff,
            forces.all,
            forces.in_vain,
            forces.all - forces.in_vain,
            forces.beaten
        );
        for (number, node) in tree.nodes.iter().enumerate() {
            if number == 1 {
                text.push('\n');
            }
            let mask = node.hot().qsmask.peek();
            let place = node.parent.map_or(0, |(_, bit)| bit.trailing_zeros());
            let blocked = node.blocked.borrow();
            let (held, any) = (mark('G', blocked.is_owed()), mark('T', blocked.state().0));
            let (first, last) = (node.cpus.start, node.cpus.end - 1);
            let _infallible = write!(
                text,
                "{mask:x}/{:x} {held}.>{any} {first}:{last} ^{place}    ",
                node.children
            );
        }
        text.push('\n');
        text
    }

    /// `rcuboost`: a line for each leaf, with whether its thread sleeps (`W`) or lends (`R`). Balks
    /// are not counted.
    pub fn boost_text(&self, jiffies: u64) -> String {
        let leaves = self.tree.leaves().map(|number| &self.tree.nodes[number]);
        let line = |leaf: &super::tree::Node<P>| {
            let blocked = leaf.blocked.borrow();
            let (any, boosting) = blocked.state();
            let boosts_normal = boosting && blocked.is_owed();
            format!(
                "{}:{} tasks={}{}{}{} kt={} ntb={} neb={} nnb={} j={:04x} bt={:04x}\n",
                leaf.cpus.start,
                leaf.cpus.end - 1,
                mark('T', any),
                mark('N', blocked.is_owed()),
                mark('E', blocked.is_expedited()),
                mark('B', boosts_normal),
                if boosts_normal || blocked.is_expedited() { 'R' } else { 'W' },
                blocked.boosts,
                blocked.expedited_boosts,
                blocked.boosts - blocked.expedited_boosts,
                jiffies & 0xffff,
                blocked.boost_at() & 0xffff,
            )
        };
        leaves.map(line).collect()
    }
}
