//! Memory nodes, and the order in which each asks the others for pages.

use convoy_machine::Preset;

/// Memory nodes of `machine`: one for each group of `topology.packages_per_node` packages. Where
/// the preset says nothing of distances, all packages share one memory.
pub(super) fn count(machine: &Preset) -> usize {
    let topology = &machine.topology;
    if machine.numa.is_none() { 1 } else { topology.cpus.div_ceil(topology.cpus_per_node()) }
}

/// The node of `cpu`.
pub(super) fn of(machine: &Preset, cpu: usize) -> usize {
    cpu / machine.topology.cpus_per_node()
}

/// By node: all `nodes` nodes in the order in which its CPUs look for pages (`build_zonelists`):
/// itself, then from near to far. At equal distance, nodes with greater numbers come first, and
/// among these the node that fewer others have as their first at that distance.
pub(super) fn fallbacks(machine: &Preset, nodes: usize) -> Vec<Vec<usize>> {
    let mut load = vec![0; nodes];
    let order = |from| {
        let distance = |to| machine.node_distance(from, to);
        let mut order = vec![from];
        while let Some(next) = (0..nodes)
            .filter(|node| !order.contains(node))
            // The kernel adds one to the distance of a node with a smaller number.
            .min_by_key(|&node| (u32::from(distance(node)) + u32::from(node < from), load[node]))
        {
            if distance(next) != distance(order[order.len() - 1]) {
                load[next] = nodes - order.len();
            }
            order.push(next);
        }
        order
    };
    (0..nodes).map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(machine: &str) -> Vec<Vec<usize>> {
        let machine = Preset::named(machine).expect("shipped");
        fallbacks(&machine, count(&machine))
    }

    #[test]
    fn near_nodes_come_first_and_no_node_is_the_first_choice_of_all() {
        assert_eq!(orders("quad-2008-two-dies"), [[0]]);
        assert_eq!(orders("server-2x64"), [[0, 1], [1, 0]]);
        let machine = Preset::named("dl980-80-2013").expect("shipped");
        let orders = orders("dl980-80-2013");
        for (from, order) in orders.iter().enumerate() {
            let distances: Vec<u8> =
                order.iter().map(|&to| machine.node_distance(from, to)).collect();
            assert_eq!(distances, [10, 14, 23, 23, 27, 27, 27, 27], "node {from}");
        }
        // Nodes of the other half are the first of theirs by turns.
        let first_far: std::collections::BTreeSet<usize> =
            orders.iter().map(|order| order[4]).collect();
        assert!(first_far.len() > 2, "{orders:?}");
    }
}
