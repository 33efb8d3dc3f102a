"""torch-geometric: networks on a small graph, batches of graphs, pooling, message passing."""

import torch
from common import array, integers, set_weights, show, train
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    MessagePassing,
    SAGEConv,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected

edges = to_undirected(integers(10, 2, 24))
x, labels = array(10, 6), integers(3, 10)
show("degree", degree(edges[0], 10))
show("dense", to_dense_adj(add_self_loops(edges)[0]).sum((0, 1)))
show("softmax", softmax(array(edges.shape[1]), edges[0], num_nodes=10)[:8])


class Net(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


class Largest(MessagePassing):
    def __init__(self, inputs, outputs):
        super().__init__(aggr="max")
        self.linear = torch.nn.Linear(2 * inputs, outputs)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.linear(torch.cat([x_i, x_j - x_i], dim=1))


layers = {
    "gcn": (GCNConv(6, 8), GCNConv(8, 3)),
    "gat": (GATConv(6, 4, heads=2), GATConv(8, 3, heads=1)),
    "sage": (SAGEConv(6, 8), SAGEConv(8, 3)),
    "gin": (GINConv(torch.nn.Linear(6, 8)), GINConv(torch.nn.Linear(8, 3))),
    "largest": (Largest(6, 8), Largest(8, 3)),
}
for name, pair in layers.items():
    net = set_weights(Net(*pair), 0.3)
    step = lambda n=net: torch.nn.functional.cross_entropy(n(x, edges), labels)  # noqa: E731
    show(name, train(step, None, 4, torch.optim.Adam(net.parameters(), 1e-2)))
graphs = [
    Data(x=array(n, 6, seed=n), edge_index=integers(n, 2, 2 * n, seed=n)) for n in (3, 4, 5, 6)
]
batch = Batch.from_data_list(graphs)
show("mean", global_mean_pool(batch.x, batch.batch).sum(1))
show("max", global_max_pool(batch.x, batch.batch).sum(1))
for i, part in enumerate(DataLoader(graphs, batch_size=2)):
    show(f"part {i}", net(part.x, part.edge_index).sum(0))
