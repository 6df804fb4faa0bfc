//! In which order objects can be made: owners first. Pure.

use crate::graph::Graph;

/// What moves, in groups: everything that an object belongs to is in an earlier group. Deleted in reverse.
///
/// The error names the objects whose owners form a circle.
pub(crate) fn groups(graph: &Graph) -> Result<Vec<Vec<usize>>, Vec<String>> {
    let moves = |place: usize| graph.nodes[place].moves;
    let mut left: Vec<usize> = (0..graph.nodes.len()).filter(|place| moves(*place)).collect();
    let mut placed = vec![false; graph.nodes.len()];
    let mut groups = Vec::new();
    while !left.is_empty() {
        let (group, rest): (Vec<usize>, Vec<usize>) = left.iter().partition(|place| {
            let node = &graph.nodes[**place];
            let owners = node.owners.iter().map(|(owner, _)| *owner).chain(node.soft_owners.iter().copied());
            owners.filter(|owner| moves(*owner)).all(|owner| placed[owner])
        });
        if group.is_empty() {
            return Err(rest.into_iter().map(|place| graph.nodes[place].object.title()).collect());
        }
        for place in &group {
            placed[*place] = true;
        }
        groups.push(group);
        left = rest;
    }
    Ok(groups)
}
